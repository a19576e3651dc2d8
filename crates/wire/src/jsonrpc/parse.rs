//! Parses one line into requests, notifications and responses, without copying their content.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Id, RpcError, code};
use crate::limits::MAX_BATCH_CALLS;

/// The content of one line.
#[derive(Debug)]
pub enum Message<'a> {
    /// One call or response.
    Single(Item<'a>),
    /// A batch; never empty, and each item may be invalid.
    Batch(Vec<Result<Item<'a>, InvalidMessage>>),
}

/// One JSON-RPC object of a line.
#[derive(Debug)]
pub enum Item<'a> {
    /// A request or notification of the peer.
    Call(Call<'a>),
    /// A response of the peer.
    Response(Response<'a>),
}

/// A request, or a notification when it has no id.
#[derive(Debug)]
pub struct Call<'a> {
    /// The id for the response; `null` and absent both mean a notification.
    pub id: Option<Id>,
    /// The name of the method.
    pub method: Cow<'a, str>,
    /// The params as JSON text, not decoded.
    pub params: Option<&'a RawValue>,
}

/// A response to a request that was sent.
#[derive(Debug)]
pub struct Response<'a> {
    /// The id of the request; `None` if the peer could not parse it.
    pub id: Option<Id>,
    /// The result, if the request succeeded.
    pub result: Option<&'a RawValue>,
    /// The error, if the request failed.
    pub error: Option<&'a RawValue>,
}

/// A message that is not valid JSON-RPC, and the error response to it.
#[derive(Debug, Clone, PartialEq)]
pub struct InvalidMessage {
    /// The id for the response, if it could be parsed.
    pub id: Option<Id>,
    /// The error of the response.
    pub error: RpcError,
}

/// Parses one message. Deep nesting uses no stack: params and results are skipped until they are decoded.
pub fn parse(bytes: &[u8]) -> Result<Message<'_>, InvalidMessage> {
    let text = std::str::from_utf8(bytes).map_err(|error| not_json(format!("not UTF-8: {error}")))?;
    let start = text.trim_start_matches([' ', '\t', '\r', '\n']);
    match start.as_bytes().first() {
        Some(b'{') => parse_object(start).map(Message::Single),
        Some(b'[') => parse_batch(start),
        _ => match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => Err(invalid_request(None, "a request must be an object")),
            Err(error) => Err(not_json(error.to_string())),
        },
    }
}

fn parse_object(text: &str) -> Result<Item<'_>, InvalidMessage> {
    let mut input = serde_json::Deserializer::from_str(text);
    let fields = Fields::read(&mut input).and_then(|fields| input.end().map(|()| fields));
    fields.map_err(|error| not_json(error.to_string()))?.check()
}

fn parse_batch(text: &str) -> Result<Message<'_>, InvalidMessage> {
    let mut input = serde_json::Deserializer::from_str(text);
    let batch = input.deserialize_seq(BatchVisitor).and_then(|batch| input.end().map(|()| batch));
    let (parts, count) = batch.map_err(|error| not_json(error.to_string()))?;
    if count == 0 {
        return Err(invalid_request(None, "a batch must have at least one call"));
    }
    if count > parts.len() {
        let message = format!("batch too large: {count} calls (limit {MAX_BATCH_CALLS})");
        return Err(InvalidMessage {
            id: None,
            error: RpcError::resource_limit(message, MAX_BATCH_CALLS as u64),
        });
    }
    Ok(Message::Batch(parts.into_iter().map(parse_part).collect()))
}

fn parse_part(raw: &RawValue) -> Result<Item<'_>, InvalidMessage> {
    match raw.get().starts_with('{') {
        true => parse_object(raw.get()),
        false => Err(invalid_request(None, "a request must be an object")),
    }
}

/// The members of the envelope, not decoded. The last of a repeated name counts, as in most parsers.
#[derive(Default)]
struct Fields<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl<'a> Fields<'a> {
    fn read<D: Deserializer<'a>>(input: D) -> Result<Fields<'a>, D::Error> {
        input.deserialize_map(FieldsVisitor)
    }

    fn check(self) -> Result<Item<'a>, InvalidMessage> {
        let is_null = |raw: &&RawValue| raw.get() == "null";
        let id = match self.id.filter(|raw| !is_null(raw)) {
            None => None,
            Some(raw) => match Id::from_raw(raw) {
                Some(id) => Some(id),
                None => {
                    return Err(invalid_request(
                        None,
                        "id must be a number or a string of at most 1024 bytes",
                    ));
                }
            },
        };
        if self.jsonrpc.and_then(string).as_deref() != Some("2.0") {
            return Err(invalid_request(id, "jsonrpc must be \"2.0\""));
        }
        let Some(method) = self.method else {
            if self.result.is_some() || self.error.is_some() {
                return Ok(Item::Response(Response { id, result: self.result, error: self.error }));
            }
            return Err(invalid_request(id, "method is missing"));
        };
        match string(method) {
            Some(method) => {
                Ok(Item::Call(Call { id, method, params: self.params.filter(|raw| !is_null(raw)) }))
            }
            None => Err(invalid_request(id, "method must be a string")),
        }
    }
}

/// The content of a JSON string, borrowed unless it has escapes.
fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    match inner.contains('\\') {
        false => Some(Cow::Borrowed(inner)),
        true => serde_json::from_str(text).ok().map(Cow::Owned),
    }
}

fn not_json(reason: String) -> InvalidMessage {
    InvalidMessage { id: None, error: RpcError::new(code::PARSE_ERROR, format!("parse error: {reason}")) }
}

fn invalid_request(id: Option<Id>, reason: &str) -> InvalidMessage {
    InvalidMessage { id, error: RpcError::new(code::INVALID_REQUEST, format!("invalid request: {reason}")) }
}

struct FieldsVisitor;

impl<'a> Visitor<'a> for FieldsVisitor {
    type Value = Fields<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Fields<'a>, A::Error> {
        let mut fields = Fields::default();
        while let Some(name) = map.next_key_seed(NameSeed)? {
            let value = match name {
                Name::Jsonrpc => &mut fields.jsonrpc,
                Name::Id => &mut fields.id,
                Name::Method => &mut fields.method,
                Name::Params => &mut fields.params,
                Name::Result => &mut fields.result,
                Name::Error => &mut fields.error,
                Name::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *value = Some(map.next_value()?);
        }
        Ok(fields)
    }
}

enum Name {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

/// Decodes the name of a member without a copy.
struct NameSeed;

impl<'a> DeserializeSeed<'a> for NameSeed {
    type Value = Name;

    fn deserialize<D: Deserializer<'a>>(self, input: D) -> Result<Name, D::Error> {
        input.deserialize_identifier(self)
    }
}

impl Visitor<'_> for NameSeed {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Name, E> {
        Ok(match name {
            "jsonrpc" => Name::Jsonrpc,
            "id" => Name::Id,
            "method" => Name::Method,
            "params" => Name::Params,
            "result" => Name::Result,
            "error" => Name::Error,
            _ => Name::Other,
        })
    }
}

/// Collects the items of a batch up to the limit and counts the rest, so that a long batch uses no memory.
struct BatchVisitor;

impl<'a> Visitor<'a> for BatchVisitor {
    type Value = (Vec<&'a RawValue>, usize);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while parts.len() < MAX_BATCH_CALLS
            && let Some(part) = seq.next_element()?
        {
            parts.push(part);
        }
        let mut count = parts.len();
        while count >= MAX_BATCH_CALLS && seq.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok((parts, count))
    }
}
