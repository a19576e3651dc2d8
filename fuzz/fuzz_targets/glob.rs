//! Any text is a pattern that matches only below the root, or is refused.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use engine::files::{GlobOptions, Roots, ScanBudget, glob};
use libfuzzer_sys::fuzz_target;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("rexd-fuzz-glob-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("a/.b")).expect("folders");
    std::fs::write(folder.join("a/.b/c.rs"), "").expect("a file");
    folder
});

fuzz_target!(|pattern: &str| {
    let roots = Roots::new(vec![FOLDER.clone()]);
    if let Ok(found) = glob(&roots, &FOLDER, pattern, GlobOptions { max_matches: Some(10) }, &ScanBudget::unbounded()) {
        assert!(found.paths.iter().all(|path| path.starts_with(&*FOLDER)), "{:?}", found.paths);
    }
});
