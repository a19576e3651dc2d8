//! Recognises what the line at the cursor asks for: yes or no, a secret, or any text.

/// The answers that a line offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct YesNo {
    pub(super) yes: String,
    pub(super) no: String,
}

/// The answers in the last brackets of a line, such as `[Y/n]`, `(yes/no/[fingerprint])?` or `(y|n): `. Only blanks and
/// punctuation may follow them.
pub(super) fn yes_no(line: &str) -> Option<YesNo> {
    let line =
        line.trim_end_matches(|symbol: char| symbol.is_whitespace() || matches!(symbol, '?' | ':' | '>'));
    let inner = line.strip_suffix([']', ')'])?;
    let open = match line.ends_with(']') {
        true => inner.rfind('['),
        false => inner.rfind('('),
    }?;
    let inner = inner.get(open + 1..)?.to_lowercase();
    let answers =
        || inner.split(['/', '|', ',']).map(|part| part.trim_matches(|c: char| !c.is_alphanumeric()));
    let answer = |accepted: [&str; 2]| answers().find(|answer| accepted.contains(answer)).map(str::to_owned);
    Some(YesNo { yes: answer(["yes", "y"])?, no: answer(["no", "n"])? })
}

/// Whether an entry of a menu means yes.
pub(super) fn is_positive(label: &str) -> bool {
    const WORDS: [&str; 13] = [
        "yes", "y", "allow", "approve", "accept", "proceed", "ok", "confirm", "continue", "run", "trust",
        "grant", "permit",
    ];
    first_word(label).is_some_and(|word| WORDS.contains(&word.as_str()))
}

/// Whether an entry of a menu means no.
pub(super) fn is_negative(label: &str) -> bool {
    const WORDS: [&str; 13] = [
        "no", "n", "deny", "reject", "cancel", "decline", "abort", "don't", "exit", "quit", "refuse",
        "disallow", "stop",
    ];
    first_word(label).is_some_and(|word| WORDS.contains(&word.as_str()))
}

fn first_word(label: &str) -> Option<String> {
    let word: String = label
        .chars()
        .skip_while(|c| !c.is_alphabetic())
        .take_while(|c| c.is_alphabetic() || *c == '\'')
        .collect();
    (!word.is_empty()).then(|| word.to_lowercase())
}

/// Whether a line ends as a prompt does: words, then `?`, `:`, `>`, `$`, `#` or `%`.
pub(super) fn looks_like_prompt(line: &str) -> bool {
    let line = line.trim_end();
    let has_words = line.chars().any(char::is_alphanumeric);
    has_words && (line.ends_with(['?', ':', '>', '$', '#', '%']) || yes_no(line).is_some())
}

/// Whether a line is only the mark of an input field, as in the composer of an agent.
pub(super) fn is_field_mark(line: &str) -> bool {
    matches!(line.trim(), "❯" | "›" | ">" | "▸" | "»")
}

/// Whether a line asks for a secret.
pub(super) fn asks_for_secret(line: &str) -> bool {
    let line = line.to_lowercase();
    ["password", "passphrase", "passcode", "secret", " pin", "api key", "token:"]
        .iter()
        .any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_a_question_are_those_in_its_last_brackets() {
        for (line, expected) in [
            ("Continue? [y/N] ", Some(("y", "n"))),
            ("Do you want to continue? [Y/n]", Some(("y", "n"))),
            ("Are you sure (yes/no/[fingerprint])? ", Some(("yes", "no"))),
            ("Overwrite (y|n): ", Some(("y", "n"))),
            ("Proceed ([y]/n)?", Some(("y", "n"))),
            ("remove a.txt?", None),
            ("[y/N] was the answer to", None),
            ("Version [1.0]: ", None),
            ("Yes or no (see the manual): ", None),
            ("(", None),
            ("", None),
        ] {
            let expected = expected.map(|(yes, no)| YesNo { yes: yes.to_owned(), no: no.to_owned() });
            assert_eq!(yes_no(line), expected, "{line:?}");
        }
    }

    #[test]
    fn labels_mean_yes_no_or_neither() {
        for label in ["Yes, proceed (y)", "Allow once", "OK", "✓ Approve", "Yes"] {
            assert!(is_positive(label) && !is_negative(label), "{label}");
        }
        for label in ["No, and tell Codex what to do", "Reject", "Cancel", "Don't allow"] {
            assert!(is_negative(label) && !is_positive(label), "{label}");
        }
        for label in ["Nothing", "Yesterday", "main.rs", "", "1"] {
            assert!(!is_negative(label) && !is_positive(label), "{label}");
        }
    }

    #[test]
    fn a_pager_does_not_look_like_a_prompt() {
        for line in [":", "(END)", "", "   ", "~", "lines 1-20"] {
            assert!(!looks_like_prompt(line), "{line:?}");
        }
        for line in ["Name: ", "really?", "root@box:~# ", "mysql> "] {
            assert!(looks_like_prompt(line), "{line:?}");
        }
    }
}
