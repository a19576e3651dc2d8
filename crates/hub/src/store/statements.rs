//! Statements with many rows.

use std::fmt::Write as _;

use sqlx::Any;
use sqlx::any::AnyArguments;
use sqlx::query::Query;

use super::Dialect;

/// Rows of one statement, from large to small: few numbers, so that few statements are prepared.
const CHUNKS: [usize; 8] = [128, 64, 32, 16, 8, 4, 2, 1];

pub(super) type AnyQuery<'q> = Query<'q, Any, AnyArguments>;

/// Splits rows so that statements have few different lengths.
pub(super) fn chunks<T>(mut rows: &[T]) -> Vec<&[T]> {
    let mut split = Vec::new();
    while !rows.is_empty() {
        let size = CHUNKS.into_iter().find(|size| *size <= rows.len()).unwrap_or(1);
        let (chunk, rest) = rows.split_at(size);
        split.push(chunk);
        rows = rest;
    }
    split
}

/// `INSERT INTO table (columns) VALUES ($1, …), … ON CONFLICT …`.
pub(super) fn insertion(
    dialect: Dialect,
    table: &str,
    columns: &[&str],
    rows: usize,
    conflict: &str,
) -> String {
    let mut sql = format!("INSERT INTO {table} ({}) VALUES ", columns.join(", "));
    for row in 0..rows {
        let comma = if row == 0 { "" } else { ", " };
        // Writing to a string cannot fail.
        write!(sql, "{comma}({})", dialect.marks(row * columns.len(), columns.len())).ok();
    }
    sql + " ON CONFLICT " + conflict
}
