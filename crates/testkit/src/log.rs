//! Log: the standard error of a daemon, in a file, so that it never blocks.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;
use std::sync::Arc;

/// The log of a daemon. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Log(Arc<File>);

impl Log {
    /// Creates an empty log.
    #[expect(clippy::new_without_default, reason = "it makes a file")]
    pub fn new() -> Log {
        Log(Arc::new(tempfile::tempfile().expect("a temporary file")))
    }

    /// The log as a child's standard error.
    pub fn stdio(&self) -> Stdio {
        self.0.try_clone().expect("a descriptor").into()
    }

    /// The text so far.
    pub fn text(&self) -> String {
        let length = self.0.metadata().expect("its length").len();
        let mut bytes = vec![0; usize::try_from(length).expect("a length")];
        let read = self.0.read_at(&mut bytes, 0).expect("the log");
        bytes.truncate(read);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
