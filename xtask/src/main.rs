//! tidy, schema export, release chores.

fn main() {}
