//! Params from JSON text, with an error that names the member that is wrong.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, Unexpected, Visitor};
use serde_json::json;
use serde_json::value::RawValue;

use super::RpcError;
use super::place::member_at;
use crate::limits::MAX_QUOTED_BYTES;

/// Decodes the params of a call. Absent and `null` are the empty object.
pub fn decode_params<T: DeserializeOwned>(raw: Option<&RawValue>) -> Result<T, RpcError> {
    decode_params_text(raw.map(RawValue::get))
}

/// Decodes params that are JSON text already known to be one value.
pub fn decode_params_text<T: DeserializeOwned>(text: Option<&str>) -> Result<T, RpcError> {
    let text = match text.map(str::trim_start) {
        None | Some("null") => "{}",
        Some(text) if text.starts_with('{') => text,
        Some(text) => {
            let got = if text.starts_with('[') { "array" } else { "scalar" };
            return Err(RpcError::invalid_params(format!("invalid params: expected object, got {got}"))
                .with_data(json!({ "expected": "object", "got": got })));
        }
    };
    serde_json::from_str(text).map_err(|error| explain(text, &error))
}

/// Says which member is wrong and how.
fn explain(text: &str, error: &serde_json::Error) -> RpcError {
    let mut path = member_at(text, bytes_read(text, error));
    let reason = error.to_string();
    if reason.starts_with("invalid type: sequence") {
        // It is the list itself that is wrong, not what was read of it.
        path.truncate(path.strip_suffix("[0]").map_or(path.len(), str::len));
    }
    let reason = without_position(&reason);
    if let Some(field) = reason.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        let field = field.to_owned();
        return RpcError::invalid_params(format!("invalid params: {field}: missing"))
            .with_data(json!({ "field": field, "expected": "a value" }));
    }
    let (expected, got) = match split_reason(reason) {
        Some((expected, got)) => (expected, got),
        None => {
            let reason = shorten(reason);
            return RpcError::invalid_params(format!("invalid params: {path}: {reason}"))
                .with_data(json!({ "field": path, "reason": reason }));
        }
    };
    RpcError::invalid_params(format!("invalid params: {path}: expected {expected}, got {got}"))
        .with_data(json!({ "field": path, "expected": expected, "got": got }))
}

/// Where in the text it happened says nothing to somebody who did not write the text by hand.
/// How far the decoder had come: lines and columns count bytes.
fn bytes_read(text: &str, error: &serde_json::Error) -> usize {
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    before + error.column()
}

fn without_position(reason: &str) -> &str {
    reason.rfind(" at line ").map_or(reason, |place| &reason[..place])
}

/// `invalid type: string "x", expected i64` as (`integer`, `string "x"`).
fn split_reason(reason: &str) -> Option<(String, String)> {
    let rest = reason.strip_prefix("invalid type: ").or_else(|| reason.strip_prefix("invalid value: "))?;
    let place = rest.rfind(", expected ")?;
    let expected = match &rest[place + ", expected ".len()..] {
        "i64" | "u64" | "u32" | "u16" => "integer",
        "a string" => "string",
        "a boolean" => "boolean",
        "a sequence" => "array",
        "a map" => "object",
        other => other,
    };
    Some((expected.to_owned(), shorten(&rest[..place])))
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_BYTES) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// For members with a default: `null` counts as absent.
pub(super) fn or_default<'de, T, D>(input: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Option::<T>::deserialize(input).map(Option::unwrap_or_default)
}

/// For `expected_mtime`: an integer or a string of digits; nothing, `null` and 0 ask for no check.
pub(super) fn mtime<'de, D: Deserializer<'de>>(input: D) -> Result<Option<i64>, D::Error> {
    struct Mtime;
    impl<'de> Visitor<'de> for Mtime {
        type Value = Option<i64>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("integer milliseconds")
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
            Ok(Some(value).filter(|&value| value != 0))
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
            let value =
                i64::try_from(value).map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))?;
            self.visit_i64(value)
        }

        fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
            let number = value.parse().map_err(|_| E::invalid_value(Unexpected::Str(value), &self))?;
            self.visit_i64(number)
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }
    input.deserialize_any(Mtime)
}
