//! Decodes params from JSON text; an error names the member that does not fit.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, Unexpected, Visitor};
use serde_json::json;
use serde_json::value::RawValue;

use super::RpcError;
use super::mismatch;

/// Decodes the params of a call. Absent and `null` params are the empty object.
pub fn decode_params<T: DeserializeOwned>(raw: Option<&RawValue>) -> Result<T, RpcError> {
    decode_params_text(raw.map(RawValue::get))
}

/// Decodes params from text that is already known to be one JSON value.
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
    serde_json::from_str(text).map_err(|error| mismatch::explain(text, &error))
}

/// Decodes a member with a default; `null` counts as absent.
pub(super) fn or_default<'de, T, D>(input: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Option::<T>::deserialize(input).map(Option::unwrap_or_default)
}

/// Decodes `expected_mtime`: an integer or a string of digits. Absent, `null` and 0 request no check.
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
