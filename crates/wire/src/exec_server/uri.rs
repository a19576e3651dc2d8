//! Percent encoding: `file:` URIs of paths, and names as one path segment.

/// Characters of a path that are not escaped, besides letters and digits, as browsers and released clients write them.
const IN_PATHS: &[u8] = b"/-._~!$&'()*+,;=:@";
/// The same for a name that is one path segment.
const IN_NAMES: &[u8] = b"-._~";

/// The `file:` URI of an absolute path.
pub fn file_uri(path: &[u8]) -> String {
    format!("file://{}", encoded(path, IN_PATHS))
}

/// Why a text names no path of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileUriError {
    /// It is no URI.
    NoScheme,
    /// It is a URI of this other scheme.
    Scheme(String),
    /// It has a query.
    Query,
    /// It has a fragment.
    Fragment,
    /// It has a user or a port.
    Authority,
    /// It names another machine.
    Host,
    /// It contains a NUL byte.
    Nul,
}

/// The absolute path of a `file:` URI of this machine, parsed as the released servers and browsers do.
pub fn file_path(uri: &str) -> Result<Vec<u8>, FileUriError> {
    let is_blank = |character: char| character <= ' ';
    // A backslash is a slash, as in every URI of a file.
    let uri = uri.trim_matches(is_blank).replace(['\t', '\n', '\r'], "").replace('\\', "/");
    let is_scheme = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let (scheme, rest) =
        uri.split_once(':').filter(|(scheme, _)| is_scheme(scheme)).ok_or(FileUriError::NoScheme)?;
    if !scheme.eq_ignore_ascii_case("file") {
        return Err(FileUriError::Scheme(scheme.to_ascii_lowercase()));
    }
    let (rest, has_fragment) = rest.split_once('#').map_or((rest, false), |(rest, _)| (rest, true));
    let path = match rest.strip_prefix("//") {
        Some(located) => {
            let (host, path) = located.split_at(located.find(['/', '?']).unwrap_or(located.len()));
            match host {
                "" => path,
                host if host.eq_ignore_ascii_case("localhost") => path,
                host if host.contains(['@', ':']) => return Err(FileUriError::Authority),
                _ => return Err(FileUriError::Host),
            }
        }
        None => rest,
    };
    if path.contains('?') {
        return Err(FileUriError::Query);
    }
    if has_fragment {
        return Err(FileUriError::Fragment);
    }
    let root: &[u8] = if path.starts_with('/') { b"" } else { b"/" };
    let path = [root, &decoded_leniently(path)].concat();
    if path.contains(&0) { Err(FileUriError::Nul) } else { Ok(path) }
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

/// The same, with invalid escapes as ordinary text.
fn decoded_leniently(text: &str) -> Vec<u8> {
    let escape = |part: &str| part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match escape(part).filter(|_| !part.starts_with('+')) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&part.as_bytes()[2..]);
            }
            None => {
                bytes.push(b'%');
                bytes.extend_from_slice(part.as_bytes());
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_uri_names_the_same_path() {
        for (uri, path) in [
            ("file:///a%20b", b"/a b".as_slice()),
            ("file:/x", b"/x"),
            ("FILE:///x", b"/x"),
            (" file:///x\n", b"/x"),
            ("file://localhost/x", b"/x"),
            ("file://LOCALHOST/x", b"/x"),
            ("file:x", b"/x"),
            ("file:", b"/"),
            ("file:///", b"/"),
            (r"file:\\\x\y", b"/x/y"),
            ("file:///%C3%A9", "/é".as_bytes()),
            ("file:///é", "/é".as_bytes()),
            ("file:///a%25b%fF", b"/a%b\xff"),
            ("file:///%zz%4%", b"/%zz%4%"),
            ("file:///%+1%é", "/%+1%é".as_bytes()),
        ] {
            assert_eq!(file_path(uri).as_deref(), Ok(path), "{uri}");
        }
    }

    #[test]
    fn what_names_no_path_of_this_machine_is_an_error() {
        for (uri, error) in [
            ("", FileUriError::NoScheme),
            ("/x", FileUriError::NoScheme),
            ("1x:y", FileUriError::NoScheme),
            ("HTTP://x/y", FileUriError::Scheme("http".to_owned())),
            ("file://host/x", FileUriError::Host),
            ("file://me@localhost/x", FileUriError::Authority),
            ("file://localhost:80/x", FileUriError::Authority),
            ("file:///a?b", FileUriError::Query),
            ("file:///a#b", FileUriError::Fragment),
            ("file:///a%00", FileUriError::Nul),
        ] {
            assert_eq!(file_path(uri), Err(error), "{uri}");
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
            assert_eq!(file_path(uri).as_deref(), Ok(path));
        }
    }

    #[test]
    fn a_name_is_one_path_segment() {
        assert_eq!(name_part("build-1.a_b~"), "build-1.a_b~");
        assert_eq!(name_part("a/b ä?&="), "a%2Fb%20%C3%A4%3F%26%3D");
    }
}
