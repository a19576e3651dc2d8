//! A name from a target that the client accepts is one component below the destination, whatever the listing contains.
#![no_main]

use std::path::{Component, Path};

use libfuzzer_sys::fuzz_target;
use wire::rexd::v1::FsListResult;

fn check(name: &str) {
    if client::is_file_name(name) {
        assert!(!name.contains('\0'));
        let path = Path::new("/destination").join(name);
        let below: Vec<Component<'_>> = path.strip_prefix("/destination").expect("below").components().collect();
        assert!(matches!(below[..], [Component::Normal(one)] if one == name), "{name:?}");
    }
}

fuzz_target!(|input: (String, &[u8])| {
    let (name, listing) = input;
    check(&name);
    if let Ok(listing) = serde_json::from_slice::<FsListResult>(listing) {
        listing.entries.iter().for_each(|entry| check(&entry.name));
    }
});
