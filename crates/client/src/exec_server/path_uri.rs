//! Converts between absolute paths and `file:` URIs.

use wire::exec_server::uri;

/// The `file:` URI of an absolute path.
pub(crate) fn to_uri(path: &str) -> String {
    uri::file_uri(path.as_bytes())
}

/// The absolute path of a `file:` URI; an absolute path is returned unchanged.
pub(crate) fn from_uri(text: &str) -> Option<String> {
    if text.starts_with('/') {
        return Some(text.to_owned());
    }
    String::from_utf8(uri::file_path(text).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_survives_the_conversion_to_a_uri_and_back() {
        for path in ["/", "/a b/ü%20/#?", "/srv/app-1_2.~x"] {
            assert_eq!(from_uri(&to_uri(path)).as_deref(), Some(path));
        }
        assert_eq!(to_uri("/a b"), "file:///a%20b");
        assert_eq!(from_uri("/native").as_deref(), Some("/native"));
        for invalid in ["file://host/x", "file:///a?b", "file:///a%00", "relative", "http://x"] {
            assert_eq!(from_uri(invalid), None, "{invalid}");
        }
    }
}
