//! Lines: the parser of one line.

use std::collections::BTreeMap;

use super::{Kind, Sample};

/// One line.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Help { name: String, help: String },
    Type { name: String, kind: Kind },
    Sample(Sample),
}

pub(super) fn parse(line: &str) -> Result<Line, String> {
    if let Some(rest) = line.strip_prefix("# HELP ") {
        let (name, help) = rest.split_once(' ').ok_or("HELP without a text")?;
        return Ok(Line::Help { name: metric_name(name)?, help: unescape(help, false)? });
    }
    if let Some(rest) = line.strip_prefix("# TYPE ") {
        let (name, kind) = rest.split_once(' ').ok_or("TYPE without a type")?;
        let kind = match kind {
            "counter" => Kind::Counter,
            "gauge" => Kind::Gauge,
            "histogram" => Kind::Histogram,
            other => return Err(format!("{other:?} is no type that is used here")),
        };
        return Ok(Line::Type { name: metric_name(name)?, kind });
    }
    match line.chars().next() {
        None => Err("an empty line".to_owned()),
        Some('#') => Err("a comment that is neither HELP nor TYPE".to_owned()),
        Some(_) => sample(line).map(Line::Sample),
    }
}

fn sample(line: &str) -> Result<Sample, String> {
    let end = line.find(['{', ' ']).ok_or("a sample without a value")?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    Ok(Sample { name: metric_name(name)?, labels, value: number(value)? })
}

/// Parses `name="value",…}` and returns the rest.
fn labels(mut rest: &str) -> Result<(BTreeMap<String, String>, &str), String> {
    let mut labels = BTreeMap::new();
    loop {
        let (name, after) = rest.split_once("=\"").ok_or("a label without a value in quotes")?;
        let fits = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with("__");
        if !fits {
            return Err(format!("{name:?} is no name of a label"));
        }
        let end = closing_quote(after).ok_or("a label value without an end")?;
        let value = unescape(&after[..end], true)?;
        if labels.insert(name.to_owned(), value).is_some() {
            return Err(format!("the label {name} twice"));
        }
        rest = &after[end + 1..];
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((labels, after));
        }
        rest = rest.strip_prefix(',').ok_or("neither a comma nor a brace after a label")?;
    }
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    })
}

fn unescape(text: &str, is_label: bool) -> Result<String, String> {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('\\') => plain.push('\\'),
                Some('n') => plain.push('\n'),
                Some('"') if is_label => plain.push('"'),
                other => return Err(format!("{other:?} after a backslash")),
            },
            ('"', _) if is_label => return Err("a bare quote".to_owned()),
            _ => plain.push(c),
        }
    }
    Ok(plain)
}

fn number(text: &str) -> Result<f64, String> {
    let fits = text.starts_with(|c: char| c.is_ascii_digit() || c == '-')
        && text.chars().all(|c| c.is_ascii_digit() || "+-.e".contains(c));
    match text.parse::<f64>() {
        Ok(value) if fits && value.is_finite() => Ok(value),
        _ => Err(format!("{text:?} is no finite number (or something follows it)")),
    }
}

fn metric_name(name: &str) -> Result<String, String> {
    let fits = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !name.contains("__")
        && !name.ends_with('_');
    if fits { Ok(name.to_owned()) } else { Err(format!("{name:?} is no name of a metric")) }
}
