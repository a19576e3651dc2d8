//! `sed` scripts: recognises common scripts that cannot run a command; everything else may run code.

use super::words::Word;

/// Whether the arguments of a `sed` could make it run a command. Options and scripts that are not recognised could.
pub(super) fn may_run_code(words: &[Word]) -> bool {
    let mut has_script = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.literal() else {
            if has_script {
                continue;
            }
            return true;
        };
        let script = match text.strip_prefix('-').map(option) {
            Some(SedOption::Flags) => continue,
            Some(SedOption::Script) => words.next().and_then(Word::literal),
            Some(SedOption::Unknown) => return true,
            None if has_script => continue,
            None => Some(text),
        };
        if !script.is_some_and(is_harmless) {
            return true;
        }
        has_script = true;
    }
    !has_script
}

enum SedOption {
    Flags,
    /// The next word is a script.
    Script,
    Unknown,
}

fn option(cluster: &str) -> SedOption {
    let are_flags = |flags: &str| flags.chars().all(|flag| "nErsuz".contains(flag));
    match (cluster.split_once('i'), cluster.strip_suffix('e')) {
        // The rest of the word is the suffix of the backup file.
        (Some((flags, _suffix)), _) if are_flags(flags) => SedOption::Flags,
        (None, Some(flags)) if are_flags(flags) => SedOption::Script,
        (None, None) if are_flags(cluster) && !cluster.is_empty() => SedOption::Flags,
        _ => SedOption::Unknown,
    }
}

/// Whether a script consists of commands that run nothing.
fn is_harmless(script: &str) -> bool {
    // `]` as the first member of a bracket: versions of sed disagree on where the bracket ends.
    let is_ambiguous = ["\n", "[]", "[^]"].iter().any(|text| script.contains(text));
    !is_ambiguous && script.split(';').all(|command| is_harmless_command(command).is_some())
}

fn is_harmless_command(command: &str) -> Option<()> {
    let is_number = |letter: char| letter.is_ascii_digit() || "$,!~+ ".contains(letter);
    let mut rest = command.trim_start_matches(is_number);
    while let Some(pattern) = rest.strip_prefix('/') {
        rest = after_delimiter(pattern, '/')?.trim_start_matches(is_number);
    }
    let rest = rest.trim_end_matches(' ');
    let is_one_letter = rest.len() == 1 && "pdq=nNDPgGhHx".contains(rest);
    if command.trim_matches(' ').is_empty() || is_one_letter {
        return Some(());
    }
    let substitution = rest.strip_prefix('s')?;
    let delimiter = substitution.chars().next().filter(|first| first.is_ascii_punctuation())?;
    let pattern = substitution.strip_prefix(delimiter).filter(|_| delimiter != '\\')?;
    let flags = after_delimiter(after_delimiter(pattern, delimiter)?, delimiter)?;
    flags.chars().all(|flag| flag.is_ascii_digit() || "gpiIM".contains(flag)).then_some(())
}

/// The text after the next delimiter that is not escaped. `None` if there is none, or if it may be inside a bracket,
/// escaped or not, where versions of sed disagree on its meaning.
fn after_delimiter(text: &str, delimiter: char) -> Option<&str> {
    let mut is_in_bracket = false;
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => match letters.next()?.1 {
                '[' => is_in_bracket = true,
                ']' => is_in_bracket = false,
                _ => {}
            },
            _ if letter == delimiter => {
                return (!is_in_bracket).then(|| text.get(at + letter.len_utf8()..)).flatten();
            }
            '[' => is_in_bracket = true,
            ']' => is_in_bracket = false,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_run_code(words: &[&str]) -> bool {
        super::may_run_code(&words.iter().map(|word| Word::Literal((*word).to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn common_scripts_run_nothing() {
        let table: &[&[&str]] = &[
            &["s/a/b/g", "f"],
            &["-n", "1,20p", "f"],
            &["-i", "s|/usr/local|/opt|; /foo/d", "f"],
            &["-i.bak", "-E", "-e", "s/[0-9]+//", "-e", "$d", "f"],
            &["-ne", "/a/,/b/p", "f"],
            &["1q"],
            &["$!N;s/\\n/ /"],
            &["s/\\//e/"],
        ];
        for words in table {
            assert!(!may_run_code(words), "{words:?}");
        }
    }

    #[test]
    fn everything_else_may_run_code() {
        let table: &[&[&str]] = &[
            &["1e rm x", "f"],
            &["e", "f"],
            &["s/.*/rm x/e", "f"],
            &["s/.*/rm x/ge", "f"],
            &["-e", "p", "-e", "1e rm x"],
            &["-n", "/a/ e rm", "f"],
            &["s/a/b/w /dev/stdout\ne rm"],
            &["s/[/]/e;e rm x/", "f"],
            &["s/[]/]/;s/e;/", "f"],
            &["--expression=1e rm"],
            &["-ne1e rm"],
            &["--", "1e rm"],
            &["p;e rm"],
            &["{e rm\n}"],
            &["p", "f", "-e", "1e rm"],
            &["-f", "script.sed", "f"],
            &["-i.bak", "3i\\text", "f"],
            &["--sandbox", "e"],
            &[],
        ];
        for words in table {
            assert!(may_run_code(words), "{words:?}");
        }
    }
}
