//! Converts a unified diff to the envelope that the server applies.

use std::fmt::Write as _;

/// Converts a unified diff; `None` if the text is an envelope or has no file header. The error is the text for the model,
/// with a hint.
pub(super) fn convert(text: &str) -> Result<Option<String>, String> {
    let is_envelope = text.lines().any(|line| line.trim() == "*** Begin Patch");
    if is_envelope || !text.lines().any(is_file_header) {
        return Ok(None);
    }
    let mut converter = Converter { lines: text.lines().peekable(), envelope: String::new() };
    converter.envelope.push_str("*** Begin Patch\n");
    while let Some(line) = converter.lines.next() {
        converter.header(line)?;
    }
    converter.envelope.push_str("*** End Patch\n");
    Ok(Some(converter.envelope))
}

/// Whether a line starts the change of a file.
fn is_file_header(line: &str) -> bool {
    ["--- ", "rename from ", "copy from "].iter().any(|start| line.starts_with(start))
}

struct Converter<'a> {
    lines: std::iter::Peekable<std::str::Lines<'a>>,
    envelope: String,
}

impl<'a> Converter<'a> {
    /// Converts the file that starts with this line; lines of git between two files are skipped.
    fn header(&mut self, line: &str) -> Result<(), String> {
        if let Some(from) = line.strip_prefix("rename from ") {
            return self.renamed(from);
        }
        if let Some(from) = line.strip_prefix("copy from ") {
            return match self.lines.peek().and_then(|next| next.strip_prefix("copy to ")) {
                Some(to) => Err(different_names(from, to)),
                None => Ok(()),
            };
        }
        let Some(old) = line.strip_prefix("--- ") else { return Ok(()) };
        let new = self.new_name(line)?;
        let (old, new) = (name(old), name(new));
        match (path(old, "a/"), path(new, "b/")) {
            (None, Some(new)) => {
                writeln!(self.envelope, "*** Add File: {new}").ok();
                self.chunks(|line| line.starts_with('+')).map(drop)
            }
            (Some(old), None) => self.deleted(old),
            (Some(path), Some(new_path)) if path == new_path || old == new => {
                writeln!(self.envelope, "*** Update File: {}", if old == new { old } else { path }).ok();
                self.chunks(|_| true).map(drop)
            }
            (Some(_), Some(_)) => Err(different_names(old, new)),
            (None, None) => {
                Err("invalid diff: both names of a file are /dev/null\nhint: write the path of the file \
                in the `---` or the `+++` line"
                    .to_owned())
            }
        }
    }

    /// Converts a file that git renamed; its changes follow with the headers of both names.
    fn renamed(&mut self, from: &str) -> Result<(), String> {
        let Some(to) = self.lines.next().and_then(|line| line.strip_prefix("rename to ")) else {
            return Err(format!(
                "invalid diff: no `rename to` line follows `rename from {from}`\nhint: add the line"
            ));
        };
        while self.lines.next_if(|line| line.starts_with("index ")).is_some() {}
        if let Some(line) = self.lines.next_if(|line| line.starts_with("--- ")) {
            self.new_name(line)?;
        }
        write!(self.envelope, "*** Update File: {from}\n*** Move to: {to}\n").ok();
        self.chunks(|_| true).map(drop)
    }

    /// Converts a deletion. The update before it makes the server compare the removed lines with the file.
    fn deleted(&mut self, path: &str) -> Result<(), String> {
        writeln!(self.envelope, "*** Update File: {path}").ok();
        if !self.chunks(|_| true)? {
            return Err(format!(
                "cannot check the deletion of {path}: the diff has none of its lines\nhint: add the removed lines, or \
                 write `*** Begin Patch`, `*** Delete File: {path}` and `*** End Patch`"
            ));
        }
        writeln!(self.envelope, "*** Delete File: {path}").ok();
        Ok(())
    }

    /// The name in the `+++` line, which follows the `---` line.
    fn new_name(&mut self, line: &str) -> Result<&'a str, String> {
        self.lines.next().and_then(|next| next.strip_prefix("+++ ")).ok_or_else(|| {
            format!("invalid diff: no `+++` line follows `{line}`\nhint: write both lines before the hunks of a file")
        })
    }

    /// Copies the lines of all chunks that are `kept`. Whether there was a chunk. Lines after the last one that may belong
    /// to it are refused, because they would be lost.
    fn chunks(&mut self, kept: impl Fn(&str) -> bool) -> Result<bool, String> {
        let mut last = None;
        loop {
            while self.lines.next_if(|line| line.is_empty()).is_some() {}
            let Some(header) = self.lines.next_if(|line| line.starts_with("@@ ")) else { break };
            if kept("@@") {
                writeln!(self.envelope, "{header}").ok();
            }
            self.chunk(header, &kept)?;
            last = Some(header);
        }
        match (self.lines.peek(), last) {
            (Some(line), Some(header)) if is_change(line) => Err(wrong_counts(header, line)),
            (Some(line), None) if is_change(line) => Err(format!(
                "invalid diff: no `@@ -1,2 +1,2 @@` line before `{line}`\nhint: start each hunk with such a line"
            )),
            _ => Ok(last.is_some()),
        }
    }

    /// Copies the lines of one chunk. Its header has their number, so that a removed line `-- x` is not taken for the
    /// header of a file.
    fn chunk(&mut self, header: &str, kept: &impl Fn(&str) -> bool) -> Result<(), String> {
        let (mut old, mut new) = counts(header).ok_or_else(|| {
            format!("invalid hunk header `{header}`\nhint: write the line numbers and counts, as in `@@ -1,2 +1,2 @@`")
        })?;
        while let Some(line) = self.lines.next_if(|line| (old, new) != (0, 0) || line.starts_with('\\')) {
            let (is_old, is_new) = match line.chars().next() {
                Some('-') => (1, 0),
                Some('+') => (0, 1),
                // The line without a line end at the end of a file: the server keeps it so.
                Some('\\') => continue,
                Some(' ') | None => (1, 1),
                Some(_) => return Err(wrong_counts(header, line)),
            };
            (old, new) = old
                .checked_sub(is_old)
                .zip(new.checked_sub(is_new))
                .ok_or_else(|| wrong_counts(header, line))?;
            if kept(line) {
                // Editors strip the blank of an empty line of context.
                writeln!(self.envelope, "{}", if line.is_empty() { " " } else { line }).ok();
            }
        }
        Ok(())
    }
}

/// Whether a line after a chunk may belong to it: it is neither the next file header nor the signature of a mail.
fn is_change(line: &str) -> bool {
    line.starts_with(['+', '-', ' ', '@']) && !line.starts_with("--- ") && line != "-- "
}

/// The error for a chunk whose lines do not fit its header.
fn wrong_counts(header: &str, line: &str) -> String {
    format!(
        "invalid hunk `{header}`: the line `{line}` does not fit its line counts\nhint: correct the counts in the \
         header, or write a `*** Begin Patch` envelope, which needs none"
    )
}

/// The error for a file with two names that git did not rename.
fn different_names(old: &str, new: &str) -> String {
    format!(
        "cannot tell which file to change: the diff names {old} and {new}\nhint: write the path of the file to change in \
         both the `---` and the `+++` line; to move it, add `rename from` and `rename to` lines; to copy it, create the new \
         file"
    )
}

/// The name in a header, without the date that diff adds.
fn name(text: &str) -> &str {
    text.split('\t').next().unwrap_or(text).trim_end()
}

/// The path of a name, without the prefix that git adds; `None` for `/dev/null`.
fn path<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    (name != "/dev/null").then(|| name.strip_prefix(prefix).unwrap_or(name))
}

/// The number of old and of new lines in `@@ -1,2 +3,4 @@`.
fn counts(header: &str) -> Option<(usize, usize)> {
    let mut ranges = header.strip_prefix("@@ ")?.split(' ');
    let mut count = |sign: char| {
        let range = ranges.next()?.strip_prefix(sign)?;
        range.split_once(',').map_or(Some(1), |(_, count)| count.parse().ok())
    };
    Some((count('-')?, count('+')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_envelope(text: &str) -> Option<String> {
        convert(text).ok().flatten()
    }

    #[test]
    fn a_diff_of_git_becomes_an_envelope() {
        let diff = "diff --git a/x.rs b/x.rs\nindex 1..2 100644\n--- a/x.rs\n+++ b/x.rs\n@@ -1,3 +1,3 @@ fn a() {\n a\n--- b\n+++ c\n d\n\
                    diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n\\ No newline at end of file\n\
                    --- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-o\n";
        assert_eq!(
            to_envelope(diff).unwrap(),
            "*** Begin Patch\n*** Update File: x.rs\n@@ -1,3 +1,3 @@ fn a() {\n a\n--- b\n+++ c\n d\n*** Add File: new\n+n\n\
             *** Update File: old\n@@ -1 +0,0 @@\n-o\n*** Delete File: old\n*** End Patch\n"
        );
    }

    #[test]
    fn dates_and_renames_are_understood() {
        let diff = "--- x\t2026-01-01 00:00:00\n+++ x\t2026-01-02 00:00:00\n@@ -1,2 +1,2 @@\n\n-a\n+b\n";
        assert_eq!(
            to_envelope(diff).unwrap(),
            "*** Begin Patch\n*** Update File: x\n@@ -1,2 +1,2 @@\n \n-a\n+b\n*** End Patch\n"
        );
        let diff = "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\nindex 1..2 100644\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(
            to_envelope(diff).unwrap(),
            "*** Begin Patch\n*** Update File: x\n*** Move to: y\n@@ -1 +1 @@\n-a\n+b\n*** End Patch\n"
        );
    }

    #[test]
    fn two_names_are_only_a_move_after_a_rename() {
        let hunk = "@@ -1 +1 @@\n-a\n+b\n";
        for names in [
            "--- foo.py\t2026-01-01 00:00:00\n+++ foo_new.py\t2026-01-02 00:00:00\n",
            "--- old/foo.py\n+++ new/foo.py\n",
            "diff --git a/x b/y\nsimilarity index 90%\ncopy from x\ncopy to y\nindex 1..2 100644\n--- a/x\n+++ b/y\n",
        ] {
            let refused = convert(&format!("{names}{hunk}")).unwrap_err();
            assert!(
                refused.starts_with("cannot tell which file") && refused.contains("\nhint: "),
                "{refused}"
            );
            assert_eq!(to_envelope(&format!("{names}{hunk}")), None);
        }
        let refused =
            convert("diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n").unwrap_err();
        assert!(refused.contains("names x and y\n"), "{refused}");
        for (names, path) in
            [("--- a/x\n+++ x\n", "x"), ("--- x\n+++ b/x\n", "x"), ("--- a/x\n+++ a/x\n", "a/x")]
        {
            let envelope = to_envelope(&format!("{names}{hunk}")).unwrap();
            assert_eq!(envelope, format!("*** Begin Patch\n*** Update File: {path}\n{hunk}*** End Patch\n"));
        }
    }

    #[test]
    fn a_deletion_that_cannot_be_checked_is_refused() {
        for diff in
            ["--- a/x\n+++ /dev/null\n", "--- a/x\n+++ /dev/null\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n"]
        {
            let refused = convert(diff).unwrap_err();
            assert!(
                refused.starts_with("cannot check the deletion of x") && refused.contains("\nhint: "),
                "{refused}"
            );
        }
    }

    #[test]
    fn lines_that_the_counts_leave_out_are_refused() {
        let header = "@@ -1,1 +1,1 @@";
        for more in ["+c", "-c", "-- c", " c", "\n+c", "@@\n-c\n+d", "\\ No newline at end of file\n+c"] {
            let refused = convert(&format!("--- a/x\n+++ b/x\n{header}\n-a\n+b\n{more}\n")).unwrap_err();
            assert!(refused.starts_with(&format!("invalid hunk `{header}`")), "{refused}");
            assert!(refused.contains("\nhint: "), "{refused}");
        }
        for hunk in ["@@ -1,1 +1,2 @@\n-a\n-b\n", "@@ -1,9 +1,9 @@\n-a\n@@ -5 +5 @@\n-b\n"] {
            assert!(convert(&format!("--- a/x\n+++ b/x\n{hunk}")).is_err(), "{hunk}");
        }
        assert!(convert("--- /dev/null\n+++ b/x\n+a\n").is_err());
        let hunk = format!("@@ -{0},{0} +{0},{0} @@\n-a\n", usize::MAX);
        assert!(convert(&format!("--- a/x\n+++ b/x\n{hunk}")).is_ok());
        for more in [
            "",
            "\n",
            "-- \n2.39.5\n\n",
            "\n@@ -5 +5 @@\n-c\n+d\n",
            "\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
        ] {
            let envelope = to_envelope(&format!("--- a/x\n+++ b/x\n{header}\n-a\n+b\n{more}")).unwrap();
            assert_eq!(envelope.contains("+d\n"), more.contains("+d\n"), "{envelope}");
            assert_eq!(envelope.contains("File: y\n"), more.contains("b/y\n"), "{envelope}");
        }
    }

    #[test]
    fn other_texts_are_not_converted() {
        for text in [
            "",
            "hello",
            "*** Begin Patch\n*** Update File: x\n@@\n--- a\n+b\n*** End Patch",
            "--- a/x\nno second header\n",
            "--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n?what\n",
            "--- a/x\n+++ b/x\n@@ wrong @@\n a\n",
        ] {
            assert_eq!(to_envelope(text), None, "{text}");
        }
    }
}
