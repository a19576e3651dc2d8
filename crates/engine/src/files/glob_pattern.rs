//! Parsed glob patterns: one matcher per part of a path.

use globset::{GlobBuilder, GlobMatcher};

use crate::Error;

/// Limit on the patterns that result from expanding braces with slashes.
const MAX_ALTERNATIVES: usize = 256;

/// A pattern as a sequence of parts.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) parts: Vec<Part>,
}

/// The matcher of one part of a path.
#[derive(Debug)]
pub(super) enum Part {
    /// Exactly this name.
    Literal(String),
    /// Any name.
    Any,
    /// Any name with this suffix.
    Suffix(String),
    /// A name that matches.
    Wild(Box<GlobMatcher>),
    /// `**`: any number of directories.
    Deep,
}

impl Part {
    /// Whether a name matches this part. `**` matches no single name.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Literal(text) => name == text.as_bytes(),
            Self::Any => true,
            Self::Suffix(end) => name.ends_with(end.as_bytes()),
            Self::Wild(matcher) => {
                use std::os::unix::ffi::OsStrExt;
                matcher.is_match(std::ffi::OsStr::from_bytes(name))
            }
            Self::Deep => false,
        }
    }
}

/// Parses a pattern: the alternatives of its braces, each with its parts.
pub(super) fn parse(pattern: &str) -> Result<Vec<Pattern>, Error> {
    let mut patterns = Vec::new();
    for alternative in expand(pattern)? {
        let mut parts = Vec::new();
        for text in alternative.split('/').filter(|text| !text.is_empty() && *text != ".") {
            let part = part(text, pattern)?;
            // Consecutive `**` are equivalent to one.
            if !(matches!(part, Part::Deep) && matches!(parts.last(), Some(Part::Deep))) {
                parts.push(part);
            }
        }
        patterns.push(Pattern { parts });
    }
    Ok(patterns)
}

fn part(text: &str, whole: &str) -> Result<Part, Error> {
    if text == "**" {
        return Ok(Part::Deep);
    }
    if is_literal(text) {
        return Ok(Part::Literal(text.to_owned()));
    }
    if text == "*" {
        return Ok(Part::Any);
    }
    if let Some(end) = text.strip_prefix('*').filter(|end| is_literal(end)) {
        return Ok(Part::Suffix(end.to_owned()));
    }
    let glob =
        GlobBuilder::new(text).literal_separator(true).backslash_escape(true).empty_alternates(true).build();
    let glob = glob.map_err(|error| bad(whole, error.kind().to_string()))?;
    Ok(Part::Wild(Box::new(glob.compile_matcher())))
}

/// Whether the text contains no wildcard.
pub(super) fn is_literal(text: &str) -> bool {
    !text.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

pub(super) fn bad(pattern: &str, reason: impl Into<String>) -> Error {
    Error::Pattern { pattern: pattern.to_owned(), reason: reason.into() }
}

/// Expands braces that contain a slash, so that the results can be split at slashes.
fn expand(pattern: &str) -> Result<Vec<String>, Error> {
    let mut waiting = vec![pattern.to_owned()];
    let mut done = Vec::new();
    while let Some(text) = waiting.pop() {
        match brace_with_slash(&text) {
            None => done.push(text),
            Some((start, end)) => {
                for choice in choices(&text[start + 1..end]) {
                    waiting.push(format!("{}{choice}{}", &text[..start], &text[end + 1..]));
                }
            }
        }
        if waiting.len() + done.len() > MAX_ALTERNATIVES {
            return Err(bad(pattern, "too many alternatives"));
        }
    }
    Ok(done)
}

/// The first outermost pair of braces that contains a slash.
fn brace_with_slash(text: &str) -> Option<(usize, usize)> {
    let (mut depth, mut start, mut slash) = (0_usize, 0, false);
    for (index, letter) in unescaped(text) {
        match letter {
            '{' => {
                if depth == 0 {
                    (start, slash) = (index, false);
                }
                depth += 1;
            }
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 && slash {
                    return Some((start, index));
                }
            }
            '/' => slash = true,
            _ => {}
        }
    }
    None
}

/// Splits the content of braces at its top-level commas.
fn choices(inside: &str) -> Vec<&str> {
    let (mut depth, mut from, mut found) = (0_usize, 0, Vec::new());
    for (index, letter) in unescaped(inside) {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(&inside[from..index]);
                from = index + 1;
            }
            _ => {}
        }
    }
    found.push(&inside[from..]);
    found
}

/// The characters that are not escaped by a backslash.
fn unescaped(text: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let mut escaped = false;
    text.char_indices().filter(move |(_, letter)| {
        let skip = escaped;
        escaped = *letter == '\\' && !escaped;
        !skip
    })
}
