//! The configurations in `docs/policy.md` load without a warning.

use std::path::Path;

use crate::config::{Config, ConfigArgs, Paths};

#[test]
fn every_example_of_the_page_is_valid() {
    let page = include_str!("../../../../../docs/policy.md");
    let blocks: Vec<&str> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 4);
    let paths = Paths { home: Some("/home/u".into()), ..Paths::default() };
    for block in blocks {
        let config = Config::parse(block, Path::new("policy.md"), &ConfigArgs::default(), &paths).unwrap();
        assert_eq!(config.warnings, config.root_warnings(), "{block}");
    }
}
