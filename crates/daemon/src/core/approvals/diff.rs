//! The diff of a write, an edit or a patch, for the person who approves it.

use std::time::Duration;

use engine::approval::Diff;
use engine::files::patch::PatchPlan;
use engine::files::{self, Edit, ReadRange, WriteMode};
use engine::{Error, RootedPath};
use sha2::{Digest as _, Sha256};
use similar::TextDiff;

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
                let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(old, new);
                self.text += &diff.unified_diff().context_radius(3).header(old_name, new_name).to_string();
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
