//! The value of a constant expression as it is written in the code: integers, sizes and durations.

use std::collections::BTreeMap;
use std::time::Duration;

/// The value of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Number(u64),
    Time(Duration),
    /// A field without a default.
    Configured,
}

impl Value {
    /// The value for a reader. A number is a size if a name has the word `bytes`, or if it is a multiple of 64 KiB above 1 MiB.
    pub(super) fn show(&self, name: &str, description: &str) -> String {
        let is_named = [name, description].iter().any(|text| text.to_lowercase().contains("bytes"));
        match self {
            Value::Number(number) if is_named || (*number >= 1 << 20 && number.is_multiple_of(1 << 16)) => {
                size(*number)
            }
            Value::Number(number) => thousands(*number),
            Value::Time(time) => duration(*time),
            Value::Configured => "configured".to_owned(),
        }
    }
}

/// Evaluates products, sums, shifts, names of constants and constructors of `Duration`.
pub(super) fn evaluate(expression: &str, constants: &BTreeMap<String, String>) -> Option<Value> {
    let expression = expression.trim().trim_end_matches(" as usize").trim_end_matches(" as u64");
    if let Some((_, call)) = expression.rsplit_once("Duration::from_") {
        let (unit, rest) = call.split_once('(')?;
        let Value::Number(number) = evaluate(rest.strip_suffix(')')?, constants)? else { return None };
        let time = match unit {
            "millis" => Duration::from_millis(number),
            "secs" => Duration::from_secs(number),
            "mins" => Duration::from_secs(number * 60),
            "hours" => Duration::from_secs(number * 3600),
            _ => return None,
        };
        return Some(Value::Time(time));
    }
    if let Some(inside) = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
        && !inside.contains('(')
    {
        return evaluate(inside, constants);
    }
    for (operator, apply) in OPERATORS {
        if let Some((left, right)) = split(expression, operator) {
            let (left, right) = (evaluate(left, constants)?, evaluate(right, constants)?);
            let (Value::Number(left), Value::Number(right)) = (left, right) else { return None };
            return apply(left, right).map(Value::Number);
        }
    }
    match expression.replace('_', "").parse() {
        Ok(number) => Some(Value::Number(number)),
        Err(_) => {
            let mut parts = expression.rsplit("::");
            let name = parts.next()?;
            let qualified = parts.next().map(|module| format!("{module}::{name}"));
            let value = qualified.and_then(|name| constants.get(&name)).or_else(|| constants.get(name))?;
            if value == expression { None } else { evaluate(value, constants) }
        }
    }
}

/// Splits at the last operator outside of parentheses.
fn split<'a>(expression: &'a str, operator: &str) -> Option<(&'a str, &'a str)> {
    let outside = |text: &str| text.matches('(').count() == text.matches(')').count();
    let mut places = expression.rmatch_indices(operator).map(|(start, _)| start);
    let start = places.find(|start| outside(&expression[..*start]))?;
    Some((&expression[..start], &expression[start + operator.len()..]))
}

type Operator = fn(u64, u64) -> Option<u64>;

/// The weakest first.
const OPERATORS: [(&str, Operator); 4] = [
    (" << ", |left, right| left.checked_shl(u32::try_from(right).ok()?)),
    (" + ", u64::checked_add),
    (" - ", u64::checked_sub),
    (" * ", u64::checked_mul),
];

fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", thousands(bytes / unit)),
        None => format!("{} bytes", thousands(bytes)),
    }
}

fn duration(time: Duration) -> String {
    match (time.as_secs(), time.subsec_millis()) {
        (secs, 0) if secs >= 60 && secs.is_multiple_of(60) => format!("{} min", secs / 60),
        (secs, 0) => format!("{secs} s"),
        _ => format!("{} ms", time.as_millis()),
    }
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_the_value_that_the_compiler_gives_them() {
        let constants = BTreeMap::from([("KIB".to_owned(), "1 << 10".to_owned())]);
        let shown =
            |expression: &str, name: &str| evaluate(expression, &constants).map(|value| value.show(name, ""));
        for (expression, name, value) in [
            ("1_024", "slots", "1,024"),
            ("64 * 1024 * 1024", "MAX_BYTES", "64 MiB"),
            ("2 * KIB + (64 << 10)", "bytes", "66 KiB"),
            ("value()", "x", ""),
            ("64 * crate::KIB + 1", "MAX_BYTES", "65,537 bytes"),
            ("Duration::from_secs(600)", "wait", "10 min"),
            ("std::time::Duration::from_millis(1_500)", "wait", "1500 ms"),
        ] {
            assert_eq!(shown(expression, name).unwrap_or_default(), value, "{expression}");
        }
    }
}
