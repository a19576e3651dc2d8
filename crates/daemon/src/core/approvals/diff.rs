//! The diff of a write, an edit or a patch, for the person who approves it.

use std::ops::Range;
use std::time::{Duration, Instant};

use engine::approval::Diff;
use engine::files::patch::PatchPlan;
use engine::files::{self, Edit, ReadRange, WriteMode};
use engine::{Error, RootedPath};
use sha2::{Digest as _, Sha256};
use similar::DiffTag;
use similar::algorithms::{Capture, Replace, myers};

/// The maximal size of a diff; the rest is cut and counted.
const MAX_DIFF_BYTES: usize = 64 * 1024;
/// Files above this size are not compared: the preview gives only their sizes.
const MAX_COMPARED_BYTES: u64 = 4 * 1024 * 1024;

/// How long the algorithm looks for a minimal diff before it accepts a longer one.
const DIFF_TIMEOUT: Duration = Duration::from_millis(200);

/// A digest of the files before and after a change. If it differs later, the approved preview is out of date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviewDigest([u8; 32]);

/// A change to files, computed from their current content.
#[derive(Debug)]
pub struct Preview {
    /// The diff that the approver sees.
    pub diff: Diff,
    /// Covers the whole change, including what the diff cuts.
    pub digest: PreviewDigest,
}

/// The preview of a write.
pub fn write(path: &RootedPath, bytes: &[u8], mode: WriteMode) -> Result<Preview, Error> {
    let mut preview = PreviewBuilder::default();
    let before = match files::stat(path)? {
        Some(found) if found.size.saturating_add(bytes.len() as u64) > MAX_COMPARED_BYTES => {
            let after = if mode == WriteMode::Append { found.size } else { 0 } + bytes.len() as u64;
            preview.large(path, (found.size, found.mtime_ms), (after, bytes));
            return Ok(preview.finish());
        }
        Some(_) => Some(files::read(path, ReadRange::whole(MAX_COMPARED_BYTES))?.bytes),
        None => None,
    };
    let after = match (mode, &before) {
        (WriteMode::Append, Some(before)) => [before, bytes].concat(),
        _ => bytes.to_vec(),
    };
    preview.file(path, before.as_deref(), Some(&after));
    Ok(preview.finish())
}

/// The preview of an edit, or the error with which the edit would fail.
pub fn edit(path: &RootedPath, edit: &Edit) -> Result<Preview, Error> {
    let planned = files::plan_edit(path, edit)?;
    let mut preview = PreviewBuilder::default();
    preview.file(path, planned.before.as_ref().map(|text| text.as_bytes()), Some(planned.after.as_bytes()));
    Ok(preview.finish())
}

/// The preview of a patch.
pub fn patch(plan: &PatchPlan) -> Preview {
    let mut preview = PreviewBuilder::default();
    for change in plan.changes() {
        preview.file(&change.path, change.before.as_deref(), change.after.as_deref());
    }
    preview.finish()
}

#[derive(Default)]
struct PreviewBuilder {
    text: String,
    digest: Sha256,
}

impl PreviewBuilder {
    fn file(&mut self, path: &RootedPath, before: Option<&[u8]>, after: Option<&[u8]>) {
        for side in [before, after] {
            self.digest.update([u8::from(side.is_some())]);
            self.digest.update(side.unwrap_or_default().len().to_le_bytes());
            self.digest.update(side.unwrap_or_default());
        }
        let name = path.as_path().display().to_string();
        let (old, new) = (before.unwrap_or_default(), after.unwrap_or_default());
        let old_name = if before.is_some() { name.as_str() } else { "/dev/null" };
        let new_name = if after.is_some() { name.as_str() } else { "/dev/null" };
        let is_large = old.len().max(new.len()) as u64 > MAX_COMPARED_BYTES;
        match (std::str::from_utf8(old), std::str::from_utf8(new)) {
            (Ok(old), Ok(new)) if !is_large => {
                self.text += &unified(old, new, (old_name, new_name));
            }
            _ => {
                self.text +=
                    &format!("{old_name} -> {new_name}: {} bytes become {} bytes\n", old.len(), new.len());
            }
        }
    }

    /// A file too large to compare: the text gives its sizes, the digest covers its size and modification time.
    fn large(&mut self, path: &RootedPath, (size, mtime): (u64, i64), (after, written): (u64, &[u8])) {
        self.digest.update(size.to_le_bytes());
        self.digest.update(mtime.to_le_bytes());
        self.digest.update(written);
        self.text += &format!("{}: {size} bytes become {after} bytes\n", path.as_path().display());
    }

    fn finish(mut self) -> Preview {
        let whole = self.text.len();
        let mut end = whole.min(MAX_DIFF_BYTES);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        self.text.truncate(end);
        let diff = Diff { text: self.text, cut_bytes: (whole - end) as u64 };
        Preview { diff, digest: PreviewDigest(self.digest.finalize().into()) }
    }
}

/// A unified diff with three lines of context; empty if nothing differs. `similar::TextDiff` would do the same, but
/// contains five more algorithms, 200 KB of the program.
fn unified(old: &str, new: &str, (old_name, new_name): (&str, &str)) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let mut found = Replace::new(Capture::new());
    let deadline = Instant::now().checked_add(DIFF_TIMEOUT);
    let Ok(()) = myers::diff_deadline(&mut found, &old[..], 0..old.len(), &new[..], 0..new.len(), deadline);
    let mut text = String::new();
    for hunk in found.into_inner().into_grouped_ops(3) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        if text.is_empty() {
            text = format!("--- {old_name}\n+++ {new_name}\n");
        }
        let old_lines = lines(first.old_range().start..last.old_range().end);
        let new_lines = lines(first.new_range().start..last.new_range().end);
        text += &format!("@@ -{old_lines} +{new_lines} @@\n");
        for change in &hunk {
            let is_equal = change.tag() == DiffTag::Equal;
            let removed = old[change.old_range()].iter().map(|line| (if is_equal { ' ' } else { '-' }, line));
            let added = new[change.new_range()].iter().map(|line| ('+', line)).filter(|_| !is_equal);
            for (sign, line) in removed.chain(added) {
                text.push(sign);
                text += line;
                if !line.ends_with('\n') {
                    text += "\n\\ No newline at end of file\n";
                }
            }
        }
    }
    text
}

/// The lines of a hunk as a unified diff states them.
fn lines(range: Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => (range.start + 1).to_string(),
        count => format!("{},{count}", range.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unified_diff_has_the_usual_form() {
        let diff = |old: &str, new: &str| unified(old, new, ("a", "b"));
        assert_eq!(diff("same\n", "same\n"), "");
        assert_eq!(diff("", "one\n"), "--- a\n+++ b\n@@ -0,0 +1 @@\n+one\n");
        assert_eq!(diff("one\n", ""), "--- a\n+++ b\n@@ -1 +0,0 @@\n-one\n");
        assert_eq!(
            diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9"),
            "--- a\n+++ b\n@@ -2,8 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n-9\n+9\n\\ No newline at end of file\n"
        );
    }

    #[test]
    fn distant_changes_are_separate_hunks_and_equal_to_those_of_text_diff() {
        let old: String = (0..100).map(|line| format!("line {line}\n")).collect();
        let new = old
            .replace("line 10\n", "")
            .replace("line 50\n", "line fifty\nmore\n")
            .replace("line 99\n", "end");
        let expected = similar::TextDiff::from_lines(&old, &new);
        let expected = expected.unified_diff().context_radius(3).header("a", "b").to_string();
        assert_eq!(unified(&old, &new, ("a", "b")), expected);
        assert_eq!(expected.matches("@@ -").count(), 3);
    }
}
