//! Statements with many rows.

use std::fmt::Write as _;

use sqlx::Any;
use sqlx::any::AnyArguments;
use sqlx::query::Query;

use super::Dialect;

/// Rows of one statement, from large to small: few numbers, so that few statements are prepared.
const SIZES: [usize; 7] = [256, 128, 64, 32, 16, 4, 1];
/// Rows that may be repeated to fill a statement: about as much work as another statement.
const MAX_REPEATED: usize = 16;

pub(super) type AnyQuery<'q> = Query<'q, Any, AnyArguments>;

/// Splits rows so that statements have few different lengths.
pub(super) fn chunks<T>(mut rows: &[T]) -> Vec<&[T]> {
    let mut split = Vec::new();
    while !rows.is_empty() {
        let size = SIZES.into_iter().find(|size| *size <= rows.len()).unwrap_or(1);
        let (chunk, rest) = rows.split_at(size);
        split.push(chunk);
        rows = rest;
    }
    split
}

/// The rows of one statement, the last one repeated, for statements to which a repeated row makes no difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilledRows<'a, T> {
    rows: &'a [T],
    /// The number of rows with repeated ones.
    pub(super) size: usize,
}

impl<'a, T> FilledRows<'a, T> {
    pub(super) fn iter(&self) -> impl Iterator<Item = &'a T> + use<'a, T> {
        self.rows.iter().chain(self.rows.last().into_iter().cycle()).take(self.size)
    }
}

/// Splits rows into few statements by repeating the last row of each.
pub(super) fn filled<T>(mut rows: &[T]) -> Vec<FilledRows<'_, T>> {
    let mut split = Vec::new();
    while !rows.is_empty() {
        let next_larger = SIZES.into_iter().rev().find(|size| *size >= rows.len());
        let repeats = next_larger.filter(|size| size - rows.len() <= MAX_REPEATED);
        let size = repeats.or_else(|| SIZES.into_iter().find(|size| *size <= rows.len())).unwrap_or(1);
        let (chunk, rest) = rows.split_at(size.min(rows.len()));
        split.push(FilledRows { rows: chunk, size });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_few_statements_of_few_lengths_and_none_is_left_out() {
        for count in 0..1200_usize {
            let rows: Vec<usize> = (0..count).collect();
            let split = filled(&rows);
            let mut bound: Vec<usize> = split.iter().flat_map(FilledRows::iter).copied().collect();
            assert_eq!(bound.len(), split.iter().map(|rows| rows.size).sum::<usize>());
            assert!(bound.len() <= count + MAX_REPEATED && split.len() <= count / 256 + 4, "{count}");
            bound.dedup();
            assert_eq!(bound, rows);
            assert!(split.iter().all(|rows| SIZES.contains(&rows.size)));
            assert_eq!(chunks(&rows).concat(), rows);
        }
    }
}
