//! Paths on the wire: native ones and `file:` URIs, which never look alike.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use wire::codex::ErrorObject;

/// The absolute path that `text` names.
pub(super) fn native(text: &str) -> Result<PathBuf, ErrorObject> {
    if text.starts_with('/') {
        return Ok(PathBuf::from(text));
    }
    let Some(rest) = text.strip_prefix("file:") else {
        let message = format!("{text:?} is neither an absolute path nor a file: URI");
        return Err(ErrorObject::invalid_params(message));
    };
    let path = match rest.strip_prefix("//") {
        // Whatever host is named before the path must be this one.
        Some(located) => located.strip_prefix("localhost").unwrap_or(located),
        None => rest,
    };
    match decoded(path).filter(|path| path.is_absolute()) {
        Some(path) => Ok(path),
        None => Err(ErrorObject::invalid_params(format!("{text:?} names no path on this machine"))),
    }
}

/// The `file:` URI of a path.
pub(super) fn uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => uri.push(char::from(*byte)),
            b'/' | b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+'
            | b',' | b';' | b'=' | b':' | b'@' => uri.push(char::from(*byte)),
            _ => {
                for digit in [byte >> 4, byte & 15] {
                    uri.push(char::from_digit(u32::from(digit), 16).unwrap_or('0').to_ascii_uppercase());
                }
                let place = uri.len() - 2;
                uri.insert(place, '%');
            }
        }
    }
    uri
}

/// Percent signs and what they stand for; a query or fragment is no part of a path.
fn decoded(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let value = digit(rest.next())? * 16 + digit(rest.next())?;
                bytes.push(u8::try_from(value).ok()?);
            }
            b'?' | b'#' => return None,
            byte => bytes.push(byte),
        }
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_name_the_same_path() {
        for (text, path) in [
            ("/a b", "/a b"),
            ("file:///a%20b", "/a b"),
            ("file:/x", "/x"),
            ("file://localhost/x", "/x"),
            ("file:///%C3%A9", "/é"),
            ("/file:///x", "/file:///x"),
        ] {
            assert_eq!(native(text).unwrap(), Path::new(path), "{text}");
        }
        for bad in [
            "",
            "x",
            "./x",
            "file:x",
            "file://host/x",
            "file:///%zz",
            "file:///%4",
            "http://x/y",
            "file:///a?b",
        ] {
            assert_eq!(native(bad).unwrap_err().code, -32602, "{bad}");
        }
    }

    #[test]
    fn what_is_made_reads_back() {
        for path in ["/", "/a b/c%d", "/é/#?", "/plain-._~"] {
            assert_eq!(native(&uri(Path::new(path))).unwrap(), Path::new(path));
        }
        assert_eq!(uri(Path::new("/a b")), "file:///a%20b");
        let raw = PathBuf::from(OsString::from_vec(b"/\xff".to_vec()));
        assert_eq!(uri(&raw), "file:///%FF");
        assert_eq!(native("file:///%FF").unwrap(), raw);
    }
}
