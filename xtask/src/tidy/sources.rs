//! Rules about how a source reads.

use super::Broken;
use crate::tree::{File, Tree};

const LONGEST: usize = 500;

pub(super) fn open_with_a_sentence(tree: &Tree) -> Vec<Broken> {
    let opens = |file: &&File| {
        file.text.lines().next().is_some_and(|line| line.starts_with("//! ") && line.len() > 8)
    };
    let shut = tree.rust("").filter(|file| !opens(file));
    shut.map(|file| {
        Broken::new(&file.path, "the first line is no sentence", "begin with `//! ` and what the file is for")
    })
    .collect()
}

pub(super) fn are_short(tree: &Tree) -> Vec<Broken> {
    let length = |file: &File| file.text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count();
    let long = tree.rust("").filter(|file| !file.is_test() && length(file) > LONGEST);
    long.map(|file| {
        Broken::new(&file.path, format!("{} lines", length(file)), "find the two things in it and part them")
    })
    .collect()
}

pub(super) fn leave_nothing_to_do(tree: &Tree) -> Vec<Broken> {
    let words = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("dbg", "!(")];
    find(tree, &words, |_| true, "do it, or take it out")
}

pub(super) fn tests_neither_sleep_nor_are_ignored(tree: &Tree) -> Vec<Broken> {
    let mut broken = find(tree, &[concat!("#[", "ignore")], |_| true, "mend the test or take it out");
    let instead = "wait for what is meant, or use tokio's paused clock";
    for file in tree.rust("") {
        let start = match file.is_test() {
            true => Some(0),
            false => file.text.lines().position(|line| line.starts_with("#[cfg(test)]")),
        };
        let Some(start) = start else { continue };
        for (number, line) in file.lines().skip(start) {
            if line.contains(concat!("sleep", "(")) && !line.trim_start().starts_with("//") {
                broken.push(Broken::new(format!("{}:{number}", file.path), line.trim(), instead));
            }
        }
    }
    broken
}

pub(super) fn name_no_build_machine(tree: &Tree) -> Vec<Broken> {
    let root = crate::tree::root().display().to_string();
    let mut needles = vec![concat!("/root", "/.cargo").to_owned(), concat!("/home", "/runner").to_owned()];
    // A checkout at a place as short as `/src` would make ordinary paths a hit.
    needles.extend(Some(root).filter(|root| root.len() >= 10));
    let mut broken = Vec::new();
    for file in &tree.files {
        for (number, line) in
            file.lines().filter(|(_, line)| needles.iter().any(|needle| line.contains(needle)))
        {
            let place = format!("{}:{number}", file.path);
            let shown: String = line.trim().chars().take(120).collect();
            broken.push(Broken::new(
                place,
                shown,
                "write a path relative to the project or take it from the environment",
            ));
        }
    }
    broken
}

fn find(tree: &Tree, words: &[&str], of: impl Fn(&File) -> bool, instead: &'static str) -> Vec<Broken> {
    let mut broken = Vec::new();
    for file in tree.rust("").filter(|file| of(file)) {
        for (number, line) in file.lines().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            if words.iter().any(|word| line.contains(word)) {
                broken.push(Broken::new(format!("{}:{number}", file.path), line.trim(), instead));
            }
        }
    }
    broken
}
