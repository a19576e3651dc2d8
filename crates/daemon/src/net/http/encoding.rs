//! `Content-Encoding: zstd`, for clients that accept it.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use wire::limits::MAX_LINE_BYTES;

use super::response::{self, ResponseBody};
use super::rpc::too_large;

/// The size below which a body is not compressed.
const MIN_COMPRESSED: usize = 1_024;

/// True if the client accepts zstd.
pub(super) fn accepts_zstd(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let quality =
            quality.trim().strip_prefix("q=").map_or(1.0, |q| q.trim().parse::<f32>().unwrap_or(0.0));
        name.trim().eq_ignore_ascii_case("zstd") && quality > 0.0
    })
}

/// A JSON response, compressed if the client accepts it and the body is large enough.
pub(super) fn json(status: StatusCode, body: Bytes, accepts_zstd: bool) -> Response<ResponseBody> {
    let is_compressible = accepts_zstd && body.len() >= MIN_COMPRESSED;
    let compressed = is_compressible.then(|| link::packing::pack(&body).ok()).flatten();
    let is_compressed = compressed.is_some();
    let mut response = response::json(status, compressed.unwrap_or(body));
    mark(&mut response, is_compressed);
    response
}

/// Sets the headers for the encoding.
pub(super) fn mark(response: &mut Response<ResponseBody>, is_compressed: bool) {
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if is_compressed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("zstd"));
    }
}

/// The body of a request after decoding.
pub(super) fn decoded(headers: &HeaderMap, body: Bytes) -> Result<Bytes, Box<Response<ResponseBody>>> {
    let codings: Vec<&[u8]> =
        headers.get_all(header::CONTENT_ENCODING).iter().map(|value| value.as_bytes()).collect();
    match codings.as_slice() {
        [] | [b"identity"] => Ok(body),
        [b"zstd"] => match link::packing::unpack(&body, MAX_LINE_BYTES) {
            Ok(Some(body)) => Ok(body),
            Ok(None) => Err(Box::new(too_large(None))),
            Err(error) => {
                let message = format!("decompressing the body failed: {error}");
                Err(Box::new(response::bad(StatusCode::BAD_REQUEST, message)))
            }
        },
        _ => {
            let message = "unsupported Content-Encoding; expected zstd";
            Err(Box::new(response::bad(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)))
        }
    }
}

/// Compresses a stream piece by piece: each can be read as soon as it arrives.
pub(super) struct StreamCompressor(zstd::stream::write::Encoder<'static, Vec<u8>>);

impl StreamCompressor {
    pub(super) fn new() -> std::io::Result<StreamCompressor> {
        zstd::stream::write::Encoder::new(Vec::new(), 1).map(StreamCompressor)
    }

    pub(super) fn compress(&mut self, piece: &[u8]) -> std::io::Result<Bytes> {
        use std::io::Write as _;
        self.0.write_all(piece)?;
        self.0.flush()?;
        Ok(Bytes::from(std::mem::take(self.0.get_mut())))
    }
}
