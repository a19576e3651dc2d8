//! Notices as messages to webhooks: plain JSON, and in the forms of ntfy, Slack and Telegram.

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Uri};
use link::dial::Request;
use serde_json::{Value, json};

use super::Notice;
use crate::store::{Webhook, WebhookForm};

/// The limit on the text of a message, in characters.
const MAX_TEXT: usize = 1000;

/// The request that sends a notice; `base` is the URL of the hub.
pub(super) fn request(to: &Webhook, notice: &Notice, base: &str) -> Result<Request, String> {
    let link = format!("{base}{}", notice.url);
    let (url, body) = match to.form {
        WebhookForm::Json => (to.url.clone(), plain(notice, &link)),
        WebhookForm::Ntfy => ntfy(&to.url, notice, &link)?,
        WebhookForm::Slack => (to.url.clone(), slack(notice, &link)),
        WebhookForm::Telegram => (to.url.clone(), telegram(to.chat_id.as_deref(), notice, &link)),
    };
    let mut request = Request::new(Method::POST, url);
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(token) = &to.token {
        let value = HeaderValue::try_from(format!("Bearer {token}"));
        request
            .headers
            .insert(AUTHORIZATION, value.map_err(|_| "the token is not valid in a header".to_owned())?);
    }
    request.body = body.to_string().into();
    Ok(request)
}

fn plain(notice: &Notice, link: &str) -> Value {
    let mut body = json!(notice);
    body["url"] = link.into();
    body
}

/// A message to the topic at the end of the URL; ntfy takes JSON at the path above it.
fn ntfy(url: &str, notice: &Notice, link: &str) -> Result<(String, Value), String> {
    let uri: Uri = url.parse().map_err(|_| "not a URL".to_owned())?;
    let (above, topic) = uri.path().trim_end_matches('/').rsplit_once('/').unwrap_or_default();
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err("not a URL".to_owned());
    };
    let priority = if notice.is_urgent() { 4 } else { 3 };
    let body = json!({
        "topic": topic,
        "title": notice.title,
        "message": cut(&notice.body),
        "click": link,
        "priority": priority,
        "actions": [{ "action": "view", "label": "Open", "url": link }],
    });
    Ok((format!("{scheme}://{authority}{above}/"), body))
}

/// Plain text in every place, so that no text of an agent is markup.
fn slack(notice: &Notice, link: &str) -> Value {
    let text = |text: &str| json!({ "type": "plain_text", "text": cut(text), "emoji": false });
    let escaped = notice.title.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut blocks = vec![json!({ "type": "section", "text": text(&notice.title) })];
    if !notice.body.is_empty() {
        blocks.push(json!({ "type": "section", "text": text(&notice.body) }));
    }
    let button = json!({ "type": "button", "text": text("Open"), "url": link });
    blocks.push(json!({ "type": "actions", "elements": [button] }));
    json!({ "text": escaped, "blocks": blocks })
}

/// Without `parse_mode`, the text is not markup.
fn telegram(chat_id: Option<&str>, notice: &Notice, link: &str) -> Value {
    json!({
        "chat_id": chat_id,
        "text": format!("{}\n{}\n{link}", notice.title, cut(&notice.body)),
        "link_preview_options": { "is_disabled": true },
    })
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Checks what a form needs beyond a URL.
pub(crate) fn check(webhook: &Webhook) -> Result<(), String> {
    match webhook.form {
        WebhookForm::Telegram if webhook.chat_id.is_none() => {
            Err("telegram needs chat_id; the URL is https://api.telegram.org/botTOKEN/sendMessage".to_owned())
        }
        WebhookForm::Ntfy => {
            let uri: Uri = webhook.url.parse().map_err(|_| "not a URL".to_owned())?;
            match uri.path().trim_matches('/').is_empty() {
                true => Err("the URL of ntfy ends with a topic, such as https://ntfy.sh/my-topic".to_owned()),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}
