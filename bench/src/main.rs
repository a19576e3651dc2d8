//! Measures rexd beside its peers in one run and prints ratios.

fn main() {}
