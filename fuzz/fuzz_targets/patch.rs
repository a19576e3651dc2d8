//! Any text is a patch or is refused, and applying it changes nothing outside its root.
#![no_main]

use std::path::Path;

use engine::files::{Durability, Roots, patch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    drop(patch::parse(text));
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a"), "one\r\ntwo\nthree").expect("a file");
    let roots = Roots::new(vec![folder.path().to_owned()]);
    drop(patch::patch(&roots, folder.path(), text, Durability::Relaxed));
    assert!(!Path::new("/escaped").exists());
});
