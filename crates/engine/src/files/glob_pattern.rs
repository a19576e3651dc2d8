//! Glob patterns taken apart: one matcher for each part of a path.

use globset::{GlobBuilder, GlobMatcher};

use crate::Error;

/// Braces around slashes are written out; so many patterns may come of one.
const MAX_ALTERNATIVES: usize = 256;

/// A pattern as a sequence of parts.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) parts: Vec<Part>,
}

/// What one part of a path must be.
#[derive(Debug)]
pub(super) enum Part {
    /// Just this name.
    Literal(String),
    /// Any name.
    Any,
    /// Any name with this ending.
    Suffix(String),
    /// A name that matches.
    Wild(Box<GlobMatcher>),
    /// `**`: any number of directories.
    Deep,
}

impl Part {
    /// Whether a name is what this part wants. `**` wants no single name.
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

/// Takes a pattern apart: the alternatives that its braces spell, each with its parts.
pub(super) fn parse(pattern: &str) -> Result<Vec<Pattern>, Error> {
    let mut patterns = Vec::new();
    for alternative in expand(pattern)? {
        let mut parts = Vec::new();
        for text in alternative.split('/').filter(|text| !text.is_empty() && *text != ".") {
            let part = part(text, pattern)?;
            // Any number of directories twice over is any number of directories.
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

/// Whether text means only itself.
pub(super) fn is_literal(text: &str) -> bool {
    !text.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

pub(super) fn bad(pattern: &str, reason: impl Into<String>) -> Error {
    Error::Pattern { pattern: pattern.to_owned(), reason: reason.into() }
}

/// Writes out the braces that hold a slash, so that what remains can be taken apart at slashes.
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

/// The first outermost pair of braces with a slash in it.
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

/// Splits the inside of braces at its own commas.
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

/// The characters that stand for themselves or for the pattern language, not behind a backslash.
fn unescaped(text: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let mut escaped = false;
    text.char_indices().filter(move |(_, letter)| {
        let skip = escaped;
        escaped = *letter == '\\' && !escaped;
        !skip
    })
}
