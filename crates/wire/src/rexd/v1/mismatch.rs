//! Explains params that do not fit their type: which member, what was expected and what was found.
//!
//! serde_json reports a mismatch only as text. After a failure the params are decoded again from a [`Value`] with an
//! error type that keeps the expected type and the actual value apart, and a path that names the member.

use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Value, json};

use super::RpcError;
use crate::limits::MAX_QUOTED_BYTES;

/// The error response for params that `error` was reported for.
#[cold]
#[inline(never)]
pub(super) fn explain<T: DeserializeOwned>(text: &str, error: &serde_json::Error) -> RpcError {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return unexplained(error) };
    let Err(error) = serde_path_to_error::deserialize::<_, T>(Member(&value)) else {
        // Only the text is wrong, such as a member that occurs twice.
        return unexplained(error);
    };
    let path = error.path().to_string();
    match error.into_inner() {
        Mismatch::Missing(name) => {
            let field = if path == "." { name.to_owned() } else { format!("{path}.{name}") };
            RpcError::invalid_params(format!("invalid params: {field}: missing"))
                .with_data(json!({ "field": field, "expected": "a value" }))
        }
        Mismatch::Type { expected, got } => {
            let got = shorten(&got);
            RpcError::invalid_params(format!("invalid params: {path}: expected {expected}, got {got}"))
                .with_data(json!({ "field": path, "expected": expected, "got": got }))
        }
        Mismatch::Other(reason) => {
            let reason = shorten(&reason);
            RpcError::invalid_params(format!("invalid params: {path}: {reason}"))
                .with_data(json!({ "field": path, "reason": reason }))
        }
    }
}

fn unexplained(error: &serde_json::Error) -> RpcError {
    let reason = shorten(&error.to_string());
    RpcError::invalid_params(format!("invalid params: {reason}")).with_data(json!({ "reason": reason }))
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_BYTES) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Why one member does not fit.
#[derive(Debug)]
enum Mismatch {
    Missing(&'static str),
    Type { expected: String, got: String },
    Other(String),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Missing(field) => write!(f, "{field} is missing"),
            Mismatch::Type { expected, got } => write!(f, "expected {expected}, got {got}"),
            Mismatch::Other(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Mismatch {}

impl de::Error for Mismatch {
    fn custom<T: fmt::Display>(reason: T) -> Mismatch {
        Mismatch::Other(reason.to_string())
    }

    fn invalid_type(got: Unexpected<'_>, expected: &dyn Expected) -> Mismatch {
        Mismatch::Type { expected: expected.to_string(), got: got.to_string() }
    }

    fn invalid_value(got: Unexpected<'_>, expected: &dyn Expected) -> Mismatch {
        Mismatch::invalid_type(got, expected)
    }

    fn missing_field(field: &'static str) -> Mismatch {
        Mismatch::Missing(field)
    }
}

/// A value that is decoded with [`Mismatch`] as its error.
#[derive(Clone, Copy)]
struct Member<'a>(&'a Value);

impl Member<'_> {
    fn check(self, expected: &str, fits: bool) -> Result<(), Mismatch> {
        match fits {
            true => Ok(()),
            false => Err(Mismatch::Type { expected: expected.to_owned(), got: self.describe() }),
        }
    }

    fn describe(self) -> String {
        match self.0 {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => format!("boolean `{value}`"),
            Value::Number(number) if number.is_f64() => format!("floating point `{number}`"),
            Value::Number(number) => format!("integer `{number}`"),
            Value::String(text) => format!("string {text:?}"),
            Value::Array(_) => "sequence".to_owned(),
            Value::Object(_) => "map".to_owned(),
        }
    }
}

/// Decoder methods that check the kind of the value first, so that the error names the kind that JSON has.
macro_rules! checked {
    ($($method:ident: $kind:literal, $fits:expr;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
            let fits: fn(&Value) -> bool = $fits;
            self.check($kind, fits(self.0))?;
            self.deserialize_any(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Member<'de> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(number), ..) => visitor.visit_i64(number),
                (None, Some(number), _) => visitor.visit_u64(number),
                (None, None, number) => visitor.visit_f64(number.unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.iter().map(Member))),
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| (name.as_str(), Member(value)));
                visitor.visit_map(MapDeserializer::new(members))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        self.deserialize_map(visitor)
    }

    checked! {
        deserialize_bool: "boolean", Value::is_boolean;
        deserialize_i64: "integer", Value::is_i64;
        deserialize_u64: "integer", Value::is_u64;
        deserialize_str: "string", Value::is_string;
        deserialize_string: "string", Value::is_string;
        deserialize_seq: "array", Value::is_array;
        deserialize_map: "object", Value::is_object;
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u32 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
        ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Mismatch> for Member<'de> {
    type Deserializer = Member<'de>;

    fn into_deserializer(self) -> Member<'de> {
        self
    }
}
