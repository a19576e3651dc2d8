//! Actions: what a fence named `act.ID` declares.

use crate::scan::is_id;

/// An action of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// The id after `act.`.
    pub id: String,
    /// How the action runs.
    pub method: ActionMethod,
    /// The command or address, with its slots.
    pub target: String,
    /// Headers of the HTTP request, with their slots.
    pub headers: Vec<(String, String)>,
    /// The body of the HTTP request, with its slots.
    pub body: Option<String>,
    /// The values that a caller gives.
    pub fields: Vec<Field>,
    /// The template of the response.
    pub response: Option<String>,
}

/// How an action runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionMethod {
    /// As a shell command.
    Cli,
    /// As an HTTP request.
    Get,
    /// As an HTTP request with a body.
    Post,
    /// As an HTTP request with a body.
    Put,
    /// As an HTTP request with a body.
    Patch,
    /// As an HTTP request.
    Delete,
}

/// A value that a caller of an action gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The name of the flag and the slot.
    pub name: String,
    /// The letter of the short flag.
    pub alias: Option<char>,
    /// The declared type; only `boolean` changes how flags are read.
    pub kind: String,
    /// Whether the action does not run without it.
    pub is_required: bool,
    /// What the document says about it.
    pub description: Option<String>,
    /// The value without a flag.
    pub default: Option<String>,
}

impl ActionMethod {
    /// The word in a document and of HTTP.
    pub fn name(self) -> &'static str {
        match self {
            ActionMethod::Cli => "CLI",
            ActionMethod::Get => "GET",
            ActionMethod::Post => "POST",
            ActionMethod::Put => "PUT",
            ActionMethod::Patch => "PATCH",
            ActionMethod::Delete => "DELETE",
        }
    }

    /// Whether the request has a body.
    pub fn has_body(self) -> bool {
        matches!(self, ActionMethod::Post | ActionMethod::Put | ActionMethod::Patch)
    }

    fn parse(word: &str) -> Option<ActionMethod> {
        use ActionMethod::*;
        [Cli, Get, Post, Put, Patch, Delete]
            .into_iter()
            .find(|method| method.name().eq_ignore_ascii_case(word))
    }
}

impl Action {
    /// Reads the lines of a fence; `None` if the first line is not a method and a target.
    pub fn parse(id: &str, text: &str) -> Option<Action> {
        let mut lines = text.lines();
        let first = lines.next()?.trim();
        let (word, rest) = first.split_once(char::is_whitespace)?;
        let (method, rest) = (ActionMethod::parse(word)?, rest.trim());
        if !is_id(id) || rest.is_empty() {
            return None;
        }
        let (target, headers, body) = match method {
            ActionMethod::Cli => (rest.to_owned(), Vec::new(), None),
            _ => http_target(rest),
        };
        let fields = lines.filter_map(field).collect();
        Some(Action { id: id.to_owned(), method, target, headers, body, fields, response: None })
    }

    /// The field with a name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The command that invokes the action, with its required fields.
    pub fn invocation(&self) -> String {
        let mut text = format!("/act.{}", self.id);
        for field in self.fields.iter().filter(|field| field.is_required) {
            text.push_str(&format!(" --{} <{}>", field.name, field.kind));
        }
        text
    }

    /// The flags of the action, one per line, below its name.
    pub fn schema(&self) -> String {
        let mut text = format!("/act.{}", self.id);
        if self.fields.is_empty() {
            text.push_str("\n   (no flags)");
        }
        for field in &self.fields {
            let alias = field.alias.map(|letter| format!("-{letter}, ")).unwrap_or_default();
            let need = if field.is_required { "required" } else { "optional" };
            text.push_str(&format!("\n   {alias}--{} <{}> ({need})", field.name, field.kind));
            if let Some(description) = &field.description {
                text.push_str(&format!(" — {description}"));
            }
        }
        text
    }
}

/// Several schemas with a blank line between them.
pub fn schemas(actions: &[Action]) -> String {
    actions.iter().map(Action::schema).collect::<Vec<_>>().join("\n\n")
}

type HttpTarget = (String, Vec<(String, String)>, Option<String>);

/// `URL -H "Name: value" -d 'body'`.
fn http_target(text: &str) -> HttpTarget {
    let (mut headers, mut body) = (Vec::new(), None);
    let url_end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (mut url, mut rest) = (text[..url_end].to_owned(), text[url_end..].trim_start());
    while !rest.is_empty() {
        let (option, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let quoted = quoted(after.trim_start()).filter(|_| matches!(option, "-H" | "-d"));
        match (option, quoted) {
            ("-H", Some((value, after))) => {
                if let Some((name, value)) = value.split_once(':') {
                    headers.push((name.trim().to_owned(), value.trim().to_owned()));
                }
                rest = after;
            }
            (_, Some((value, after))) => {
                body = Some(value.to_owned());
                rest = after;
            }
            (word, None) => {
                url.push(' ');
                url.push_str(word);
                rest = after;
            }
        }
        rest = rest.trim_start();
    }
    (url, headers, body)
}

/// The inside of a quoted text and the rest. The closing quote is followed by a blank or the end.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inside = &text[1..];
    let mut at = 0;
    while let Some(next) = inside[at..].find(quote) {
        let end = at + next;
        let after = &inside[end + 1..];
        if after.is_empty() || after.starts_with(char::is_whitespace) {
            return Some((&inside[..end], after));
        }
        at = end + 1;
    }
    None
}

/// `  name, -x: type (required) "description" = "default"`.
fn field(line: &str) -> Option<Field> {
    if !line.starts_with([' ', '\t']) {
        return None;
    }
    let (head, rest) = line.trim().split_once(':')?;
    let (name, alias) = match head.split_once(',') {
        Some((name, alias)) => {
            let mut letters = alias.trim().strip_prefix('-')?.chars();
            let letter = letters.next().filter(char::is_ascii_alphabetic)?;
            (name.trim(), letters.next().is_none().then_some(letter))
        }
        None => (head.trim(), None),
    };
    if !is_id(name) {
        return None;
    }
    let rest = rest.trim_start();
    let kind_end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let (kind, mut rest) = (&rest[..kind_end], rest[kind_end..].trim());
    if kind.is_empty() {
        return None;
    }
    let mut is_required = false;
    if let Some((need, after)) = rest.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
        // Constraints after a comma are accepted and ignored.
        is_required = need.split(',').any(|word| word.trim() == "required");
        rest = after.trim_start();
    }
    let mut description = None;
    if let Some((text, after)) = rest.strip_prefix('"').and_then(|inside| inside.split_once('"')) {
        description = Some(text.to_owned());
        rest = after.trim_start();
    }
    let default = rest.strip_prefix('=').and_then(|value| {
        let value = value.trim();
        value.strip_prefix('"')?.strip_suffix('"').map(str::to_owned)
    });
    Some(Field { name: name.to_owned(), alias, kind: kind.to_owned(), is_required, description, default })
}

#[cfg(test)]
#[path = "action/tests.rs"]
mod tests;
