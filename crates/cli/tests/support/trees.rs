//! Trees to copy, and what is in them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What is known about a name: its kind and, of a file, its mode and content.
#[derive(PartialEq, Eq)]
pub(crate) enum Thing {
    Dir,
    File { mode: u32, content: Vec<u8> },
    Other,
}

impl std::fmt::Debug for Thing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Thing::Dir => f.write_str("dir"),
            Thing::File { mode, content } => {
                write!(f, "file {mode:o} {} bytes, from {:?}", content.len(), content.get(..8))
            }
            Thing::Other => f.write_str("other"),
        }
    }
}

/// Everything below a directory.
pub(crate) fn tree(top: &Path) -> BTreeMap<PathBuf, Thing> {
    let mut all = BTreeMap::new();
    let mut waiting = vec![top.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
            let path = entry.expect("an entry").path();
            let found = fs::symlink_metadata(&path).expect("what it is");
            let thing = match found.is_dir() {
                true => {
                    waiting.push(path.clone());
                    Thing::Dir
                }
                false if found.is_file() => {
                    Thing::File { mode: found.mode() & 0o777, content: fs::read(&path).expect("its content") }
                }
                false => Thing::Other,
            };
            all.insert(path.strip_prefix(top).expect("below the top").to_owned(), thing);
        }
    }
    all
}

/// Bytes that repeat nowhere near, the same each time.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
