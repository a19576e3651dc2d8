//! Any text may be a configuration: it is read or refused with a place.
#![no_main]

use std::path::Path;

use daemon::config::{Config, ConfigArgs, Paths};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Config::parse(text, Path::new("c.toml"), &ConfigArgs::default(), &Paths::default()) {
        assert!(error.to_string().starts_with("c.toml:"), "{error}");
    }
});
