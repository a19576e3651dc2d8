//! What a change will do to files, for the person who decides about it.

use std::time::Duration;

use engine::approval::Diff;
use engine::files::patch::PatchPlan;
use engine::files::{self, Edit, ReadRange, WriteMode};
use engine::{Error, RootedPath};
use sha2::{Digest as _, Sha256};
use similar::TextDiff;

/// The longest diff that is shown; how much was cut off is said.
const SHOWN_BYTES: usize = 64 * 1024;
/// Files larger than this are told by their size alone.
const COMPARED_BYTES: u64 = 4 * 1024 * 1024;

/// How long the shortest diff is looked for; past it a longer one has to do.
const DIFF_TIME: Duration = Duration::from_millis(200);

/// What was shown, so that it can be told later whether it still is the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviewDigest([u8; 32]);

/// A change as it would be now.
#[derive(Debug)]
pub struct Preview {
    /// For people.
    pub diff: Diff,
    /// All of it, with what was cut off.
    pub shown: PreviewDigest,
}

/// What a write would change.
pub fn write(path: &RootedPath, bytes: &[u8], mode: WriteMode) -> Result<Preview, Error> {
    let mut drawing = PreviewBuilder::default();
    let before = match files::stat(path)? {
        Some(found) if found.size.saturating_add(bytes.len() as u64) > COMPARED_BYTES => {
            let after = if mode == WriteMode::Append { found.size } else { 0 } + bytes.len() as u64;
            drawing.large(path, (found.size, found.mtime_ms), (after, bytes));
            return Ok(drawing.finish());
        }
        Some(_) => Some(files::read(path, ReadRange::whole(COMPARED_BYTES))?.bytes),
        None => None,
    };
    let after = match (mode, &before) {
        (WriteMode::Append, Some(before)) => [before, bytes].concat(),
        _ => bytes.to_vec(),
    };
    drawing.file(path, before.as_deref(), Some(&after));
    Ok(drawing.finish())
}

/// What an edit would change; why it cannot be made, if it cannot.
pub fn edit(path: &RootedPath, edit: &Edit) -> Result<Preview, Error> {
    let planned = files::plan_edit(path, edit)?;
    let mut drawing = PreviewBuilder::default();
    drawing.file(path, planned.before.as_ref().map(|text| text.as_bytes()), Some(planned.after.as_bytes()));
    Ok(drawing.finish())
}

/// What a patch would change.
pub fn patch(plan: &PatchPlan) -> Preview {
    let mut drawing = PreviewBuilder::default();
    for change in plan.changes() {
        drawing.file(&change.path, change.before.as_deref(), change.after.as_deref());
    }
    drawing.finish()
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
        let is_large = old.len().max(new.len()) as u64 > COMPARED_BYTES;
        match (std::str::from_utf8(old), std::str::from_utf8(new)) {
            (Ok(old), Ok(new)) if !is_large => {
                let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
                self.text += &diff.unified_diff().context_radius(3).header(old_name, new_name).to_string();
            }
            _ => {
                self.text +=
                    &format!("{old_name} -> {new_name}: {} bytes become {} bytes\n", old.len(), new.len());
            }
        }
    }

    /// A file that nobody would look at whole: told by its size, and known again by its size and time.
    fn large(&mut self, path: &RootedPath, (size, mtime): (u64, i64), (after, written): (u64, &[u8])) {
        self.digest.update(size.to_le_bytes());
        self.digest.update(mtime.to_le_bytes());
        self.digest.update(written);
        self.text += &format!("{}: {size} bytes become {after} bytes\n", path.as_path().display());
    }

    fn finish(mut self) -> Preview {
        let whole = self.text.len();
        let mut end = whole.min(SHOWN_BYTES);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        self.text.truncate(end);
        let diff = Diff { text: self.text, cut_bytes: (whole - end) as u64 };
        Preview { diff, shown: PreviewDigest(self.digest.finalize().into()) }
    }
}
