//! Content-Encoding: zstd, for those who take it.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use wire::limits::MAX_LINE_BYTES;

use super::answer::{self, Body};
use super::rpc::too_large;

/// A body below this is not worth the work.
const WORTH_IT: usize = 1_024;

/// Whether the client takes zstd.
pub(super) fn takes_zstd(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let quality =
            quality.trim().strip_prefix("q=").map_or(1.0, |q| q.trim().parse::<f32>().unwrap_or(0.0));
        name.trim().eq_ignore_ascii_case("zstd") && quality > 0.0
    })
}

/// An answer of JSON, packed if the client takes that and it is worth it.
pub(super) fn json(status: StatusCode, body: Bytes, takes_zstd: bool) -> Response<Body> {
    let is_worth_it = takes_zstd && body.len() >= WORTH_IT;
    let packed = is_worth_it.then(|| link::packing::pack(&body).ok()).flatten();
    let is_packed = packed.is_some();
    let mut response = answer::json(status, packed.unwrap_or(body));
    mark(&mut response, is_packed);
    response
}

/// Says how the body is encoded.
pub(super) fn mark(response: &mut Response<Body>, is_packed: bool) {
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if is_packed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("zstd"));
    }
}

/// The body of a request as it was meant.
pub(super) fn decoded(headers: &HeaderMap, body: Bytes) -> Result<Bytes, Box<Response<Body>>> {
    let codings: Vec<&[u8]> =
        headers.get_all(header::CONTENT_ENCODING).iter().map(|value| value.as_bytes()).collect();
    match codings.as_slice() {
        [] | [b"identity"] => Ok(body),
        [b"zstd"] => match link::packing::unpack(&body, MAX_LINE_BYTES) {
            Ok(Some(body)) => Ok(body),
            Ok(None) => Err(Box::new(too_large(None))),
            Err(error) => {
                let message = format!("the body cannot be unpacked: {error}");
                Err(Box::new(answer::bad(StatusCode::BAD_REQUEST, message)))
            }
        },
        _ => {
            let message = "the body's encoding is not known; zstd is";
            Err(Box::new(answer::bad(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)))
        }
    }
}

/// Packs a stream piece by piece: each can be read as soon as it arrives.
pub(super) struct Packer(zstd::stream::write::Encoder<'static, Vec<u8>>);

impl Packer {
    pub(super) fn new() -> std::io::Result<Packer> {
        zstd::stream::write::Encoder::new(Vec::new(), 1).map(Packer)
    }

    pub(super) fn pack(&mut self, piece: &[u8]) -> std::io::Result<Bytes> {
        use std::io::Write as _;
        self.0.write_all(piece)?;
        self.0.flush()?;
        Ok(Bytes::from(std::mem::take(self.0.get_mut())))
    }
}
