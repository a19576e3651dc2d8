//! Hashes of files: of the whole content, of a part, and cancelled.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::Ordering;

use engine::Error;
use engine::files::{FileHash, FileHasher, HashRange, Roots, ScanBudget};

fn hex(hashed: FileHash) -> String {
    hashed.sha256.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_hash_covers_the_requested_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let roots = Roots::new(vec![directory.path().to_owned()]);
    fs::write(directory.path().join("abc"), "abcdef").unwrap();
    symlink("abc", directory.path().join("link")).unwrap();
    let of_range = |name: &str, offset, length| {
        let path = roots.admit(directory.path(), Path::new(name)).unwrap();
        let range = HashRange { offset, length };
        FileHasher::open(&path).and_then(|file| file.run(range, &ScanBudget::unbounded()))
    };
    let of = |name: &str, first| of_range(name, 0, first);
    // The values are those of `sha256sum`.
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let abcdef = "bef57ec7f53a6d40beb640a780a639c83bc29ac8a9816f1fc6c5c6dcd93c4721";
    assert_eq!(hex(of("abc", Some(3)).unwrap()), abc);
    assert_eq!(of("abc", Some(3)).unwrap().bytes, 3);
    for first in [None, Some(6), Some(1 << 40)] {
        let whole = of("link", first).unwrap();
        assert_eq!((hex(whole).as_str(), whole.bytes), (abcdef, 6));
    }
    let (def, nothing) = (
        "cb8379ac2098aa165029e3938a51da0bcecfc008fd6795f401178647f96c5b34",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    );
    for length in [None, Some(3), Some(u64::MAX)] {
        let end = of_range("abc", 3, length).unwrap();
        assert_eq!((hex(end).as_str(), end.bytes), (def, 3));
    }
    for offset in [6, i64::MAX as u64, u64::MAX] {
        let behind = of_range("abc", offset, Some(1)).unwrap();
        assert_eq!((hex(behind).as_str(), behind.bytes), (nothing, 0));
    }
    // The size of a file of the kernel is 0.
    let proc = Roots::new(vec!["/proc".into()]);
    let version = proc.admit(Path::new("/proc"), Path::new("version")).unwrap();
    let hashed = FileHasher::open(&version).unwrap().run(HashRange::default(), &ScanBudget::unbounded());
    assert!(hashed.unwrap().bytes > 0);
    assert!(matches!(of(".", None), Err(Error::File { .. })));
    assert!(matches!(of("missing", None), Err(Error::File { .. })));
}

#[test]
fn a_large_file_is_hashed_in_pieces_and_a_withdrawn_hash_stops() {
    let directory = tempfile::tempdir().unwrap();
    let roots = Roots::new(vec![directory.path().to_owned()]);
    let file = fs::File::create(directory.path().join("zeros")).unwrap();
    file.set_len(3 << 20).unwrap();
    let path = roots.admit(directory.path(), Path::new("zeros")).unwrap();
    let hashing = FileHasher::open(&path).unwrap();
    // As `head -c 3145728 /dev/zero | sha256sum` says.
    let zeros = "bbd05cf6097ac9b1f89ea29d2542c1b7b67ee46848393895f5a9e43fa1f621e5";
    let first = HashRange { length: Some(3 << 20), ..HashRange::default() };
    assert_eq!(hex(hashing.run(first, &ScanBudget::unbounded()).unwrap()), zeros);
    let all = HashRange::default();
    assert_eq!(hashing.run(all, &ScanBudget::unbounded()).unwrap().bytes, 3 << 20);
    let withdrawn = ScanBudget::unbounded();
    withdrawn.cancelled.store(true, Ordering::Relaxed);
    assert!(matches!(hashing.run(all, &withdrawn), Err(Error::Cancelled)));
}
