//! A table for people: columns as wide as they need to be, the last as wide as the terminal leaves it.

use std::io::IsTerminal;

use crate::failure::Failure;
use crate::output;
use crate::terminal;

/// Rows under a heading.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this heading.
    pub fn new(heading: &[&str]) -> Table {
        Table { rows: vec![heading.iter().map(|word| (*word).to_owned()).collect()] }
    }

    /// Adds a row. Control characters, which could speak to the terminal, are shown as what they are.
    pub fn row(&mut self, cells: &[String]) {
        self.rows.push(cells.iter().map(|cell| plain(cell)).collect());
    }

    /// Prints it on stdout; on a terminal lines are cut at its width.
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

/// Text without anything that a terminal would obey.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other_and_nothing_speaks_to_the_terminal() {
        let mut table = Table::new(&["ID", "COMMAND"]);
        table.row(&["p_1".to_owned(), "sleep \u{1b}[2J1".to_owned()]);
        assert_eq!(table.text(None), "ID   COMMAND\np_1  sleep \u{fffd}[2J1\n");
        assert_eq!(table.text(Some(4)), "ID  \np_1 \n");
    }
}
