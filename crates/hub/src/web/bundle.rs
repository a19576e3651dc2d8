//! The files of the bundle: content types, encodings, validators and cache lifetimes.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use rust_embed::Embed;

#[derive(Embed)]
#[folder = "src/web/dist/"]
struct Dist;

/// Names below it contain a hash of their content.
const HASHED: &str = "assets/";
const INDEX: &str = "index.html";
const FOREVER: &str = "public, max-age=31536000, immutable";
const ALWAYS_CHECKED: &str = "no-cache";

/// The encodings of a file, the preferred one first, and the ending of the file that holds it.
const ENCODINGS: [(&str, &str); 2] = [("br", ".br"), ("gzip", ".gz")];

static FILES: LazyLock<HashMap<String, BundleFile>> = LazyLock::new(|| {
    let all: HashMap<String, (Bytes, String)> = Dist::iter()
        .filter_map(|name| Some((name.to_string(), Dist::get(&name)?)))
        .map(|(name, file)| {
            let tag = hex::encode(&file.metadata.sha256_hash()[..12]);
            let bytes = match file.data {
                std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
                std::borrow::Cow::Owned(bytes) => bytes.into(),
            };
            (name, (bytes, tag))
        })
        .collect();
    let is_encoding = |name: &str| {
        ENCODINGS.iter().any(|(_, end)| name.strip_suffix(end).is_some_and(|base| all.contains_key(base)))
    };
    let file = |name: &String| {
        let encoded =
            ENCODINGS.map(|(_, end)| all.get(&format!("{name}{end}")).map(|(bytes, _)| bytes.clone()));
        let (plain, tag) = all.get(name)?.clone();
        Some((name.clone(), BundleFile { plain, encoded, tag, kind: content_type(name) }))
    };
    all.keys().filter(|name| !is_encoding(name)).filter_map(file).collect()
});

/// The version of the bundle: that of `version.json`, which the app contains too.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let stored = FILES.get("version.json").map(|file| &file.plain[..]).unwrap_or_default();
    let stored: serde_json::Value = serde_json::from_slice(stored).unwrap_or_default();
    stored["version"].as_str().unwrap_or("none").to_owned()
});

/// One file with its encodings.
struct BundleFile {
    plain: Bytes,
    /// In the order of [`ENCODINGS`].
    encoded: [Option<Bytes>; 2],
    tag: String,
    kind: &'static str,
}

/// The version of the bundle.
pub(crate) fn version() -> &'static str {
    &VERSION
}

/// The page of the app.
pub(super) fn index(headers: &HeaderMap, method: &Method) -> Option<Response> {
    Some(FILES.get(INDEX)?.respond(headers, method, ALWAYS_CHECKED))
}

/// The file at a path.
pub(super) fn file(path: &str, headers: &HeaderMap, method: &Method) -> Option<Response> {
    let name = path.strip_prefix('/')?;
    let lifetime = if name.starts_with(HASHED) { FOREVER } else { ALWAYS_CHECKED };
    Some(FILES.get(name)?.respond(headers, method, lifetime))
}

impl BundleFile {
    fn respond(&self, headers: &HeaderMap, method: &Method, lifetime: &'static str) -> Response {
        let (encoding, bytes) = self.encoding(headers);
        let tag = format!("\"{}-{}\"", self.tag, encoding.unwrap_or("plain"));
        let is_known = headers.get_all(header::IF_NONE_MATCH).iter().any(|value| {
            let value = value.to_str().unwrap_or_default();
            value.split(',').any(|known| known.trim().trim_start_matches("W/") == tag || known.trim() == "*")
        });
        let mut response = Response::new(match is_known || *method == Method::HEAD {
            true => Body::empty(),
            false => Body::from(bytes.clone()),
        });
        let set = response.headers_mut();
        set.insert(header::CACHE_CONTROL, HeaderValue::from_static(lifetime));
        set.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
        if let Ok(tag) = HeaderValue::try_from(tag) {
            set.insert(header::ETAG, tag);
        }
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        set.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        set.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
        if let Some(encoding) = encoding {
            set.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        response
    }

    /// The best encoding that the client accepts, and the file in it.
    fn encoding(&self, headers: &HeaderMap) -> (Option<&'static str>, &Bytes) {
        let found = ENCODINGS.iter().zip(&self.encoded).find_map(|((name, _), bytes)| {
            let bytes = bytes.as_ref().filter(|_| accepts(headers, name))?;
            Some((Some(*name), bytes))
        });
        found.unwrap_or((None, &self.plain))
    }
}

/// Whether a client accepts an encoding by its name.
fn accepts(headers: &HeaderMap, encoding: &str) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|offer| {
        let mut parts = offer.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(encoding));
        let is_refused = parts.any(|part| part.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0)));
        is_named && !is_refused
    })
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("wasm") => "application/wasm",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn an_encoding_is_chosen_only_if_it_is_accepted() {
        let file = BundleFile {
            plain: Bytes::from_static(b"plain"),
            encoded: [Some(Bytes::from_static(b"br")), Some(Bytes::from_static(b"gz"))],
            tag: "t".to_owned(),
            kind: "text/plain",
        };
        for (accepted, expected) in [
            ("gzip, deflate, br, zstd", Some("br")),
            ("gzip", Some("gzip")),
            ("br;q=0, GZIP;q=0.5", Some("gzip")),
            ("identity", None),
            ("brx", None),
        ] {
            assert_eq!(file.encoding(&with(header::ACCEPT_ENCODING, accepted)).0, expected, "{accepted}");
        }
        assert_eq!(file.encoding(&HeaderMap::new()).0, None);
    }

    #[test]
    fn the_bundle_has_the_files_that_the_app_needs() {
        for name in ["index.html", "sw.js", "manifest.webmanifest", "version.json"] {
            assert!(FILES.contains_key(name), "{name}");
        }
        assert_ne!(version(), "none");
        assert!(!FILES.keys().any(|name| name.ends_with(".map")), "source maps are not shipped");
    }
}
