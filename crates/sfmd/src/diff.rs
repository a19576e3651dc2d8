//! Line differences as a client sees them after a change of a file.

use std::collections::HashMap;

/// How much of a difference is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffOptions {
    /// Unchanged lines around each change.
    pub context: usize,
    /// Lines shown; the rest is counted.
    pub max_lines: usize,
}

impl Default for DiffOptions {
    fn default() -> DiffOptions {
        DiffOptions { context: 3, max_lines: 50 }
    }
}

impl DiffOptions {
    /// Options from the variables `_diff_context` and `_diff_max_lines`; invalid values are ignored.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> DiffOptions {
        let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<usize>().ok());
        let default = DiffOptions::default();
        DiffOptions {
            context: number("_diff_context").unwrap_or(default.context),
            max_lines: number("_diff_max_lines").filter(|lines| *lines >= 1).unwrap_or(default.max_lines),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Kept,
    Removed,
    Added,
}

/// A line with its number in the old and in the new text.
type DiffLine<'a> = (Change, usize, usize, &'a str);

/// The difference between two texts.
pub fn lines(old: &str, new: &str, options: &DiffOptions) -> String {
    let (old_lines, new_lines) = (split(old), split(new));
    if old_lines == new_lines {
        return "(no changes)".to_owned();
    }
    if old.is_empty() {
        let width = digits(new_lines.len());
        let shown =
            new_lines.iter().enumerate().map(|(index, line)| format!("{:width$} + {line}", index + 1));
        return cut(shown.collect(), new_lines.len(), options.max_lines);
    }
    let all = changes(&old_lines, &new_lines);
    let changed = all.iter().filter(|line| line.0 != Change::Kept).count();
    cut(visible(&all, options.context), changed, options.max_lines)
}

/// The lines of a text; a final line feed does not start another line.
fn split(text: &str) -> Vec<&str> {
    match text.is_empty() {
        true => Vec::new(),
        false => text.strip_suffix('\n').unwrap_or(text).split('\n').collect(),
    }
}

fn digits(number: usize) -> usize {
    number.max(1).to_string().len()
}

fn cut(mut shown: Vec<String>, changed: usize, limit: usize) -> String {
    if shown.len() > limit {
        shown.truncate(limit);
        shown.push(match changed.checked_sub(limit).filter(|more| *more > 0) {
            Some(more) => format!("... ({more} more lines changed, truncated at {limit} lines)"),
            None => format!("... (truncated at {limit} lines)"),
        });
    }
    shown.join("\n")
}

fn visible(all: &[DiffLine<'_>], context: usize) -> Vec<String> {
    let mut is_visible = vec![false; all.len()];
    let mut last_marked = 0;
    for index in (0..all.len()).filter(|index| all[*index].0 != Change::Kept) {
        let start = index.saturating_sub(context).max(last_marked);
        let end = index.saturating_add(context).saturating_add(1).min(all.len());
        for mark in is_visible.iter_mut().take(end).skip(start) {
            *mark = true;
        }
        last_marked = end;
    }
    let shown: Vec<(usize, &DiffLine<'_>)> =
        all.iter().enumerate().filter(|(index, _)| is_visible[*index]).collect();
    let widest =
        |number: fn(&DiffLine<'_>) -> usize| shown.iter().map(|(_, line)| number(line)).max().unwrap_or(1);
    let old_width = digits(widest(|line| if line.0 == Change::Added { 0 } else { line.1 }));
    let new_width = digits(widest(|line| if line.0 == Change::Removed { 0 } else { line.2 }));
    let mut output = Vec::with_capacity(shown.len());
    let mut previous = None;
    for (index, (change, old, new, text)) in shown {
        if previous.is_some_and(|previous| previous + 1 != index) {
            output.push(format!("{}...", " ".repeat(old_width + new_width + 3)));
        }
        previous = Some(index);
        output.push(match change {
            Change::Kept => format!("{old:old_width$} {new:new_width$} | {text}"),
            Change::Removed => format!("{old:old_width$} {:new_width$} - {text}", ""),
            Change::Added => format!("{:old_width$} {new:new_width$} + {text}", ""),
        });
    }
    output
}

/// All lines of both texts, removals before additions.
fn changes<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffLine<'a>> {
    let pairs = kept_pairs(old, new);
    let mut all = Vec::with_capacity(old.len() + new.len());
    let (mut old_at, mut new_at) = (0, 0);
    for (old_end, new_end) in pairs.into_iter().chain([(old.len(), new.len())]) {
        all.extend((old_at..old_end).map(|index| (Change::Removed, index + 1, 0, old[index])));
        all.extend((new_at..new_end).map(|index| (Change::Added, 0, index + 1, new[index])));
        if let Some(text) = old.get(old_end).filter(|_| new_end < new.len()) {
            all.push((Change::Kept, old_end + 1, new_end + 1, *text));
        }
        (old_at, new_at) = (old_end + 1, new_end + 1);
    }
    all
}

/// Indices of lines that both texts keep, in order.
fn kept_pairs(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[prefix..], &new[prefix..]);
    let suffix = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_ids, new_ids) =
        interned(&old_rest[..old_rest.len() - suffix], &new_rest[..new_rest.len() - suffix]);
    let mut pairs: Vec<(usize, usize)> = (0..prefix).map(|index| (index, index)).collect();
    pairs.extend(search(&old_ids, &new_ids).into_iter().map(|(a, b)| (a + prefix, b + prefix)));
    let (old_start, new_start) = (old.len() - suffix, new.len() - suffix);
    pairs.extend((0..suffix).map(|index| (old_start + index, new_start + index)));
    pairs
}

/// A number for each distinct line.
fn interned(old: &[&str], new: &[&str]) -> (Vec<usize>, Vec<usize>) {
    let mut numbers = HashMap::new();
    let mut intern = |lines: &[&str]| -> Vec<usize> {
        let mut ids = Vec::with_capacity(lines.len());
        for line in lines {
            let next = numbers.len();
            ids.push(*numbers.entry((*line).to_owned()).or_insert(next));
        }
        ids
    };
    (intern(old), intern(new))
}

/// Changed lines up to which the smallest difference is searched; beyond it, everything between is shown as replaced.
const MOST_CHANGES: usize = 1_000;

/// Myers' greedy search, bounded so that two unrelated texts do not take quadratic time.
fn search(old: &[usize], new: &[usize]) -> Vec<(usize, usize)> {
    let limit = (old.len() + new.len()).min(MOST_CHANGES);
    let offset = limit + 1;
    // For each diagonal, how far the old text is consumed.
    let mut reach = vec![0_usize; 2 * offset + 1];
    let mut history: Vec<Vec<usize>> = Vec::new();
    for distance in 0..=limit {
        history.push(reach[offset - distance..=offset + distance].to_vec());
        for step in 0..=distance {
            let diagonal = offset + 2 * step - distance;
            let from_above = step == 0 || (step != distance && reach[diagonal - 1] < reach[diagonal + 1]);
            let mut x = if from_above { reach[diagonal + 1] } else { reach[diagonal - 1] + 1 };
            if distance == 0 {
                x = 0;
            }
            // y = x - k, where k = diagonal - offset.
            let Some(mut y) = (x + offset).checked_sub(diagonal) else { continue };
            while x < old.len() && y < new.len() && old[x] == new[y] {
                (x, y) = (x + 1, y + 1);
            }
            reach[diagonal] = x;
            if x >= old.len() && y >= new.len() {
                return backtrack(&history, old, new, distance);
            }
        }
    }
    Vec::new()
}

/// Follows the search back from the ends of both texts.
fn backtrack(history: &[Vec<usize>], old: &[usize], new: &[usize], found: usize) -> Vec<(usize, usize)> {
    let (mut x, mut y) = (old.len(), new.len());
    let mut pairs = Vec::new();
    for distance in (1..=found).rev() {
        let reach = &history[distance];
        // The slice of this distance starts at diagonal -distance.
        let at = |diagonal: isize| -> usize {
            let index = diagonal + distance.cast_signed();
            usize::try_from(index).ok().and_then(|index| reach.get(index)).copied().unwrap_or(0)
        };
        let diagonal = x.cast_signed() - y.cast_signed();
        let edge = distance.cast_signed();
        let from_above = diagonal == -edge || (diagonal != edge && at(diagonal - 1) < at(diagonal + 1));
        let before = if from_above { diagonal + 1 } else { diagonal - 1 };
        let start_x = at(before);
        let start_y = usize::try_from(start_x.cast_signed() - before).unwrap_or(0);
        while x > start_x && y > start_y && pairs_match(old, new, x, y) {
            (x, y) = (x - 1, y - 1);
            pairs.push((x, y));
        }
        (x, y) = (start_x, start_y);
    }
    while x > 0 && y > 0 {
        (x, y) = (x - 1, y - 1);
        pairs.push((x, y));
    }
    pairs.reverse();
    pairs
}

fn pairs_match(old: &[usize], new: &[usize], x: usize, y: usize) -> bool {
    old[x - 1] == new[y - 1]
}

#[cfg(test)]
#[path = "diff/tests.rs"]
mod tests;
