//! Log: what a daemon says on its standard error, in a file that nobody has to empty.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;
use std::sync::Arc;

/// What a daemon logs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Log(Arc<File>);

impl Log {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "it makes a file")]
    pub fn new() -> Log {
        Log(Arc::new(tempfile::tempfile().expect("a temporary file")))
    }

    /// For a child to write to.
    pub fn stdio(&self) -> Stdio {
        self.0.try_clone().expect("a descriptor").into()
    }

    /// All of it so far.
    pub fn text(&self) -> String {
        let length = self.0.metadata().expect("its length").len();
        let mut bytes = vec![0; usize::try_from(length).expect("a length")];
        let read = self.0.read_at(&mut bytes, 0).expect("the log");
        bytes.truncate(read);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
