//! Patches: all forms, applied completely or not at all, with the line endings of the file.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use engine::Error;
use engine::error::PatchError;
use engine::files::patch::{PatchResult, parse, patch, plan};
use engine::files::{Durability, Roots};
use proptest::prelude::*;

struct TestDirectory {
    _directory: tempfile::TempDir,
    top: PathBuf,
    roots: Roots,
}

fn directory(files: &[(&str, &str)]) -> TestDirectory {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    for (name, text) in files {
        fs::write(top.join(name), text).unwrap();
    }
    let roots = Roots::new(vec![top.clone()]);
    TestDirectory { _directory: directory, top, roots }
}

impl TestDirectory {
    fn patch(&self, body: &str) -> Result<PatchResult, Error> {
        let text = format!("*** Begin Patch\n{body}\n*** End Patch\n");
        patch(&self.roots, &self.top, &text, Durability::Relaxed)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.top.join(name)).unwrap()
    }

    /// Every file with its content, so that "nothing changed" can be said.
    fn snapshot(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let mut found = Vec::new();
        let mut waiting = vec![self.top.clone()];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    waiting.push(path.clone());
                }
                found.push((path.clone(), fs::read(path).ok()));
            }
        }
        found.sort();
        found
    }
}

#[test]
fn the_chunks_of_a_patch_change_one_file() {
    let cases: &[(&str, &str, &str, &str)] = &[
        ("replaces a line", "a\nb\nc\n", "@@\n a\n-b\n+B\n c", "a\nB\nc\n"),
        ("needs no header for the first chunk", "a\nb\n", "-a\n+A", "A\nb\n"),
        ("finds the context first", "x\na\ny\na\n", "@@ y\n-a\n+A", "x\na\ny\nA\n"),
        ("takes several chunks in order", "a\nb\nc\nd\n", "@@\n-a\n+A\n@@\n-d\n+D", "A\nb\nc\nD\n"),
        ("appends what replaces nothing", "a\nb\n", "@@\n+c", "a\nb\nc\n"),
        ("appends after other chunks", "a\nb\n", "@@\n-a\n+A\n@@\n+c", "A\nb\nc\n"),
        ("appends first and changes then", "a\nb\n", "@@\n+c\n@@\n-a\n+A", "A\nb\nc\n"),
        ("ignores blanks at line ends", "a  \nb\n", "@@\n-a\n+A\n b", "A\nb\n"),
        ("ignores indentation at last", "    a\nb\n", "@@\n-a\n+A", "A\nb\n"),
        ("keeps lines that stay as the file has them", "a  \nb\n", "@@\n a\n-b\n+B", "a  \nB\n"),
        ("keeps CRLF", "a\r\nb\r\nc\r\n", "@@\n-b\n+B\n+BB", "a\r\nB\r\nBB\r\nc\r\n"),
        ("keeps each line's own ending", "a\nb\r\nc\nd\n", "@@\n-c\n+C", "a\nb\r\nC\nd\n"),
        ("keeps a missing final newline", "a\nb", "@@\n-b\n+B", "a\nB"),
        ("keeps it missing behind an addition", "a\nb", "@@\n b\n+c", "a\nb\nc"),
        ("keeps it missing when appending", "a\nb", "@@\n+c", "a\nb\nc"),
        ("anchors at the end of the file", "a\nb\na\n", "@@\n-a\n+A\n*** End of File", "a\nb\nA\n"),
        ("goes on after an end of file", "x\na\n", "@@\n-x\n+X\n@@\n-a\n+A\n*** End of File", "X\nA\n"),
        ("reads an empty line as one of the file", "a\n\nb\n", "@@\n a\n\n-b\n+B", "a\n\nB\n"),
        ("or as none, if the file has none", "a\nb\n", "@@\n a\n\n-b\n+B", "a\nB\n"),
        ("drops an empty old line at the end", "a\nb\n", "@@\n-b\n-\n+B", "a\nB\n"),
        ("understands unified headers", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B", "a\nB\n"),
        ("takes the line number of a unified header", "a\nb\na\n", "@@ -3 +3 @@\n-a\n+A", "a\nb\nA\n"),
        ("ignores a wrong line number", "a\nb\n", "@@ -9,2 +9,2 @@ fn main\n a\n-b\n+B", "a\nB\n"),
        ("inserts after the line of a unified header", "a\nb\n", "@@ -1,0 +2 @@\n+x", "a\nx\nb\n"),
        ("empties a file", "a\n", "@@\n-a", ""),
        ("fills an empty file", "", "@@\n+a", "a\n"),
        ("inserts in the middle", "a\nc\n", "@@\n a\n+b\n c", "a\nb\nc\n"),
        ("keeps bytes that are not text", "\u{fffd}x\nb\n", "@@\n-b\n+B", "\u{fffd}x\nB\n"),
    ];
    for (what, before, body, after) in cases {
        let directory = directory(&[("file", before)]);
        let done = directory
            .patch(&format!("*** Update File: file\n{body}"))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(directory.text("file"), *after, "{what}");
        assert_eq!(
            done,
            PatchResult { updated: vec![directory.top.join("file")], ..PatchResult::default() },
            "{what}"
        );
        assert_eq!(fs::read_dir(&directory.top).unwrap().count(), 1, "{what}");
    }
}

#[test]
fn context_that_fits_several_places_is_refused_with_their_lines() {
    for (before, body, lines) in [
        ("a\nx\na\n", "@@\n-a\n+A", vec![1, 3]),
        ("f\na\nf\na\n", "@@ f\n-a\n+A", vec![2, 4]),
        ("a\nx\na\n", "@@ -2 +2 @@\n-a\n+A", vec![1, 3]),
        ("x\n a\na \n", "@@\n x\n@@\n-  a\n+A", vec![2, 3]),
    ] {
        let directory = directory(&[("file", before)]);
        let refused = directory.patch(&format!("*** Update File: file\n{body}")).unwrap_err();
        let Error::Patch(PatchError::Ambiguous { lines: found, .. }) = &refused else { panic!("{refused}") };
        assert_eq!(*found, lines, "{body}");
        assert!(refused.to_string().contains("fit 2 places"), "{refused}");
        assert_eq!(directory.text("file"), before);
    }
}

#[test]
fn a_line_number_selects_a_place_after_many_others() {
    let before = "a\n".repeat(600);
    let directory = directory(&[("file", &before)]);
    directory.patch("*** Update File: file\n@@ -500 +500 @@\n-a\n+A").unwrap();
    assert_eq!(directory.text("file"), format!("{}A\n{}", "a\n".repeat(499), "a\n".repeat(100)));
    let refused = directory.patch("*** Update File: file\n@@ -900 +900 @@\n-a\n+A").unwrap_err();
    assert!(matches!(refused, Error::Patch(PatchError::Ambiguous { .. })), "{refused}");
}

#[test]
fn files_are_added_deleted_and_moved() {
    let directory = directory(&[("old", "one\ntwo\n"), ("gone", "x"), ("same", "s\n")]);
    fs::set_permissions(directory.top.join("old"), fs::Permissions::from_mode(0o750)).unwrap();
    let done = directory
        .patch(
            "*** Add File: sub/dir/new\n+hello\n+\n+world\n*** Delete File: gone\n*** Update File: old\n\
             *** Move to: moved/here\n@@\n-two\n+2\n*** Update File: same\n*** Move to: same\n@@\n-s\n+S",
        )
        .unwrap();
    assert_eq!(directory.text("sub/dir/new"), "hello\n\nworld\n");
    assert_eq!(directory.text("moved/here"), "one\n2\n");
    assert_eq!(fs::metadata(directory.top.join("moved/here")).unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!(directory.text("same"), "S\n");
    assert!(!directory.top.join("gone").exists() && !directory.top.join("old").exists());
    let at = |name: &str| directory.top.join(name);
    assert_eq!(
        done,
        PatchResult {
            added: vec![at("sub/dir/new")],
            updated: vec![at("same")],
            deleted: vec![at("gone")],
            moved: vec![(at("old"), at("moved/here"))],
        }
    );
    let mut names: Vec<_> =
        fs::read_dir(&directory.top).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["moved", "same", "sub"]);
}

#[test]
fn parts_of_a_patch_see_what_earlier_parts_did() {
    let directory = directory(&[("file", "a\nb\n")]);
    directory
        .patch(
            "*** Update File: file\n@@\n-a\n+A\n*** Update File: file\n@@\n A\n-b\n+B\n*** Add File: new\n+n\n\
             *** Update File: new\n@@\n-n\n+N\n*** Add File: brief\n+x\n*** Delete File: brief",
        )
        .unwrap();
    assert_eq!((directory.text("file"), directory.text("new")), ("A\nB\n".into(), "N\n".into()));
    assert!(!directory.top.join("brief").exists());
}

#[test]
fn a_deletion_after_an_update_compares_the_lines_and_is_only_a_deletion() {
    let directory = directory(&[("file", "a\nb\n")]);
    let delete = |lines: &str| {
        directory.patch(&format!("*** Update File: file\n@@ -1,2 +0,0 @@\n{lines}\n*** Delete File: file"))
    };
    let refused = delete("-a\n-c").unwrap_err();
    assert!(matches!(refused, Error::Patch(PatchError::NoLines { .. })), "{refused}");
    assert_eq!(directory.text("file"), "a\nb\n");
    let deleted = vec![directory.top.join("file")];
    assert_eq!(delete("-a\n-b").unwrap(), PatchResult { deleted, ..PatchResult::default() });
    assert!(!directory.top.join("file").exists());
}

/// ARCHITECTURE.md, invariant 20.
#[test]
fn a_patch_that_cannot_be_applied_changes_nothing() {
    let directory = directory(&[("file", "a\nb\n"), ("other", "x\n")]);
    let before = directory.snapshot();
    let first = "*** Update File: file\n@@\n-a\n+A\n*** Add File: new/file\n+n\n*** Delete File: other\n";
    for rest in [
        "*** Update File: missing\n@@\n-a\n+b",
        "*** Delete File: missing",
        "*** Update File: file\n@@\n-nothing like it\n+b",
        "*** Update File: file\n@@ no such context\n-b\n+B",
        "*** Add File: file\n+x",
        "*** Add File: ../outside\n+x",
        "*** Update File: file\n@@\n-b\n+B\n*** End of File\n@@\n-A\n+AA\n*** End of File",
        "*** Add File: bad\nno plus",
        "*** Add File: file/below\n+x",
    ] {
        assert!(directory.patch(&format!("{first}{rest}")).is_err(), "{rest}");
        assert_eq!(directory.snapshot(), before, "{rest}");
    }
}

/// ARCHITECTURE.md, invariant 20.
#[test]
fn applied_changes_are_rolled_back_when_a_later_file_fails() {
    let directory = directory(&[("one", "a\n"), ("two", "b\n"), ("three", "c\n")]);
    let body = "*** Begin Patch\n*** Update File: one\n@@\n-a\n+A\n*** Delete File: two\n*** Add File: made/new\n+n\n\
                *** Update File: three\n@@\n-c\n+C\n*** End Patch";
    let planned = plan(&directory.roots, &directory.top, body).unwrap();
    assert_eq!(planned.changes().len(), 4);
    assert_eq!(planned.changes()[0].after.as_deref(), Some(b"A\n".as_slice()));
    fs::write(directory.top.join("three"), "changed meanwhile\n").unwrap();
    let before = directory.snapshot();
    assert!(matches!(planned.apply(Durability::Synced), Err(Error::Conflict { .. })));
    assert_eq!(directory.snapshot(), before);
}

#[test]
fn one_file_under_two_names_is_refused() {
    let directory = directory(&[("file", "a\n")]);
    std::os::unix::fs::symlink("file", directory.top.join("link")).unwrap();
    let done = directory.patch("*** Update File: file\n@@\n-a\n+b\n*** Update File: link\n@@\n-a\n+c");
    assert!(matches!(done, Err(Error::Patch(PatchError::Twice { .. }))));
    // Alone, a link is patched through and stays.
    directory.patch("*** Update File: link\n@@\n-a\n+b").unwrap();
    assert_eq!(directory.text("file"), "b\n");
    assert!(fs::symlink_metadata(directory.top.join("link")).unwrap().is_symlink());
}

#[test]
fn malformed_patches_return_the_reason() {
    let wrap = |body: &str| format!("*** Begin Patch\n{body}\n*** End Patch");
    let cases = [
        (String::new(), "missing Begin/End markers"),
        ("*** Begin Patch\n*** Add File: x\n+y".into(), "missing Begin/End markers"),
        ("*** End Patch\n*** Begin Patch".into(), "missing Begin/End markers"),
        (wrap(""), "does not contain any hunks"),
        (wrap("what"), "line 2"),
        (wrap("*** Add File:\n+x"), "line 2"),
        (wrap("*** Update File: x"), "changes nothing"),
        (wrap("*** Update File: x\n@@\n a\nb"), "line 5"),
    ];
    for (text, message) in cases {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains(message), "{text:?}: {error}");
    }
    assert!(
        parse("Here it is:\n```\n  *** Begin Patch  \n*** Delete File: x\n*** End Patch\n```\nDone.").is_ok()
    );
}

/// A patch that turns one text into the other, with a line of context around each change.
fn diff(old: &[String], new: &[String]) -> String {
    let common = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let tail = old[common..].iter().rev().zip(new[common..].iter().rev()).take_while(|(a, b)| a == b).count();
    let mut text = String::from("*** Update File: file\n@@\n");
    let mut line = |sign: char, line: &str| text.push_str(&format!("{sign}{line}\n"));
    old[..common].iter().for_each(|kept| line(' ', kept));
    old[common..old.len() - tail].iter().for_each(|gone| line('-', gone));
    new[common..new.len() - tail].iter().for_each(|made| line('+', made));
    old[old.len() - tail..].iter().for_each(|kept| line(' ', kept));
    text
}

proptest! {
    /// ARCHITECTURE.md, invariant 25.
    #[test]
    fn parsing_never_panics(text in "(\\*\\*\\* (Begin Patch|End Patch|Add File: a|Update File: b|Delete File: c|Move to: d|End of File)\n|@@ ?x?\n|[-+ ]?[a-z]{0,3}\n|\\PC{0,8}\n){0,20}") {
        drop(parse(&text));
        drop(parse(&format!("*** Begin Patch\n{text}*** End Patch")));
    }

    #[test]
    fn a_generated_patch_gives_the_new_text(
        old in proptest::collection::vec("[a-c]{0,2}", 1..12),
        new in proptest::collection::vec("[a-d]{0,2}", 1..12),
        crlf in any::<bool>(),
        open in any::<bool>(),
    ) {
        prop_assume!(old != new);
        let end = if crlf { "\r\n" } else { "\n" };
        let join = |lines: &[String]| lines.join(end) + if open { "" } else { end };
        // A last line that is empty cannot be without an ending: there is then no such line.
        prop_assume!(!open || (old.last().is_some_and(|line| !line.is_empty()) && new.last().is_some_and(|line| !line.is_empty())));
        // Without any ending a file does not say which one it uses.
        prop_assume!(!open || old.len() > 1);
        let directory = directory(&[("file", &join(&old))]);
        directory.patch(&diff(&old, &new)).unwrap();
        prop_assert_eq!(directory.text("file"), join(&new));
    }
}
