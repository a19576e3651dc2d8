//! URIs of files on the target, for MCP resources.

/// The URI of an absolute path on the target.
pub fn of(path: &str) -> String {
    let mut uri = String::from("file://");
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte))
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

/// The path of a file URI; `None` if it is not a file on the target.
pub fn path(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    if !rest.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(rest.len());
    let mut left = rest.bytes();
    while let Some(byte) = left.next() {
        match byte {
            b'%' => {
                let digits = [left.next()?, left.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// The last component of a path.
pub fn name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_back_from_its_uri() {
        for text in ["/a/b.txt", "/with space/ü%.rs", "/"] {
            assert_eq!(path(&of(text)).as_deref(), Some(text));
        }
        assert_eq!(of("/a b"), "file:///a%20b");
        assert_eq!(path("file://localhost/x").as_deref(), Some("/x"));
        assert_eq!((name("/a/b/"), name("/")), ("b", "/"));
    }

    #[test]
    fn other_uris_are_refused() {
        for odd in ["http://x/y", "file://host/x", "file:relative", "file:///%zz", "file:///%", "file:///%ff"]
        {
            assert_eq!(path(odd), None, "{odd}");
        }
    }
}
