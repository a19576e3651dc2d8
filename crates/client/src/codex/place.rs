//! Paths as exec-servers write them: `file:` URIs, or native ones for servers that know no others.

/// The `file:` URI of an absolute path.
pub(crate) fn to_uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len() + 8);
    uri.push_str("file://");
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(byte));
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// The absolute path of a `file:` URI, or of a path that is one already.
pub(crate) fn from_uri(uri: &str) -> Option<String> {
    let Some(rest) = uri.strip_prefix("file://") else {
        return uri.starts_with('/').then(|| uri.to_owned());
    };
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok().filter(|path| path.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_back_from_its_uri() {
        for path in ["/", "/a b/ü%20/#?", "/srv/app-1_2.~x"] {
            assert_eq!(from_uri(&to_uri(path)).as_deref(), Some(path));
        }
        assert_eq!(to_uri("/a b"), "file:///a%20b");
        assert_eq!(from_uri("/native").as_deref(), Some("/native"));
        for odd in ["file://host/x", "file:///%g0", "file:///%", "relative", "http://x"] {
            assert_eq!(from_uri(odd), None, "{odd}");
        }
    }
}
