//! Text patterns: regular expressions that are replaced in a text, with the same engine as searches.

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;

use crate::Error;

/// A regular expression that matches parts of a text.
#[derive(Debug, Clone)]
pub struct TextPattern(RegexMatcher);

impl TextPattern {
    /// Parses a regular expression.
    pub fn new(pattern: &str) -> Result<TextPattern, Error> {
        let invalid = |error: grep_regex::Error| Error::Pattern {
            pattern: pattern.to_owned(),
            reason: error.to_string(),
        };
        RegexMatcher::new(pattern).map(TextPattern).map_err(invalid)
    }

    /// The text with every match replaced.
    pub fn replace_all(&self, text: &str, replacement: &str) -> String {
        let (mut replaced, mut at) = (String::with_capacity(text.len()), 0);
        // The matcher of regular expressions has no errors, and its matches are whole characters of a text.
        let _infallible = self.0.find_iter(text.as_bytes(), |found| {
            replaced.push_str(text.get(at..found.start()).unwrap_or_default());
            replaced.push_str(replacement);
            at = found.end();
            true
        });
        replaced.push_str(text.get(at..).unwrap_or_default());
        replaced
    }
}
