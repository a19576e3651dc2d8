//! Hashes of files: of the whole content, of a prefix, and cancelled.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::Ordering;

use engine::Error;
use engine::files::{FileHash, FileHasher, HashKind, Roots, ScanBudget};

fn hex(hashed: FileHash) -> String {
    hashed.digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_hash_covers_the_requested_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let roots = Roots::new(vec![directory.path().to_owned()]);
    fs::write(directory.path().join("abc"), "abcdef").unwrap();
    symlink("abc", directory.path().join("link")).unwrap();
    let of_kind = |kind, name: &str, first| {
        let path = roots.admit(directory.path(), Path::new(name)).unwrap();
        FileHasher::open(&path).and_then(|file| file.run(kind, first, &ScanBudget::unbounded()))
    };
    let of = |name: &str, first| of_kind(HashKind::Sha256, name, first);
    // The values are those of `sha256sum`.
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let abcdef = "bef57ec7f53a6d40beb640a780a639c83bc29ac8a9816f1fc6c5c6dcd93c4721";
    assert_eq!(hex(of("abc", Some(3)).unwrap()), abc);
    assert_eq!(of("abc", Some(3)).unwrap().bytes, 3);
    for first in [None, Some(6), Some(1 << 40)] {
        let whole = of("link", first).unwrap();
        assert_eq!((whole.bytes, hex(whole).as_str()), (6, abcdef));
    }
    // As `xxhsum -H128` says.
    let (abc, abcdef) = ("06b05ab6733a618578af5f94892f3950", "389197a55db2b2e4da35a6714d34f8a2");
    assert_eq!(hex(of_kind(HashKind::Xxh128, "abc", Some(3)).unwrap()), abc);
    assert_eq!(hex(of_kind(HashKind::Xxh128, "abc", None).unwrap()), abcdef);
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
    let hasher = FileHasher::open(&path).unwrap();
    let run = |kind, first, scan: &ScanBudget| hasher.run(kind, first, scan);
    let unbounded = ScanBudget::unbounded();
    // As `head -c 3145728 /dev/zero | sha256sum` says.
    let zeros = "bbd05cf6097ac9b1f89ea29d2542c1b7b67ee46848393895f5a9e43fa1f621e5";
    assert_eq!(hex(run(HashKind::Sha256, Some(3 << 20), &unbounded).unwrap()), zeros);
    assert_eq!(run(HashKind::Sha256, None, &unbounded).unwrap().bytes, 3 << 20);
    let zeros = "5c88e21b630ed3530a39e93b412201bd";
    assert_eq!(hex(run(HashKind::Xxh128, None, &unbounded).unwrap()), zeros);
    let withdrawn = ScanBudget::unbounded();
    withdrawn.cancelled.store(true, Ordering::Relaxed);
    assert!(matches!(run(HashKind::Sha256, None, &withdrawn), Err(Error::Cancelled)));
}
