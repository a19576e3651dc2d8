//! Reference pages that are generated from the code: methods, modules, limits, and the tests of each invariant.

mod arithmetic;
pub(crate) mod invariants;
mod limits;
mod methods;
mod modules;

use anyhow::Result;

use crate::tree::Tree;

/// Every page with its text.
pub(crate) fn files() -> Result<Vec<(String, String)>> {
    let tree = Tree::read()?;
    let mut files = methods::pages()?;
    files.extend([
        (invariants::PAGE.to_owned(), invariants::page(&tree)?),
        (limits::PAGE.to_owned(), limits::page(&tree)?),
        (modules::PAGE.to_owned(), modules::page(&tree)?),
    ]);
    Ok(files)
}
