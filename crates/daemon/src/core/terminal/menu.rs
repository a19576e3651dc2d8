//! Recognises menus on the screen: numbered entries, entries with an arrow or another background, and rows of buttons.

use super::question::{is_negative, is_positive, looks_like_prompt};
use super::rows::{ScreenRow, ScreenRows, Segment, normalize};

/// Entries of a menu: at most 20; a longer list is not a question.
const MAX_ENTRIES: usize = 20;
/// Entries of a menu that is only marked by its colours: at most 10, so that a table is none.
const MAX_COLOURED_ENTRIES: usize = 10;
/// Buttons in a row: at most 5; more are words of a text.
const MAX_BUTTONS: usize = 5;
/// Columns between two buttons; more separates them from hints in the same row.
const MAX_BUTTON_GAP: usize = 8;
/// Rows of a question above its menu.
const MAX_QUESTION_ROWS: usize = 12;

/// A menu with its question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Menu {
    pub(super) question: String,
    pub(super) entries: Vec<MenuEntry>,
    /// Whether entries are selected by typing into a line.
    pub(super) is_typed: bool,
}

/// One entry, and the keys that select it while the screen is as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MenuEntry {
    pub(super) label: String,
    pub(super) keys: String,
}

/// An entry as one row shows it.
#[derive(Debug, Clone)]
struct Line {
    row: usize,
    label_column: usize,
    number: Option<usize>,
    label: String,
    has_arrow: bool,
}

impl Menu {
    /// The lowest menu that waits for a key or a line. `is_line_mode`: whether the terminal delivers lines.
    pub(super) fn find(screen: &ScreenRows, is_line_mode: bool) -> Option<Menu> {
        if is_line_mode {
            return typed_menu(screen, "\n");
        }
        numbered(screen)
            .or_else(|| arrows(screen))
            // A list comes before the buttons below it.
            .or_else(|| coloured(screen))
            .or_else(|| buttons(screen))
            // Below a list in a pager there is only a colon.
            .or_else(|| typed_menu(screen, "\r").filter(|_| looks_like_prompt(&screen.line_at_cursor().1)))
    }

    /// The first entry that means yes without granting more than this one operation.
    pub(super) fn approving(&self) -> Option<&MenuEntry> {
        let once = |entry: &&MenuEntry| is_positive(&entry.label) && !grants_more(&entry.label);
        self.entries.iter().find(once).or_else(|| self.entries.iter().find(|entry| is_positive(&entry.label)))
    }

    /// The first entry that means no.
    pub(super) fn denying(&self) -> Option<&MenuEntry> {
        self.entries.iter().find(|entry| is_negative(&entry.label))
    }
}

fn grants_more(label: &str) -> bool {
    let label = label.to_lowercase();
    ["always", "again", "session", "all ", "auto"].iter().any(|word| label.contains(word))
}

/// Entries that are numbered from 1, one of which is highlighted.
fn numbered(screen: &ScreenRows) -> Option<Menu> {
    let lines = numbered_lines(screen, screen.rows.len())?;
    highlighted(screen, &lines)?;
    let key =
        |line: &Line| shortcut(&line.label).unwrap_or_else(|| line.number.unwrap_or_default().to_string());
    // Two digits would select the entry of the first one.
    let is_short = lines.len() <= 9 || lines.iter().all(|line| shortcut(&line.label).is_some());
    is_short.then(|| menu(screen, &lines, |_, line| key(line), false))
}

/// Numbered entries above a line in which the number is typed.
fn typed_menu(screen: &ScreenRows, end: &str) -> Option<Menu> {
    let (first, line) = screen.line_at_cursor();
    let lines = numbered_lines(screen, first)?;
    let last = lines.last()?.row;
    let between = (last + 1..first).filter(|row| screen.row(*row).is_some_and(|row| !row.is_blank())).count();
    if between > 1 || line.trim().is_empty() || screen.is_cursor_hidden {
        return None;
    }
    let key = |_: usize, line: &Line| format!("{}{end}", line.number.unwrap_or_default());
    Some(menu(screen, &lines, key, true))
}

/// The lowest group of rows above `end` that are numbered 1, 2, …
fn numbered_lines(screen: &ScreenRows, end: usize) -> Option<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    for row in (0..end).rev() {
        let Some(content) = screen.row(row) else { continue };
        let entry = entry(row, content);
        match (entry.number, lines.last().map(|below| below.number)) {
            (Some(number), Some(Some(below))) if number + 1 == below => lines.push(entry),
            (Some(number), _) => {
                lines.clear();
                if number > 1 {
                    lines.push(entry);
                }
            }
            // A label may continue in the next row, and entries may be set apart by a blank one.
            (None, Some(_)) if content.is_blank() || entry.label_column > 2 => {}
            (None, _) => lines.clear(),
        }
        if lines.last().is_some_and(|line| line.number == Some(1)) {
            lines.reverse();
            return (2..=MAX_ENTRIES).contains(&lines.len()).then_some(lines);
        }
    }
    None
}

/// Entries in adjacent rows, one of which has an arrow.
fn arrows(screen: &ScreenRows) -> Option<Menu> {
    let lines: Vec<Line> = screen.rows.iter().enumerate().map(|(index, row)| entry(index, row)).collect();
    let marked = lines.iter().rposition(|line| line.has_arrow && !line.label.is_empty())?;
    let is_input_line = !screen.is_cursor_hidden && screen.cursor_row != marked && screen.has_bracketed_paste;
    if is_input_line {
        return None;
    }
    let column = lines.get(marked)?.label_column;
    let belongs =
        |line: &&Line| !line.label.is_empty() && line.label_column == column && line.number.is_none();
    let above = lines.get(..marked)?.iter().rev().take_while(belongs).count();
    let below = lines.get(marked + 1..)?.iter().take_while(belongs).count();
    let group = lines.get(marked - above..=marked + below)?;
    let is_alone = group.iter().filter(|line| line.has_arrow).count() == 1;
    let has_cursor = screen.is_cursor_hidden
        || group.iter().any(|line| line.row == screen.cursor_row)
        || screen.cursor_row == marked + below + 1;
    ((2..=MAX_ENTRIES).contains(&group.len()) && is_alone && has_cursor)
        .then(|| menu(screen, group, |index, _| moves(screen, above, index, ['A', 'B']), false))
}

/// A row of buttons, one of which has another background.
fn buttons(screen: &ScreenRows) -> Option<Menu> {
    let last = screen.rows.len().saturating_sub(1);
    // The first and the last row hold titles and status lines.
    let (row, group, selected) = (1..last).rev().find_map(|row| {
        let segments = button_group(screen.row(row)?)?;
        let selected = odd_one(&segments.iter().map(|segment| segment.style).collect::<Vec<_>>())?;
        (screen.is_cursor_hidden || screen.cursor_row == row).then_some((row, segments, selected))
    })?;
    let entry = |(index, segment): (usize, &Segment)| MenuEntry {
        label: button_label(&segment.text),
        keys: moves(screen, selected, index, ['D', 'C']),
    };
    let entries = group.iter().enumerate().map(entry).collect();
    Some(Menu { question: question(screen, row), entries, is_typed: false })
}

/// The adjacent segments of a row that look like buttons, or the labels in angle brackets.
fn button_group(row: &ScreenRow) -> Option<Vec<Segment>> {
    let mut group = row.bracketed();
    if group.is_empty() {
        let mut end = None;
        let is_near = |segment: &Segment| {
            let is_near = end.is_none_or(|end| segment.start <= end + MAX_BUTTON_GAP);
            end = Some(segment.end);
            is_near
        };
        group = row.segments().into_iter().take_while(is_near).collect();
        if group.len() > MAX_BUTTONS {
            group = evenly_spaced(group);
        }
    }
    let is_label = |segment: &Segment| {
        let label = button_label(&segment.text);
        label.chars().any(char::is_alphabetic) && label.chars().count() <= 30 && label.split(' ').count() <= 4
    };
    ((2..=MAX_BUTTONS).contains(&group.len()) && group.iter().all(is_label)).then_some(group)
}

/// The first segments with the same gap between them: in a narrow terminal, hints follow the buttons closely.
fn evenly_spaced(segments: Vec<Segment>) -> Vec<Segment> {
    let pairs = segments.iter().zip(segments.iter().skip(1));
    let gaps: Vec<usize> = pairs.map(|(one, next)| next.start.saturating_sub(one.end)).collect();
    let count = 1 + gaps.iter().take_while(|gap| Some(*gap) == gaps.first()).count();
    segments.into_iter().take(count).collect()
}

fn button_label(text: &str) -> String {
    normalize(text.trim_matches(|symbol| matches!(symbol, '<' | '>' | '[' | ']' | ' ')))
}

/// Entries in adjacent rows, one of which has another background.
fn coloured(screen: &ScreenRows) -> Option<Menu> {
    let last = screen.rows.len().saturating_sub(1);
    let lines: Vec<Line> = screen.rows.iter().enumerate().map(|(index, row)| entry(index, row)).collect();
    let mut end = last;
    while end > 1 {
        let is_entry = |row: &usize| lines.get(*row).is_some_and(|line| !line.label.is_empty());
        let bottom = (1..end).rev().find(is_entry)?;
        let column = lines.get(bottom)?.label_column;
        let belongs = |line: &&Line| !line.label.is_empty() && line.label_column == column;
        let count = lines.get(1..=bottom)?.iter().rev().take_while(belongs).count();
        let group = lines.get(bottom + 1 - count..=bottom)?;
        let styles: Option<Vec<_>> = group.iter().map(|line| screen.row(line.row)?.content_style()).collect();
        let selected = styles.and_then(|styles| odd_one(&styles));
        if let Some(selected) = selected.filter(|_| (2..=MAX_COLOURED_ENTRIES).contains(&count)) {
            let is_at_cursor = group.get(selected).is_some_and(|line| line.row == screen.cursor_row);
            // A pager leaves the cursor behind its status, below the text.
            let is_status = is_at_cursor && selected + 1 == count && screen.is_cursor_behind_text();
            // Some programs leave the cursor at the buttons below the list.
            let is_at_buttons = screen.row(screen.cursor_row).is_some_and(|row| row.bracketed().len() > 1);
            return (screen.is_cursor_hidden || (is_at_cursor && !is_status) || is_at_buttons)
                .then(|| menu(screen, group, |index, _| moves(screen, selected, index, ['A', 'B']), false));
        }
        end = bottom + 1 - count;
    }
    None
}

/// The index of the one element that differs from all others; of two elements, the one that is inverse or not the default.
fn odd_one(styles: &[super::rows::CellStyle]) -> Option<usize> {
    let differs = |index: usize| {
        let others = styles.iter().enumerate().filter(|(other, _)| *other != index);
        let mut others = others.map(|(_, style)| style);
        let first = others.next()?;
        (others.all(|style| style == first) && styles.get(index) != Some(first)).then_some(index)
    };
    let odd: Vec<usize> = (0..styles.len()).filter_map(differs).collect();
    match odd.as_slice() {
        [one] => Some(*one),
        [first, second] => {
            let is_plain = |index: usize| styles.get(index).is_some_and(|style| style.is_plain());
            match (is_plain(*first), is_plain(*second)) {
                (true, false) => Some(*second),
                // Without further evidence the first one: menus start there.
                _ => Some(*first),
            }
        }
        _ => None,
    }
}

/// Whether and where a group of numbered entries has a highlight.
fn highlighted(screen: &ScreenRows, lines: &[Line]) -> Option<usize> {
    let arrow = lines.iter().position(|line| line.has_arrow);
    let styles = || {
        let styles: Option<Vec<_>> = lines.iter().map(|line| screen.row(line.row)?.content_style()).collect();
        odd_one(&styles?)
    };
    arrow.or_else(styles)
}

/// The keys that move the highlight from one index to another and confirm it.
fn moves(screen: &ScreenRows, from: usize, to: usize, [back, forward]: [char; 2]) -> String {
    let introducer = if screen.has_application_cursor { "\x1bO" } else { "\x1b[" };
    let key = if to < from { back } else { forward };
    format!("{introducer}{key}").repeat(to.abs_diff(from)) + "\r"
}

fn menu(screen: &ScreenRows, lines: &[Line], key: impl Fn(usize, &Line) -> String, is_typed: bool) -> Menu {
    let entry =
        |(index, line): (usize, &Line)| MenuEntry { label: line.label.clone(), keys: key(index, line) };
    let first = lines.first().map_or(0, |line| line.row);
    Menu {
        question: question(screen, first),
        entries: lines.iter().enumerate().map(entry).collect(),
        is_typed,
    }
}

/// The text above a menu, up to a rule or two blank rows.
fn question(screen: &ScreenRows, menu: usize) -> String {
    let (mut lines, mut blank) = (Vec::new(), 0);
    for index in (0..menu).rev().take(MAX_QUESTION_ROWS) {
        let Some(row) = screen.row(index) else { break };
        let content = row.content().1;
        match content.is_empty() && !row.is_rule() {
            // Blank rows between the question and its menu do not count.
            true if lines.is_empty() => {}
            true => blank += 1,
            false => blank = 0,
        }
        if blank > 1 {
            break;
        }
        if !content.is_empty() {
            lines.push(normalize(&content));
        }
        // A rule between the question and its buttons does not end it.
        if row.is_rule() && !lines.is_empty() {
            break;
        }
    }
    lines.reverse();
    lines.join("\n")
}

fn entry(index: usize, row: &ScreenRow) -> Line {
    let (column, content) = row.content();
    let mut rest = content.as_str();
    let mut has_arrow = false;
    if let Some(symbol) = rest.chars().next().filter(|symbol| is_arrow(*symbol)) {
        let after = rest.get(symbol.len_utf8()..).unwrap_or_default();
        // `->` and `>>>` are no arrows of a menu.
        if after.starts_with(' ') || after.is_empty() {
            (has_arrow, rest) = (true, after.trim_start());
        }
    }
    let label_column = column + content.chars().count() - rest.chars().count();
    let (number, label) = match split_number(rest) {
        Some((number, label)) => (Some(number), label),
        None => (None, rest),
    };
    Line { row: index, label_column, number, label: normalize(label), has_arrow }
}

fn is_arrow(symbol: char) -> bool {
    matches!(symbol, '❯' | '›' | '▸' | '▶' | '►' | '➤' | '➜' | '→' | '●' | '◉' | '>' | '»')
}

/// `2. Label` or `2) Label`.
fn split_number(text: &str) -> Option<(usize, &str)> {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    let rest = rest.strip_prefix(['.', ')'])?;
    let label = rest.strip_prefix(' ')?.trim();
    (digits <= 2 && !label.is_empty()).then_some((number.parse().ok()?, label))
}

/// The key that a label names at its end: `Yes, proceed (y)`.
fn shortcut(label: &str) -> Option<String> {
    let (_, key) = label.strip_suffix(')')?.rsplit_once('(')?;
    match key {
        "esc" | "Esc" | "escape" => Some("\x1b".to_owned()),
        "enter" | "Enter" => Some("\r".to_owned()),
        _ => (key.chars().count() == 1 && key.is_ascii()).then(|| key.to_owned()),
    }
}
