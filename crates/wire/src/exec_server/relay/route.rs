//! Finds the stream of a frame without decoding its body, for routers.

use super::{RelayError, VERSION, check_stream};

/// The members of a frame that a router needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route<'a> {
    /// The stream that it belongs to.
    pub stream_id: &'a str,
    /// The kind of its body.
    pub kind: Kind,
}

/// The kinds of frame bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A message or a segment of one.
    Data,
    /// Only acknowledgements.
    Ack,
    /// The position at which the sender continues.
    Resume,
    /// The end of the stream.
    Reset,
    /// A keepalive without content.
    Heartbeat,
}

/// The stream of an encoded frame, without a copy and without decoding the body.
pub fn stream_id_of(bytes: &[u8]) -> Result<&str, RelayError> {
    route(bytes).map(|route| route.stream_id)
}

/// The stream and kind of an encoded frame. The last of a repeated member counts, as in protobuf.
pub fn route(bytes: &[u8]) -> Result<Route<'_>, RelayError> {
    let (mut version, mut stream_id, mut kind) = (0, "", None);
    let mut rest = Fields(bytes);
    while !rest.0.is_empty() {
        match rest.next()? {
            (1, Value::Number(number)) => version = low_half(number),
            (2, Value::Bytes(text)) => {
                stream_id =
                    std::str::from_utf8(text).map_err(|_| undecodable("the stream id is not UTF-8"))?;
            }
            (1 | 2, _) | (5..=9, Value::Number(_)) => return Err(undecodable("a member has the wrong type")),
            (field, Value::Bytes(_)) => kind = Kind::of(field).or(kind),
            _ => {}
        }
    }
    if version != VERSION {
        return Err(RelayError::Version(version));
    }
    check_stream(stream_id)?;
    Ok(Route { stream_id, kind: kind.ok_or(RelayError::NoBody)? })
}

impl Kind {
    fn of(field: u64) -> Option<Kind> {
        match field {
            5 => Some(Kind::Data),
            6 => Some(Kind::Ack),
            7 => Some(Kind::Resume),
            8 => Some(Kind::Reset),
            9 => Some(Kind::Heartbeat),
            _ => None,
        }
    }
}

/// The remaining members of a protobuf message.
struct Fields<'a>(&'a [u8]);

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<(u64, Value<'a>), RelayError> {
        let key = self.number()?;
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            1 => Value::Bytes(self.take(8)?),
            2 => {
                let length = self.number()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Bytes(self.take(4)?),
            _ => return Err(undecodable("a member has no known type")),
        };
        match (key >> 3, key & 7) {
            (0, _) => Err(undecodable("a member has no number")),
            (1..=9, 1 | 5) => Err(undecodable("a member has the wrong type")),
            (field, _) => Ok((field, value)),
        }
    }

    fn number(&mut self) -> Result<u64, RelayError> {
        let mut number = 0_u64;
        for index in 0..10 {
            let byte = self.take(1)?.first().copied().unwrap_or_default();
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(undecodable("a number is too long"))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], RelayError> {
        let taken = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
        let (taken, rest) = taken.ok_or_else(|| undecodable("unexpected end"))?;
        self.0 = rest;
        Ok(taken)
    }
}

/// The low 32 bits, as protobuf decodes a number that is too large for its member.
fn low_half(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

fn undecodable(reason: &str) -> RelayError {
    RelayError::Undecodable(reason.to_owned())
}
