//! Any text is a configuration or is refused with its position.
#![no_main]

use std::path::Path;

use daemon::config::{Config, ConfigArgs, Paths};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Config::parse(text, Path::new("c.toml"), &ConfigArgs::default(), &Paths::default()) {
        assert!(error.to_string().starts_with("c.toml:"), "{error}");
    }
});
