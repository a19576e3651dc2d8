//! Bytes that are base64 text on the wire.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::base64;

/// Bytes that are base64 text on the wire, in the standard alphabet with padding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ByteChunk(pub Bytes);

impl ByteChunk {
    /// The bytes of the output.
    pub fn into_inner(self) -> Bytes {
        self.0
    }
}

impl From<Vec<u8>> for ByteChunk {
    fn from(bytes: Vec<u8>) -> ByteChunk {
        ByteChunk(bytes.into())
    }
}

impl Serialize for ByteChunk {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.serialize_str(&base64::encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for ByteChunk {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<ByteChunk, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = ByteChunk;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a base64 string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ByteChunk, E> {
                base64::decode(text).map(ByteChunk::from).map_err(E::custom)
            }
        }
        input.deserialize_str(Text)
    }
}
