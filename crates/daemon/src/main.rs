//! `rexd`: serves one engine through the faces named in the configuration.

fn main() {}
