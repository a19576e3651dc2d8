//! The operation of a request for permission as the text of a notice, if it fits whole.

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;
use wire::hub::v1::{Envelope, RpcResponse, rpc};

use crate::auth::Secret;
use crate::hosts::{HostRequest, RpcWaiter};
use crate::routing::command;
use crate::services::Services;

/// The longest operation in a notice, in characters; phones show about this much.
const WHOLE: usize = 160;

/// The whole operation, in the true words of the host, as this user may see it. `None` if it is too long or has parts that a
/// notice does not show.
pub(super) async fn whole(
    services: &Services,
    (host, run, request): (&str, &str, &str),
    user: &str,
) -> Option<String> {
    let id = Secret::random().ok()?;
    let data = json!({ "request_id": id.expose(), "approval_id": request, "user": user });
    let Value::Object(data) = data else { return None };
    let (sender, response) = oneshot::channel();
    let frame = command(rpc::APPROVAL_SHOW, host, Some(run), data);
    let request = HostRequest {
        request_id: id.expose().to_owned(),
        rpc_type: rpc::APPROVAL_SHOW.to_owned(),
        run_id: Some(run.to_owned()),
        is_read: true,
        frame,
    };
    services.hosts.request(host, request, RpcWaiter::Hub(sender)).ok()?;
    let frame = timeout(services.limits.host_response, response).await.ok()?.ok()?;
    let envelope = Envelope::parse(std::str::from_utf8(&frame).ok()?).ok()?;
    let response: RpcResponse = envelope.decode().ok()?;
    fitting(&response.result.filter(|_| response.ok)?)
}

fn fitting(shown: &Value) -> Option<String> {
    let (operation, summary) = (&shown["operation"], shown["summary"].as_str()?);
    let has_no_env = operation["env"].as_object().is_none_or(serde_json::Map::is_empty);
    let has_no_input = operation["stdin_bytes"].as_u64().unwrap_or(0) == 0;
    let has_more = operation.get("diff").is_some() || !has_no_env || !has_no_input;
    // Text that a screen shows as something else than it is does not fit.
    let is_plain = summary.chars().all(|c| !c.is_control() && (c.is_ascii() || c.is_alphanumeric()));
    let cwd = shown["cwd"].as_str().or(operation["cwd"].as_str()).unwrap_or_default();
    let text = if cwd.is_empty() { summary.to_owned() } else { format!("{summary}\nin {cwd}") };
    (operation.is_object() && !has_more && is_plain && text.chars().count() <= WHOLE).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_operations_that_fit_whole_can_be_decided_in_a_notice() {
        let run = |summary: &str, more: Value| {
            let mut operation = json!({ "kind": "run", "cwd": "/w", "env": {}, "stdin_bytes": 0 });
            operation.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            fitting(&json!({ "summary": summary, "operation": operation }))
        };
        assert_eq!(run("run: rm x", json!({})).as_deref(), Some("run: rm x\nin /w"));
        assert_eq!(run("run: cat", json!({ "stdin_bytes": 4 })), None);
        assert_eq!(run("run: make", json!({ "env": { "CC": "evil" } })), None);
        assert_eq!(run("write: /w/x", json!({ "diff": "+a" })), None);
        assert_eq!(run(&"x".repeat(WHOLE), json!({})), None);
        for hidden in ["run: a\nb", "run: a\u{202e}b", "run: a\u{200b}b", "run: \u{1b}[2J"] {
            assert_eq!(run(hidden, json!({})), None, "{hidden:?}");
        }
        assert_eq!(fitting(&json!({ "summary": "run: x" })), None);
    }
}
