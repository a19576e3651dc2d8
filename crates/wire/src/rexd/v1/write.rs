//! Encodes requests that carry bytes directly into the message, as large content must not be copied.

use serde_json::Error;

use super::{Encoding, ExecInput, FsWrite, Method, PtyInput};
use crate::base64::push_base64;
use crate::{binary, jsonrpc};

/// How a client sends bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadEncoding {
    /// As base64 text.
    Base64,
    /// As the payload of a binary message; the session must have negotiated it.
    Binary,
}

/// Params of a method that takes bytes: a member for them, which is empty here, and their encoding.
pub trait PayloadMethod: Method {
    /// The empty member in the encoded params. It cannot occur inside a string, where quotes are escaped.
    const EMPTY: &'static str;
    /// The same params with this encoding and without bytes.
    fn without_bytes(&self, encoding: Encoding) -> Self;
}

macro_rules! payload_methods {
    ($($params:ident $member:ident $empty:literal)*) => {
        $(impl PayloadMethod for $params {
            const EMPTY: &'static str = $empty;

            fn without_bytes(&self, encoding: Encoding) -> $params {
                let encoding = Some(encoding.as_str().to_owned());
                $params { $member: String::new(), encoding, payload: None, ..self.clone() }
            }
        })*
    };
}

payload_methods! {
    FsWrite   content "\"content\":\"\""
    ExecInput data    "\"data\":\"\""
    PtyInput  data    "\"data\":\"\""
}

/// Encodes a request with these bytes; bytes and encoding of `params` are ignored.
pub fn payload_request<M: PayloadMethod>(
    id: u64,
    params: &M,
    (bytes, encoding): (&[u8], PayloadEncoding),
) -> Result<Vec<u8>, Error> {
    let encoding = match encoding {
        PayloadEncoding::Base64 => Encoding::Base64,
        PayloadEncoding::Binary => Encoding::Binary,
    };
    let bare = jsonrpc::request(id, M::NAME, &params.without_bytes(encoding))?;
    if encoding == Encoding::Binary {
        return Ok(binary::encode(&bare, bytes));
    }
    let found = memchr::memmem::find(&bare, M::EMPTY.as_bytes());
    let (before, after) = bare.split_at(found.map_or(bare.len(), |at| at + M::EMPTY.len() - 1));
    let mut out = Vec::with_capacity(bare.len() + bytes.len().div_ceil(3) * 4);
    out.extend_from_slice(before);
    push_base64(&mut out, bytes);
    out.extend_from_slice(after);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> FsWrite {
        FsWrite {
            session_id: "s_1".to_owned(),
            path: "/a \"content\":\"\" b".to_owned(),
            content: "left out".to_owned(),
            permissions: Some("0600".to_owned()),
            ..FsWrite::default()
        }
    }

    #[test]
    fn the_encoded_request_decodes_to_its_params() {
        let line = payload_request(7, &params(), (b"\xff\x00", PayloadEncoding::Base64)).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&value["id"], &value["method"]), (&7.into(), &"fs.write".into()));
        let read: FsWrite = serde_json::from_value(value["params"].clone()).unwrap();
        let encoding = Some("base64".to_owned());
        assert_eq!(read, FsWrite { content: "/wA=".to_owned(), encoding, ..params() });
    }

    #[test]
    fn a_binary_request_has_the_bytes_behind_its_params() {
        let line = payload_request(7, &params(), (b"\xff\x00", PayloadEncoding::Binary)).unwrap();
        let (header, payload) = binary::split(&line.into()).unwrap();
        assert_eq!(&payload[..], b"\xff\x00");
        let value: serde_json::Value = serde_json::from_slice(&header).unwrap();
        let read: FsWrite = serde_json::from_value(value["params"].clone()).unwrap();
        let encoding = Some("binary".to_owned());
        assert_eq!(read, FsWrite { content: String::new(), encoding, ..params() });
    }
}
