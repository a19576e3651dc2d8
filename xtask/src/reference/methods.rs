//! The method pages: one row per method of each face's table.

use std::fmt::Write as _;

use anyhow::Result;
use daemon::core::session::Face;
use daemon::core::table::Method;
use daemon::faces::{exec_server, host, rexd};
use wire::rexd::v1::{METHODS, Origin, codes};

/// Every page with its text.
pub(crate) fn pages() -> Result<Vec<(String, String)>> {
    Ok(vec![
        ("docs/reference/rexd-v1-methods.md".to_owned(), rexd_page()?),
        ("docs/reference/exec-server-methods.md".to_owned(), exec_server_page()?),
        ("docs/reference/host-methods.md".to_owned(), host_page()?),
    ])
}

fn rexd_page() -> Result<String> {
    let mut text = String::from(
        "# REXD v1 methods\n\nWritten by `cargo xtask generate` from `crates/daemon/src/faces/rexd/table.rs` and `crates/wire`; do \
         not edit.\nA key is an `idempotency_key`. An addition is not in the first version of the specification.\n\n\
         | method | scope | schedule | key | addition | params | result | description |\n|---|---|---|---|---|---|---|---|\n",
    );
    for info in METHODS {
        let row = rexd::TABLE.iter().find(|row| row.name() == info.name);
        let row = row.map_or_else(|| "| | |".to_owned(), |row| cells(*row));
        let addition = if info.origin == Origin::Addition { "yes" } else { "" };
        let (params, result) = ((info.params)().join(", "), (info.result)().join(", "));
        writeln!(text, "| `{}` {row} {addition} | {params} | {result} | {} |", info.name, info.summary)?;
    }
    text.push_str("\n## Error codes\n\n| code | name |\n|---|---|\n");
    for code in codes::ALL {
        writeln!(text, "| {code} | {} |", codes::name(*code).unwrap_or_default())?;
    }
    Ok(text)
}

fn exec_server_page() -> Result<String> {
    let mut text = String::from(
        "# exec-server methods\n\nWritten by `cargo xtask generate` from `crates/daemon/src/faces/exec_server/table.rs`; do not edit.\n\n\
         | method | scope | schedule | key |\n|---|---|---|---|\n",
    );
    for row in exec_server::TABLE {
        writeln!(text, "| `{}` {}", row.name(), cells(*row))?;
    }
    Ok(text)
}

fn host_page() -> Result<String> {
    let mut text = String::from(
        "# Messages to a host\n\nWritten by `cargo xtask generate` from `crates/daemon/src/faces/host/table.rs`; do not edit.\n\
         Every `rpc.*` request with the same `request_id` runs once.\n\n\
         | message | scope | schedule | key |\n|---|---|---|---|\n",
    );
    for row in host::TABLE {
        writeln!(text, "| `{}` {}", row.name(), cells(*row))?;
    }
    Ok(text)
}

/// Scope, schedule and idempotency of a row.
fn cells<F: Face>(row: &dyn Method<F>) -> String {
    let key = if row.is_idempotent() { "yes" } else { "" };
    format!("| {:?} | {:?} | {key} |", row.scope(), row.schedule()).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_of_the_wire_module_has_a_row_in_the_face() {
        let missing: Vec<_> =
            METHODS.iter().filter(|info| !rexd::TABLE.iter().any(|row| row.name() == info.name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
