//! A text table: each column as wide as its widest cell, lines cut at the width of the terminal.

use std::io::IsTerminal;

use crate::escape;
use crate::failure::Failure;
use crate::output;
use crate::terminal;

/// Rows below a heading.
#[derive(Debug)]
pub struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table with this heading.
    pub fn new(heading: &[&str]) -> TextTable {
        TextTable { rows: vec![heading.iter().map(|word| (*word).to_owned()).collect()] }
    }

    /// Adds a row; its cells are escaped.
    pub fn row(&mut self, cells: &[String]) {
        self.rows.push(cells.iter().map(|cell| escape::line(cell).into_owned()).collect());
    }

    /// Prints the table on stdout; on a terminal, lines are cut at its width.
    pub fn print(&self) -> Result<(), Failure> {
        let width = std::io::stdout().is_terminal().then(|| usize::from(terminal::size().cols));
        output::write_out(self.text(width).as_bytes())
    }

    fn text(&self, width: Option<usize>) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:width$}  "));
            }
            let line = line.trim_end();
            match width {
                Some(width) => text.extend(line.chars().take(width)),
                None => text.push_str(line),
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_are_escaped() {
        let mut table = TextTable::new(&["ID", "COMMAND"]);
        table.row(&["p_1".to_owned(), "sleep \u{1b}[2J1".to_owned()]);
        assert_eq!(table.text(None), "ID   COMMAND\np_1  sleep \\u{1b}[2J1\n");
        assert_eq!(table.text(Some(4)), "ID  \np_1 \n");
    }
}
