//! Invocation: the values of a caller placed into the command or request that a document declares.

mod slots;

use crate::action::{Action, ActionMethod};
use crate::flags::{Flags, PayloadError};
use crate::json::Json;
use crate::scan::is_id_byte;
use crate::shell::ShellText;
use crate::{quote, uri};
use slots::{Piece, pieces};

/// What the caller knows about names in a template.
pub trait Bindings {
    /// A session variable.
    fn variable(&self, name: &str) -> Option<String>;
    /// The address of a shortcut, without its `@`.
    fn shortcut(&self, id: &str) -> Option<String>;
    /// A context variable, persistent variable or environment variable.
    fn environment(&self, name: &str) -> Option<String>;
    /// The content of a file that [`files`] listed, or why it could not be read.
    fn file(&self, path: &str) -> Result<Vec<u8>, String>;
}

/// What the caller runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreparedAction {
    /// A command for the shell.
    Cli {
        /// The text after `bash -c`.
        command: String,
    },
    /// A request. The address may still be relative to the document.
    Http {
        /// The method of the request.
        method: ActionMethod,
        /// The address with its query.
        url: String,
        /// All headers, with the defaults.
        headers: Vec<(String, String)>,
        /// The body of the request.
        body: Option<String>,
    },
}

/// The values of an invocation: flags with variables and shortcuts replaced, then defaults.
pub fn payload(action: &Action, flags: Flags, bindings: &dyn Bindings) -> Result<Flags, PayloadError> {
    let mut payload = Vec::with_capacity(flags.len());
    for (name, value) in flags {
        payload.push((name, resolved_value(&value, bindings)?));
    }
    for field in &action.fields {
        if let Some(default) = &field.default
            && !payload.iter().any(|(name, _)| *name == field.name)
        {
            payload.push((field.name.clone(), default.clone()));
        }
    }
    Ok(payload)
}

fn resolved_value(value: &str, bindings: &dyn Bindings) -> Result<String, PayloadError> {
    let mut text = String::with_capacity(value.len());
    for piece in pieces(value) {
        match piece {
            Piece::Environment { name, .. } => {
                return Err(PayloadError(format!(
                    "$var cannot be used in command arguments.\nPass the value of ${name} itself, or use it in the document's action."
                )));
            }
            Piece::Slot { whole, name, modifiers: "" } => {
                text.push_str(&bindings.variable(name).unwrap_or_else(|| whole.to_owned()));
            }
            piece => text.push_str(piece.text()),
        }
    }
    let shortcut = text.strip_prefix('@').and_then(|id| bindings.shortcut(id));
    Ok(shortcut.unwrap_or(text))
}

/// The files that the body of a request contains.
pub fn files(action: &Action, payload: &Flags, bindings: &dyn Bindings) -> Vec<String> {
    let mut found = Vec::new();
    for piece in pieces(action.body.as_deref().unwrap_or_default()) {
        if let Piece::Slot { name, modifiers, .. } = piece
            && modifiers.split('|').next().is_some_and(|first| first.ends_with("file"))
        {
            found.extend(lookup(payload, name).map(str::to_owned).or_else(|| bindings.variable(name)));
        }
    }
    found
}

/// Places the values; declared variables are resolved before any value is inserted, so a value is never read again.
pub fn prepare(
    action: &Action,
    payload: &Flags,
    bindings: &dyn Bindings,
) -> Result<PreparedAction, PayloadError> {
    let mut filler = Filler { action, payload, bindings, used: Vec::new(), unresolved: Vec::new() };
    if action.method == ActionMethod::Cli {
        let command = filler.command()?;
        filler.check_required()?;
        return Ok(PreparedAction::Cli { command });
    }
    let url = filler.url()?;
    let mut headers = filler.headers()?;
    let template = filler.body()?;
    filler.check_required()?;
    filler.check_resolved()?;
    let rest: Flags = payload.iter().filter(|(name, _)| !filler.used.contains(name)).cloned().collect();
    let (url, body) = match (action.method.has_body(), template) {
        (_, Some(body)) => (url, Some(body)),
        (true, None) => (url, Some(Json::object(&rest).to_compact())),
        (false, None) => (with_query(&url, &rest), None),
    };
    let mut default = |name: &str, value: &str| {
        if !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
            headers.push((name.to_owned(), value.to_owned()));
        }
    };
    default("Accept", "text/markdown, text/plain");
    if body.is_some() {
        default("Content-Type", "application/json");
    }
    Ok(PreparedAction::Http { method: action.method, url, headers, body })
}

/// An address with pairs set in its query; without pairs, the address as it is.
fn with_query(url: &str, pairs: &Flags) -> String {
    if pairs.is_empty() {
        return url.to_owned();
    }
    let address = uri::split_fragment(url).0;
    let (address, query) = address.split_once('?').unwrap_or((address, ""));
    let mut all = uri::query(query);
    all.retain(|(name, _)| !pairs.iter().any(|(given, _)| given == name));
    all.extend(pairs.iter().cloned());
    format!("{address}?{}", quote::form_pairs(&all))
}

fn lookup<'a>(payload: &'a Flags, name: &str) -> Option<&'a str> {
    payload.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
}

struct Filler<'a> {
    action: &'a Action,
    payload: &'a Flags,
    bindings: &'a dyn Bindings,
    /// Names of the payload that a slot contains; they are not sent again.
    used: Vec<String>,
    unresolved: Vec<String>,
}

impl Filler<'_> {
    fn command(&mut self) -> Result<String, PayloadError> {
        let mut text = ShellText::default();
        for piece in pieces(&self.action.target) {
            match piece {
                Piece::AllArguments => {
                    for (index, (name, value)) in self.payload.iter().enumerate() {
                        text.literal(if index == 0 { "" } else { " " });
                        text.value(&format!("--{name}")).map_err(|reason| refused(name, reason))?;
                        text.literal(" ");
                        text.value(value).map_err(|reason| refused(name, reason))?;
                    }
                    self.used.extend(self.payload.iter().map(|(name, _)| name.clone()));
                }
                Piece::Slot { whole, name, modifiers: "" } => match self.value(name) {
                    Some(value) => text.value(&value).map_err(|reason| refused(name, reason))?,
                    None => text.literal(whole),
                },
                Piece::Environment { name, .. } => match self.bindings.environment(name) {
                    Some(value) => text.literal(&value),
                    None => text.literal(piece.text()),
                },
                piece => text.literal(piece.text()),
            }
        }
        Ok(text.finish())
    }

    fn url(&mut self) -> Result<String, PayloadError> {
        let mut url = String::new();
        // The slots that were filled, with their positions.
        let mut values: Vec<(&str, usize)> = Vec::new();
        for piece in pieces(&self.action.target) {
            match piece {
                Piece::AllArguments => {
                    for (name, value) in self.payload {
                        let word = format!("--{} {} ", quote::component(name), quote::component(value));
                        url.push_str(&word.replace(' ', "%20"));
                    }
                    self.used.extend(self.payload.iter().map(|(name, _)| name.clone()));
                }
                Piece::Slot { whole, name, modifiers: "" } => match self.value(name) {
                    Some(value) => {
                        values.push((name, url.len()));
                        url.push_str(&quote::component(&value));
                    }
                    None => url.push_str(whole),
                },
                piece => self.plain(&mut url, piece),
            }
        }
        match values.iter().find(|(_, at)| is_in_dot_segment(&url, *at)) {
            Some((name, _)) => Err(refused(name, "would change the path of the address")),
            None => Ok(url),
        }
    }

    fn headers(&mut self) -> Result<Vec<(String, String)>, PayloadError> {
        let mut headers = Vec::new();
        for (name, template) in &self.action.headers {
            let mut value = String::new();
            for piece in pieces(template) {
                match piece {
                    Piece::Slot { whole, name, modifiers: "" } => {
                        value.push_str(&self.bindings.variable(name).unwrap_or_else(|| whole.to_owned()));
                    }
                    piece => self.plain(&mut value, piece),
                }
            }
            if value.chars().any(|c| c.is_control() && c != '\t') {
                return Err(PayloadError(format!("Header {name} contains a control character.")));
            }
            headers.push((name.clone(), value));
        }
        Ok(headers)
    }

    fn body(&mut self) -> Result<Option<String>, PayloadError> {
        let Some(template) = &self.action.body else { return Ok(None) };
        let content_type =
            self.action.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let is_form = content_type.is_some_and(|(_, value)| value.contains("x-www-form-urlencoded"));
        let mut body = slots::BodyText::new(template, is_form);
        for piece in pieces(template) {
            match piece {
                Piece::Slot { whole, name, modifiers } => match self.value(name) {
                    Some(value) => body.value(&self.modified(name, value, modifiers)?),
                    None => body.literal(whole),
                },
                piece => {
                    let mut text = String::new();
                    self.plain(&mut text, piece);
                    body.literal(&text);
                }
            }
        }
        Ok(Some(body.finish()))
    }

    fn modified(&self, name: &str, value: String, modifiers: &str) -> Result<String, PayloadError> {
        let mut bytes = value.into_bytes();
        for modifier in modifiers.split('|') {
            if modifier.ends_with("file") {
                let path = String::from_utf8_lossy(&bytes).into_owned();
                let failed =
                    |reason| PayloadError(format!("Cannot read the file of --{name}: {path}: {reason}"));
                bytes = self.bindings.file(&path).map_err(failed)?;
            }
            if modifier.starts_with("base64") {
                bytes = quote::base64(&bytes).into_bytes();
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A piece of an address, header or body that is not a slot of its own.
    fn plain(&mut self, text: &mut String, piece: Piece<'_>) {
        if let Piece::Environment { name, .. } = piece {
            if let Some(value) = self.bindings.environment(name) {
                return text.push_str(&value);
            }
            if !name.contains(|c: char| c.is_ascii_lowercase())
                && !self.unresolved.iter().any(|it| it == name)
            {
                self.unresolved.push(name.to_owned());
            }
        }
        text.push_str(piece.text());
    }

    /// The value of a slot: from the payload, then from a session variable.
    fn value(&mut self, name: &str) -> Option<String> {
        let value = lookup(self.payload, name).map(str::to_owned).or_else(|| self.bindings.variable(name))?;
        self.used.push(name.to_owned());
        Some(value)
    }

    fn check_required(&self) -> Result<(), PayloadError> {
        let is_given = |name: &String| lookup(self.payload, name).is_some() || self.used.contains(name);
        let required: Vec<_> = self.action.fields.iter().filter(|field| field.is_required).collect();
        let missing: Vec<_> =
            required.iter().map(|field| &field.name).filter(|name| !is_given(name)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let names = missing.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        let usage = required.iter().map(|field| format!("  --{} <{}> (required)", field.name, field.kind));
        let usage = usage.collect::<Vec<_>>().join("\n");
        Err(PayloadError(format!("Missing required flags: {names}\n\nUsage:\n{usage}")))
    }

    fn check_resolved(&self) -> Result<(), PayloadError> {
        if self.unresolved.is_empty() {
            return Ok(());
        }
        let names: String = self.unresolved.iter().map(|name| format!("\n  ${name}")).collect();
        let hints: String =
            self.unresolved.iter().map(|name| format!("\nSet it with: /set ${name} = \"value\"")).collect();
        Err(PayloadError(format!("Unresolved environment variable(s):{names}{hints}")))
    }
}

/// Whether a position of an address is in a segment of its path that is `.` or `..`, also with escaped dots.
fn is_in_dot_segment(url: &str, at: usize) -> bool {
    let (before, after) = url.split_at(at);
    if before.contains(['?', '#']) {
        return false;
    }
    let ends = ['/', '\\', '?', '#'];
    let start = before.rfind(ends).map_or(0, |slash| slash + 1);
    let end = after.find(ends).map_or(url.len(), |end| at + end);
    matches!(uri::decode(&url[start..end]).as_str(), "." | "..")
}

fn refused(name: &str, reason: &str) -> PayloadError {
    let shown: String = name.bytes().filter(|byte| is_id_byte(*byte)).map(char::from).collect();
    PayloadError(format!("The value of --{shown} cannot be used: it {reason}."))
}

#[cfg(test)]
#[path = "invoke/tests.rs"]
mod tests;
