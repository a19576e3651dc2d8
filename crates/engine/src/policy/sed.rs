//! Scripts for `sed`, read just far enough to know that they cannot run a command.

use super::words::Word;

/// Whether the arguments of a sed could make it run a command. What is not understood could.
pub(super) fn runs(words: &[Word]) -> bool {
    let mut scripts = Vec::new();
    let (mut at, mut has_script) = (0, false);
    while let Some(word) = words.get(at) {
        at += 1;
        let Some(text) = word.literal() else {
            if has_script {
                continue;
            }
            return true;
        };
        match text {
            "--sandbox" | "--version" | "--help" => return false,
            "--" => {
                if !has_script {
                    scripts.push(words.get(at));
                }
                break;
            }
            "--expression" => {
                scripts.push(words.get(at));
                (at, has_script) = (at + 1, true);
            }
            "--file" => (at, has_script) = (at + 1, true),
            _ if text.starts_with("--file=") => has_script = true,
            _ if text.starts_with("--expression=") => {
                return !text.strip_prefix("--expression=").is_some_and(is_harmless);
            }
            _ if text.starts_with("--") => {}
            _ if text.len() > 1 && text.starts_with('-') => match cluster(&text[1..]) {
                Short::Script(Some(script)) if !is_harmless(script) => return true,
                Short::Script(None) => {
                    scripts.push(words.get(at));
                    (at, has_script) = (at + 1, true);
                }
                Short::File(taken) => (at, has_script) = (at + taken, true),
                Short::Script(Some(_)) => has_script = true,
                Short::Value(taken) => at += taken,
                Short::Flags => {}
            },
            _ if has_script => {}
            _ => {
                scripts.push(Some(word));
                has_script = true;
            }
        }
    }
    scripts.iter().any(|script| !script.and_then(Word::literal).is_some_and(is_harmless))
}

enum Short<'a> {
    Script(Option<&'a str>),
    File(usize),
    Value(usize),
    Flags,
}

fn cluster(flags: &str) -> Short<'_> {
    for (at, flag) in flags.char_indices() {
        let rest = flags.get(at + flag.len_utf8()..).filter(|rest| !rest.is_empty());
        let taken = usize::from(rest.is_none());
        match flag {
            'e' => return Short::Script(rest),
            'f' => return Short::File(taken),
            'l' => return Short::Value(taken),
            // Its suffix can only be attached.
            'i' => return Short::Flags,
            _ => {}
        }
    }
    Short::Flags
}

/// Whether a script surely runs nothing.
fn is_harmless(script: &str) -> bool {
    let mut reader = Reader { text: script.as_bytes(), at: 0 };
    while reader.at < reader.text.len() {
        if reader.command().is_none() {
            return false;
        }
    }
    true
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = self.text.get(self.at).copied();
        self.at += 1;
        byte
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip(&mut self, which: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&which) {
            self.at += 1;
        }
    }

    /// One command with its addresses; nothing when it is not understood or could run something.
    fn command(&mut self) -> Option<()> {
        self.skip(|byte| byte.is_ascii_whitespace() || matches!(byte, b';' | b'{' | b'}'));
        self.addresses()?;
        let Some(command) = self.next() else { return Some(()) };
        match command {
            b'd' | b'p' | b'n' | b'D' | b'N' | b'P' | b'G' | b'H' | b'g' | b'h' | b'x' | b'=' | b'z'
            | b'{' | b'}' | b'F' => Some(()),
            b'q' | b'Q' | b'l' | b'L' => {
                self.skip(|byte| byte.is_ascii_digit() || byte == b' ');
                Some(())
            }
            b's' => {
                self.two_parts()?;
                self.skip(|byte| {
                    byte.is_ascii_digit() || matches!(byte, b'g' | b'p' | b'i' | b'I' | b'm' | b'M')
                });
                self.ended()
            }
            b'y' => self.two_parts().and_then(|()| self.ended()),
            b'b' | b't' | b'T' | b':' => {
                self.skip(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'_'));
                self.ended()
            }
            b'#' | b'r' => {
                self.skip(|byte| byte != b'\n');
                Some(())
            }
            // Text to the end of the line, unless a backslash carries it on.
            b'a' | b'i' | b'c' => {
                let start = self.at;
                self.skip(|byte| byte != b'\n');
                let line = self.text.get(start..self.at.min(self.text.len()))?;
                (!line.ends_with(b"\\")).then_some(())
            }
            _ => None,
        }
    }

    fn addresses(&mut self) -> Option<()> {
        loop {
            match self.peek() {
                Some(b'0'..=b'9' | b'$' | b',' | b'!' | b'~' | b'+' | b' ') => self.at += 1,
                Some(b'/') => {
                    self.at += 1;
                    self.part(b'/')?;
                    self.skip(|byte| matches!(byte, b'I' | b'M'));
                }
                _ => return Some(()),
            }
        }
    }

    /// `/a/b/` after its command, with any delimiter.
    fn two_parts(&mut self) -> Option<()> {
        let delimiter = self.next()?;
        if delimiter == b'\\' || delimiter == b'\n' || !delimiter.is_ascii() {
            return None;
        }
        self.part(delimiter)?;
        self.part(delimiter)
    }

    /// Up to the delimiter. A bracket could hide one from some seds, so a part with both is not understood.
    fn part(&mut self, delimiter: u8) -> Option<()> {
        let start = self.at;
        loop {
            match self.next()? {
                b'\\' => {
                    self.next()?;
                }
                byte if byte == delimiter => break,
                _ => {}
            }
        }
        let part = self.text.get(start..self.at - 1)?;
        let open = part.iter().rposition(|&byte| byte == b'[');
        let unclosed = open.is_some_and(|open| !part[open..].contains(&b']'));
        (!unclosed).then_some(())
    }

    /// Nothing follows but the next command.
    fn ended(&mut self) -> Option<()> {
        self.skip(|byte| byte == b' ');
        matches!(self.peek(), None | Some(b';' | b'\n' | b'}')).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(words: &[&str]) -> bool {
        super::runs(&words.iter().map(|word| Word::Literal((*word).to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn ordinary_scripts_run_nothing() {
        let table: &[&[&str]] = &[
            &["s/a/b/g", "f"],
            &["-n", "1,20p", "f"],
            &["-i", "s|/usr/local|/opt|; /foo/d", "f"],
            &["-E", "-e", "s/[0-9]+//", "-e", "$d", "f"],
            &["-ne", "/a/,/b/{p}", "f"],
            &["-i.bak", "3i\\text", "f"],
            &["1q"],
            &["-f", "script.sed", "f"],
            &["--expression=s/e/f/"],
            &["$!N;s/\\n/ /"],
            &["--sandbox", "e"],
        ];
        for words in table {
            assert!(!runs(words), "{words:?}");
        }
    }

    #[test]
    fn whatever_might_run_a_command_counts() {
        let table: &[&[&str]] = &[
            &["1e rm x", "f"],
            &["e", "f"],
            &["s/.*/rm x/e", "f"],
            &["s/.*/rm x/ge", "f"],
            &["-e", "p", "-e", "1e rm x"],
            &["-n", "/a/ e rm", "f"],
            &["s/a/b/w /dev/stdout\ne rm"],
            &["s/[/]/e;e rm x/", "f"],
            &["--expression=1e rm"],
            &["-ne1e rm"],
            &["--", "1e rm"],
            &["p;e rm"],
            &["{e rm\n}"],
        ];
        for words in table {
            assert!(runs(words), "{words:?}");
        }
    }
}
