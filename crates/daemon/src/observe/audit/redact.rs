//! Replaces probable secrets before a text is stored.
//!
//! A secret is recognised by the name before it (`--password=…`, `TOKEN=…`, `Authorization: …`) or by its own form
//! (`ghp_…`, `AKIA…`, a password in a URL, a private key). In doubt, the text is replaced.

mod blocks;
mod options;

use std::borrow::Cow;

use blocks::{quoted, redact_blocks};
use options::{CurrentCommand, OptionWord};

/// The replacement of a secret.
pub(crate) const HIDDEN: &str = "[hidden]";

/// Parts of names whose values are secrets.
#[rustfmt::skip]
const SECRET_PARTS: &[&str] = &[
    "password", "passwd", "passphrase", "secret", "token", "apikey", "api_key", "api-key", "accesskey",
    "access_key", "access-key", "privatekey", "private_key", "private-key", "credential", "authorization",
    "bearer", "session_key", "signing_key", "encryption_key", "cookie", "x-auth",
];
/// Whole names whose values are secrets.
const SECRET_NAMES: &[&str] = &["auth", "pat", "pw"];
/// Ends of names whose values are secrets: `DB_PASS`, `MYSQL_PWD`.
const SECRET_ENDS: &[&str] = &["pass", "pwd", "_pw", "-pw"];
/// Names and ends of names with such an end that are no secrets.
const HARMLESS_ENDS: &[&str] = &["bypass", "compass", "surpass", "overpass", "underpass"];
/// The shell's variables for directories.
const DIRECTORIES: &[&str] = &["PWD", "OLDPWD"];
/// Prefixes of well-known kinds of secrets.
#[rustfmt::skip]
const SECRET_PREFIXES: &[&str] = &[
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "sk_live_", "sk_test_",
    "rk_live_", "xoxb-", "xoxp-", "xoxa-", "xoxs-", "AKIA", "ASIA", "AIza", "ya29.", "npm_", "pypi-",
    "eyJ", "hf_", "dop_v1_", "SG.", "AGE-SECRET-KEY-",
];
/// The minimal length of a secret that is recognised by its prefix.
const MIN_PREFIXED_BYTES: usize = 16;

/// Whether a variable, flag or parameter of this name contains a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    if DIRECTORIES.contains(&name) {
        return false;
    }
    let name = name.trim_start_matches('-').to_ascii_lowercase();
    let ends_with = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    // `token_file` and `--max-tokens` are not secrets.
    !ends_with(&["file", "path", "tokens", "_id"])
        && (SECRET_NAMES.contains(&name.as_str())
            || (ends_with(SECRET_ENDS) && !ends_with(HARMLESS_ENDS))
            || SECRET_PARTS.iter().any(|part| name.contains(part)))
}

/// The arguments of a command, with secrets replaced.
pub(crate) fn redact_argv(argv: &[String]) -> Vec<String> {
    let mut before = "";
    let mut command = CurrentCommand::default();
    let mut result = Vec::with_capacity(argv.len());
    for word in argv {
        let option = command.read(before, word);
        let secret = option == OptionWord::Value || (takes_secret(before) && !word.starts_with('-'));
        // The argument of `-c` is a script: only the secrets among its words are replaced.
        let script = before.starts_with('-') && !before.starts_with("--") && before.contains('c');
        result.push(match word.split_once('=') {
            _ if secret => HIDDEN.to_owned(),
            _ if let Some(flag) = option.flag_before_value(word) => format!("{flag}{HIDDEN}"),
            // The value of an argument can contain spaces.
            Some((name, value))
                if !script
                    && !value.is_empty()
                    && !name.contains([' ', '"', '\'', '{'])
                    && is_secret_name(name) =>
            {
                format!("{name}={HIDDEN}")
            }
            _ => redact_login(before, word).unwrap_or_else(|| redact_text(word).into_owned()),
        });
        before = word;
    }
    result
}

/// A text, such as a shell line, with secrets replaced.
pub(crate) fn redact_text(text: &str) -> Cow<'_, str> {
    match redact_blocks(text) {
        Cow::Borrowed(text) => redact_words(text),
        Cow::Owned(text) => Cow::Owned(redact_words(&text).into_owned()),
    }
}

fn redact_words(text: &str) -> Cow<'_, str> {
    let mut result = String::new();
    let mut copied = 0;
    let mut before = "";
    let mut end_before = 0;
    let mut secret = false;
    let mut command = CurrentCommand::default();
    for (start, word) in words(text) {
        if start < copied {
            // A part of a quoted secret.
            continue;
        }
        if text[end_before..start].contains([';', '|', '(', ')', '\n', '`']) || word.starts_with('&') {
            command.end();
        }
        let (mut end, option) = (start + word.len(), command.read(before, word));
        secret = takes_secret(before) || (secret && is_scheme(before));
        let replacement = match word {
            // Keep the scheme of an Authorization header, replace what follows.
            _ if secret && is_scheme(word) => None,
            _ if option == OptionWord::Value || (secret && !word.starts_with('-')) => {
                // A quoted secret can contain spaces.
                let gap = &text[end_before..start];
                let quote = gap.len() - gap.trim_end_matches(['"', '\'']).len();
                if let Some((inner, close)) = quoted(text, start - quote) {
                    end = end.max(if quote == 0 { close } else { inner.end });
                }
                Some(HIDDEN.to_owned())
            }
            _ if let Some(flag) = option.flag_before_value(word.trim_end_matches('\\')) => {
                Some(format!("{flag}{HIDDEN}"))
            }
            // The value is quoted: `-p'X'`.
            _ if let OptionWord::Flag(length) = option
                && let Some((inner, close)) = quoted(text, start + length)
                && !text[inner].starts_with([' ', '\t', '\n', ';', '|', '&', ')', '"', '\'']) =>
            {
                end = close;
                Some(format!("{}{HIDDEN}", &word[..length]))
            }
            _ => redact_login(before, word).or_else(|| redact_word(word)),
        };
        if let Some(replacement) = replacement {
            result.push_str(&text[copied..start]);
            result.push_str(&replacement);
            copied = end;
        }
        (before, end_before) = (word, end);
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    result.push_str(&text[copied..]);
    Cow::Owned(result)
}

/// `-u name:password` with the password replaced.
fn redact_login(before: &str, word: &str) -> Option<String> {
    let (name, password) =
        word.split_once(':').filter(|_| matches!(before, "-u" | "--user" | "--proxy-user"))?;
    (!password.is_empty()).then(|| format!("{name}:{HIDDEN}"))
}

/// The words of a text with their offsets. Words are separated by spaces, quotes and shell operators. A quoted string
/// directly after `=` or `:` belongs to the word before it.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && is_boundary(bytes[at]) {
            at += 1;
        }
        let start = at;
        while at < bytes.len() && !is_boundary(bytes[at]) {
            at += 1;
            let quote = bytes.get(at).copied().filter(|byte| matches!(byte, b'"' | b'\''));
            if let (Some(quote), b'=' | b':') = (quote, bytes[at - 1]) {
                let close = bytes[at + 1..].iter().position(|byte| *byte == quote);
                at = close.map_or(bytes.len(), |close| at + close + 2);
            }
        }
        (start < at).then(|| (start, &text[start..at]))
    })
}

fn is_boundary(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b';' | b'|' | b'(' | b')' | b'<' | b'>' | b'`' | b','
    )
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic", "token", "digest", "negotiate"].contains(&word.to_ascii_lowercase().as_str())
}

/// Whether the next word is a secret: after `--password`, `Authorization:` or `Bearer`.
fn takes_secret(word: &str) -> bool {
    match word.strip_suffix([':', '=']) {
        Some(name) => is_secret_name(name),
        None => (word.starts_with("--") && !word.contains('=') && is_secret_name(word)) || is_bearer(word),
    }
}

fn is_bearer(word: &str) -> bool {
    word.eq_ignore_ascii_case("bearer")
}

/// The word with its secret replaced; `None` if it contains none.
fn redact_word(word: &str) -> Option<String> {
    if let Some((name, value)) = word.split_once(['=', ':'])
        && !value.is_empty()
        && !value.starts_with("//")
        && is_secret_name(last_name(name))
    {
        return Some(format!("{}{HIDDEN}", &word[..=name.len()]));
    }
    if let Some(hidden) = redact_url(word) {
        return Some(hidden);
    }
    let value = word.split_once('=').map_or(word, |(_, value)| value);
    let looks =
        SECRET_PREFIXES.iter().any(|prefix| value.starts_with(prefix)) && value.len() >= MIN_PREFIXED_BYTES;
    looks.then(|| format!("{}{HIDDEN}", &word[..word.len() - value.len()]))
}

/// The name directly before a value: `key` in `url?key=`.
fn last_name(text: &str) -> &str {
    text.rsplit(['?', '&', '{', '"', '\'']).next().unwrap_or(text)
}

/// A URL with its password and secret query values replaced; `None` if it contains none.
fn redact_url(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    let mut changed = false;
    let user = user.map(|user| match user.split_once(':') {
        Some((name, _)) => {
            changed = true;
            format!("{name}:{HIDDEN}@")
        }
        None if user.len() >= MIN_PREFIXED_BYTES => {
            changed = true;
            format!("{HIDDEN}@")
        }
        None => format!("{user}@"),
    });
    let pieces: Vec<String> = path
        .split_inclusive(['?', '&', '#'])
        .map(|piece| match piece.split_once('=') {
            Some((name, value)) if is_secret_name(name) && !value.is_empty() => {
                changed = true;
                let end = piece.chars().next_back().filter(|end| matches!(end, '&' | '#'));
                format!("{name}={HIDDEN}{}", end.map(String::from).unwrap_or_default())
            }
            _ => piece.to_owned(),
        })
        .collect();
    changed.then(|| format!("{scheme}://{}{host}{}", user.unwrap_or_default(), pieces.concat()))
}
