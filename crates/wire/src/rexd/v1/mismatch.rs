//! Explains params that do not fit their type: which member, what was expected and what was found.
//!
//! serde_json reports a mismatch only as text. After a failure the params are decoded again from a [`Value`] with an
//! error type that keeps the expected type and the actual value apart, and a path that names the member.

use std::fmt;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, Expected, IntoDeserializer as _, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Value, json};

use super::RpcError;
use crate::limits::MAX_QUOTED_BYTES;

/// The error response for params that `error` was reported for.
#[cold]
#[inline(never)]
pub(super) fn explain<T: DeserializeOwned>(text: &str, error: &serde_json::Error) -> RpcError {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return unexplained(error) };
    let Err(Mismatch { path, problem }) = T::deserialize(Member(&value)) else {
        // Only the text is wrong, such as a member that occurs twice.
        return unexplained(error);
    };
    problem.response(&path)
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

/// Why one member does not fit, and which one it is.
#[derive(Debug)]
struct Mismatch {
    /// The names and indices that lead to the member; empty for the params themselves.
    path: String,
    problem: Problem,
}

/// Why a value does not fit.
#[derive(Debug)]
enum Problem {
    Missing(&'static str),
    Type { expected: String, got: String },
    Other(String),
}

impl Problem {
    /// The error response that names the member.
    fn response(self, path: &str) -> RpcError {
        match self {
            Problem::Missing(name) => {
                let field = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                RpcError::invalid_params(format!("invalid params: {field}: missing"))
                    .with_data(json!({ "field": field, "expected": "a value" }))
            }
            Problem::Type { expected, got } => {
                let got = shorten(&got);
                RpcError::invalid_params(format!("invalid params: {path}: expected {expected}, got {got}"))
                    .with_data(json!({ "field": path, "expected": expected, "got": got }))
            }
            Problem::Other(reason) => {
                let reason = shorten(&reason);
                RpcError::invalid_params(format!("invalid params: {path}: {reason}"))
                    .with_data(json!({ "field": path, "reason": reason }))
            }
        }
    }
}

impl Mismatch {
    fn new(problem: Problem) -> Mismatch {
        Mismatch { path: String::new(), problem }
    }

    /// The same mismatch, seen from the value that contains the member: `name` or `[index]`.
    fn within(self, step: &str) -> Mismatch {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Mismatch { path: format!("{step}{dot}{}", self.path), ..self }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.path, self.problem)
    }
}

impl std::error::Error for Mismatch {}

impl de::Error for Mismatch {
    fn custom<T: fmt::Display>(reason: T) -> Mismatch {
        Mismatch::new(Problem::Other(reason.to_string()))
    }

    fn invalid_type(got: Unexpected<'_>, expected: &dyn Expected) -> Mismatch {
        Mismatch::new(Problem::Type { expected: expected.to_string(), got: got.to_string() })
    }

    fn invalid_value(got: Unexpected<'_>, expected: &dyn Expected) -> Mismatch {
        Mismatch::invalid_type(got, expected)
    }

    fn missing_field(field: &'static str) -> Mismatch {
        Mismatch::new(Problem::Missing(field))
    }
}

/// The members of an object; an error in one of them names it.
struct Members<'a> {
    rest: serde_json::map::Iter<'a>,
    next: Option<(&'a str, &'a Value)>,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = Mismatch;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mismatch> {
        self.next = self.rest.next().map(|(name, value)| (name.as_str(), value));
        self.next.map(|(name, _)| seed.deserialize(name.into_deserializer())).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mismatch> {
        let (name, value) = self.next.take().unwrap_or(("", &Value::Null));
        seed.deserialize(Member(value)).map_err(|mismatch| mismatch.within(name))
    }
}

/// The items of an array; an error in one of them gives its index.
struct Items<'a>(std::iter::Enumerate<std::slice::Iter<'a, Value>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Mismatch;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Mismatch> {
        let Some((at, value)) = self.0.next() else { return Ok(None) };
        seed.deserialize(Member(value)).map(Some).map_err(|mismatch| mismatch.within(&format!("[{at}]")))
    }
}

/// A value that is decoded with [`Mismatch`] as its error.
#[derive(Clone, Copy)]
struct Member<'a>(&'a Value);

impl<'de> Member<'de> {
    fn is_not(self, expected: &str) -> Mismatch {
        Mismatch::new(Problem::Type { expected: expected.to_owned(), got: self.describe() })
    }

    fn items(self) -> Option<Items<'de>> {
        self.0.as_array().map(|items| Items(items.iter().enumerate()))
    }

    fn members(self) -> Option<Members<'de>> {
        self.0.as_object().map(|members| Members { rest: members.iter(), next: None })
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

/// Decoder methods that accept one kind of value, so that the error names the kind that JSON has. They do not use
/// `deserialize_any`, which would be compiled once more for every type.
macro_rules! only {
    ($($method:ident: $kind:literal, $visit:expr;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
            let visit: fn(V, Member<'de>) -> Option<Result<V::Value, Mismatch>> = $visit;
            match visit(visitor, self) {
                Some(visited) => visited,
                None => Err(self.is_not($kind)),
            }
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
            Value::Array(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            Value::Object(members) => visitor.visit_map(Members { rest: members.iter(), next: None }),
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

    only! {
        deserialize_bool: "boolean", |visitor, member| member.0.as_bool().map(|value| visitor.visit_bool(value));
        deserialize_i64: "integer", |visitor, member| member.0.as_i64().map(|value| visitor.visit_i64(value));
        deserialize_u64: "integer", |visitor, member| member.0.as_u64().map(|value| visitor.visit_u64(value));
        deserialize_str: "string", |visitor, member| member.0.as_str().map(|text| visitor.visit_borrowed_str(text));
        deserialize_string: "string", |visitor, member| member.0.as_str().map(|text| visitor.visit_borrowed_str(text));
        deserialize_seq: "array", |visitor, member| member.items().map(|items| visitor.visit_seq(items));
        deserialize_map: "object", |visitor, member| member.members().map(|members| visitor.visit_map(members));
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u32 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
        ignored_any
    }
}
