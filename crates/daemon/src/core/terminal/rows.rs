//! The screen as rows of cells with their styles, without the boxes that programs draw around text.

use super::TerminalModel;

/// The attributes by which a program marks a selected entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CellStyle {
    background: vt100::Color,
    is_inverse: bool,
}

impl CellStyle {
    pub(super) fn is_plain(self) -> bool {
        !self.is_inverse && self.background == vt100::Color::Default
    }
}

/// One row: a character and a style per column. The second half of a wide character is a space.
#[derive(Debug, Clone)]
pub(super) struct ScreenRow {
    cells: Vec<(char, CellStyle)>,
    /// Whether the next row continues this one.
    pub(super) is_wrapped: bool,
}

/// A part of a row with one style, such as a button.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) text: String,
    pub(super) style: CellStyle,
}

/// All rows of the screen, and the cursor.
#[derive(Debug, Clone)]
pub(super) struct ScreenRows {
    pub(super) rows: Vec<ScreenRow>,
    pub(super) cursor_row: usize,
    pub(super) cursor_col: usize,
    pub(super) is_cursor_hidden: bool,
    pub(super) is_alternate: bool,
    pub(super) has_bracketed_paste: bool,
    pub(super) has_application_cursor: bool,
}

impl ScreenRows {
    pub(super) fn of(model: &TerminalModel) -> ScreenRows {
        let (screen, size) = (model.vt(), model.size());
        let cell = |row, col| {
            let cell = screen.cell(row, col)?;
            let style = CellStyle { background: cell.bgcolor(), is_inverse: cell.inverse() };
            Some((cell.contents().chars().next().unwrap_or(' '), style))
        };
        let row = |row| ScreenRow {
            cells: (0..size.cols).filter_map(|col| cell(row, col)).collect(),
            is_wrapped: screen.row_wrapped(row),
        };
        let (cursor_row, cursor_col) = screen.cursor_position();
        ScreenRows {
            rows: (0..size.rows).map(row).collect(),
            cursor_row: cursor_row.into(),
            cursor_col: cursor_col.into(),
            is_cursor_hidden: screen.hide_cursor(),
            is_alternate: screen.alternate_screen(),
            has_bracketed_paste: screen.bracketed_paste(),
            has_application_cursor: screen.application_cursor(),
        }
    }

    pub(super) fn row(&self, index: usize) -> Option<&ScreenRow> {
        self.rows.get(index)
    }

    /// The content of a row; empty beyond the screen.
    pub(super) fn content(&self, index: usize) -> String {
        self.row(index).map(|row| row.content().1).unwrap_or_default()
    }

    /// Whether only blanks follow the cursor in its row, and a character precedes it.
    pub(super) fn is_cursor_behind_text(&self) -> bool {
        let Some(row) = self.row(self.cursor_row) else { return false };
        let before = row.text(0, self.cursor_col);
        before.ends_with(|symbol: char| symbol != ' ')
            && row.text(self.cursor_col, usize::MAX).trim().is_empty()
    }

    /// The line at the cursor up to it, with the rows it was wrapped from; and the index of its first row.
    pub(super) fn line_at_cursor(&self) -> (usize, String) {
        let mut first = self.cursor_row;
        while first > 0 && self.row(first - 1).is_some_and(|row| row.is_wrapped) {
            first -= 1;
        }
        let mut line: String =
            (first..self.cursor_row).filter_map(|row| Some(self.row(row)?.text(0, usize::MAX))).collect();
        if let Some(row) = self.row(self.cursor_row) {
            line.push_str(&row.text(0, self.cursor_col));
        }
        (first, line)
    }
}

impl ScreenRow {
    /// The text of these columns, with its spaces.
    pub(super) fn text(&self, from: usize, until: usize) -> String {
        let until = until.min(self.cells.len());
        self.cells.get(from.min(until)..until).unwrap_or_default().iter().map(|(symbol, _)| *symbol).collect()
    }

    /// The first column of the text and the text itself, without spaces and lines of a box around it.
    pub(super) fn content(&self) -> (usize, String) {
        let is_edge = |(symbol, _): &(char, CellStyle)| symbol.is_whitespace() || is_box(*symbol);
        let start = self.cells.iter().position(|cell| !is_edge(cell)).unwrap_or(self.cells.len());
        let end = self.cells.iter().rposition(|cell| !is_edge(cell)).map_or(start, |last| last + 1);
        (start, self.text(start, end))
    }

    pub(super) fn is_blank(&self) -> bool {
        self.content().1.is_empty()
    }

    /// Whether a solid horizontal line crosses the row, as at the edge of a box.
    pub(super) fn is_rule(&self) -> bool {
        self.cells.iter().filter(|(symbol, _)| matches!(symbol, '─' | '━' | '═')).count() >= 5
    }

    /// The style of all characters of the content; `None` if they differ.
    pub(super) fn content_style(&self) -> Option<CellStyle> {
        let (start, text) = self.content();
        let visible =
            self.cells.iter().skip(start).take(text.chars().count()).filter(|(symbol, _)| *symbol != ' ');
        let mut styles = visible.map(|(_, style)| *style);
        let first = styles.next()?;
        styles.all(|style| style == first).then_some(first)
    }

    /// The labels in angle brackets, `< Yes >  < No >`, with the style of their first letter.
    pub(super) fn bracketed(&self) -> Vec<Segment> {
        let mut found = Vec::new();
        let mut open = None;
        for (column, (symbol, _)) in self.cells.iter().enumerate() {
            match symbol {
                '<' => open = Some(column),
                '>' => {
                    let Some(start) = open.take() else { continue };
                    let inside = self.cells.get(start..column).unwrap_or_default();
                    let letter = inside.iter().find(|(symbol, _)| symbol.is_alphabetic());
                    let text = self.text(start + 1, column);
                    found.extend(letter.map(|(_, style)| Segment {
                        start,
                        end: column + 1,
                        text,
                        style: *style,
                    }));
                }
                _ => {}
            }
        }
        found
    }

    /// The parts of the row that are separated by two spaces or a change of style.
    pub(super) fn segments(&self) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        for (column, (symbol, style)) in self.cells.iter().enumerate() {
            if symbol.is_whitespace() || is_box(*symbol) {
                continue;
            }
            match segments.last_mut() {
                Some(last) if column <= last.end + 1 && last.style == *style => {
                    last.text.extend((last.end < column).then_some(' '));
                    last.text.push(*symbol);
                    last.end = column + 1;
                }
                _ => segments.push(Segment {
                    start: column,
                    end: column + 1,
                    text: symbol.to_string(),
                    style: *style,
                }),
            }
        }
        segments
    }
}

/// Whether a character is part of a drawn box.
fn is_box(symbol: char) -> bool {
    matches!(symbol, '\u{2500}'..='\u{259f}' | '|')
}

/// Text with every run of white space as one space.
pub(super) fn normalize(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
