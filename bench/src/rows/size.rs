//! The size of the program, and whether it is static.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::report::{Findings, fact, limit};
use crate::world::World;

/// The limit with every face.
const MOST: f64 = 10.2e6;

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let program = fs::read(&world.rexd)?;
    let interpreted = needs_interpreter(&program)?;
    let mut findings = Findings::new("Size of the program");
    let linked = if interpreted { "dynamic" } else { "static" };
    let show = |bytes: f64| format!("{:.2} MB", bytes / 1e6);
    let size = program.len() as f64;
    findings
        .table(&["program", "size", "linked"], vec![vec!["rexd".to_owned(), show(size), linked.to_owned()]]);
    findings.targets.push(limit("size of rexd", size, MOST, show));
    findings.targets.push(fact("rexd is static", linked, "static", !interpreted));
    Ok(findings)
}

/// Whether a 64-bit ELF program asks for a dynamic loader.
fn needs_interpreter(program: &[u8]) -> Result<bool> {
    const INTERPRETER: u32 = 3;
    ensure!(program.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit little-endian ELF program");
    let bytes = |at: usize, size: usize| program.get(at..at + size).context("a cut ELF program");
    let table = usize::try_from(u64::from_le_bytes(bytes(0x20, 8)?.try_into()?))?;
    let each = usize::from(u16::from_le_bytes(bytes(0x36, 2)?.try_into()?));
    let count = usize::from(u16::from_le_bytes(bytes(0x38, 2)?.try_into()?));
    for index in 0..count {
        let kind = u32::from_le_bytes(bytes(table + index * each, 4)?.try_into()?);
        if kind == INTERPRETER {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_script_is_refused() {
        assert!(needs_interpreter(b"#!/bin/sh").is_err());
    }
}
