//! Differences in the format of the protocol.

use super::*;

fn diff(old: &str, new: &str) -> String {
    lines(old, new, &DiffOptions::default())
}

#[test]
fn a_change_is_shown_with_both_numbers() {
    assert_eq!(diff("a\nb\nc\n", "a\nX\nc"), "1 1 | a\n2   - b\n  2 + X\n3 3 | c");
    assert_eq!(diff("a", "a\n"), "(no changes)");
    assert_eq!(diff("", "a\nb\n"), "1 + a\n2 + b");
    assert_eq!(diff("a\n", ""), "1   - a");
    assert_eq!(diff("a\nb", "a\nb\nc"), "1 1 | a\n2 2 | b\n  3 + c");
}

#[test]
fn distant_changes_have_a_gap() {
    let old: Vec<String> = (1..=12).map(|n| n.to_string()).collect();
    let mut new = old.clone();
    new[0] = "x".to_owned();
    new[11] = "y".to_owned();
    let options = DiffOptions { context: 1, max_lines: 50 };
    let expected = " 1    - 1\n    1 + x\n 2  2 | 2\n       ...\n11 11 | 11\n12    - 12\n   12 + y";
    assert_eq!(lines(&old.join("\n"), &new.join("\n"), &options), expected);
}

#[test]
fn long_differences_are_cut() {
    let new: String = (0..60).map(|n| format!("{n}\n")).collect();
    let shown = diff("", &new);
    assert_eq!(shown.lines().count(), 51);
    assert!(shown.ends_with("... (10 more lines changed, truncated at 50 lines)"));
    let old: String = (0..60).map(|n| format!("{n}\n")).collect();
    let options = DiffOptions { context: 100, max_lines: 10 };
    assert!(lines(&old, &old.replace("\n5\n", "\nx\n"), &options).ends_with("... (truncated at 10 lines)"));
}

#[test]
fn unrelated_texts_are_compared_quickly() {
    let old: String = (0..200_000).map(|n| format!("a{n}\n")).collect();
    let new: String = (0..200_000).map(|n| format!("b{n}\n")).collect();
    assert!(diff(&old, &new).ends_with("(399950 more lines changed, truncated at 50 lines)"));
}

#[test]
fn the_largest_context_shows_every_line() {
    let old: String = (0..9).map(|n| format!("{n}\n")).collect();
    let context = DiffOptions::from_variables(|name| {
        (name == "_diff_context").then(|| "18446744073709551615".to_owned())
    });
    assert_eq!(context.context, usize::MAX);
    assert_eq!(lines(&old, &old.replace('4', "x"), &context).lines().count(), 10);
}

#[test]
fn options_come_from_variables() {
    let options = |context: &str, most: &str| {
        let pairs = [("_diff_context", context.to_owned()), ("_diff_max_lines", most.to_owned())];
        DiffOptions::from_variables(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
        })
    };
    assert_eq!(options("0", "1"), DiffOptions { context: 0, max_lines: 1 });
    assert_eq!(options("-1", "0"), DiffOptions::default());
    assert_eq!(options("x", ""), DiffOptions::default());
}
