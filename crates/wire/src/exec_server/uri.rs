//! Percent encoding: `file:` URIs of paths, and names as one path segment.

/// Characters of a path that are not escaped, besides letters and digits, as browsers and released clients write them.
const IN_PATHS: &[u8] = b"/-._~!$&'()*+,;=:@";
/// The same for a name that is one path segment.
const IN_NAMES: &[u8] = b"-._~";

/// The `file:` URI of an absolute path.
pub fn file_uri(path: &[u8]) -> String {
    format!("file://{}", encoded(path, IN_PATHS))
}

/// The absolute path of a `file:` URI of this machine; `None` if it is not one.
pub fn file_path(uri: &str) -> Option<Vec<u8>> {
    let rest = uri.strip_prefix("file:")?;
    let path = match rest.strip_prefix("//") {
        // The only host that is accepted is this one.
        Some(located) => located.strip_prefix("localhost").unwrap_or(located),
        None => rest,
    };
    if path.contains(['?', '#']) {
        return None;
    }
    percent_decoded(path).filter(|path| path.starts_with(b"/"))
}

/// Escapes a name as one path segment.
pub fn name_part(name: &str) -> String {
    encoded(name.as_bytes(), IN_NAMES)
}

fn encoded(bytes: &[u8], kept: &[u8]) -> String {
    let digit = |value: u8| char::from(if value < 10 { b'0' + value } else { b'A' + value - 10 });
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte.is_ascii_alphanumeric() || kept.contains(byte) {
            true => text.push(char::from(*byte)),
            false => text.extend(['%', digit(byte >> 4), digit(byte & 15)]),
        }
    }
    text
}

/// Decodes percent escapes; `None` if one is invalid.
pub fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let value = digit(rest.next())? * 16 + digit(rest.next())?;
                bytes.push(u8::try_from(value).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_a_path_or_nothing() {
        let long = b"/a%b\xff".as_slice();
        for (uri, path) in [
            ("file:///a%20b", Some(b"/a b".as_slice())),
            ("file:/x", Some(b"/x")),
            ("file://localhost/x", Some(b"/x")),
            ("file:///%C3%A9", Some("/é".as_bytes())),
            ("file:///a%25b%fF", Some(long)),
            ("file:///", Some(b"/")),
            ("file://host/x", None),
            ("file:x", None),
            ("file:", None),
            ("file:///%zz", None),
            ("file:///%4", None),
            ("file:///%", None),
            ("file:///a?b", None),
            ("file:///a#b", None),
            ("http://x/y", None),
            ("/x", None),
            ("", None),
        ] {
            assert_eq!(file_path(uri).as_deref(), path, "{uri}");
        }
    }

    #[test]
    fn an_encoded_path_decodes_to_itself() {
        for (path, uri) in [
            (b"/".as_slice(), "file:///"),
            (b"/a b", "file:///a%20b"),
            (b"/c%d", "file:///c%25d"),
            ("/é/#?".as_bytes(), "file:///%C3%A9/%23%3F"),
            (b"/x=1,2:@(y)", "file:///x=1,2:@(y)"),
            (b"/\xff", "file:///%FF"),
        ] {
            assert_eq!(file_uri(path), uri);
            assert_eq!(file_path(uri).as_deref(), Some(path));
        }
    }

    #[test]
    fn a_name_is_one_path_segment() {
        assert_eq!(name_part("build-1.a_b~"), "build-1.a_b~");
        assert_eq!(name_part("a/b ä?&="), "a%2Fb%20%C3%A4%3F%26%3D");
    }
}
