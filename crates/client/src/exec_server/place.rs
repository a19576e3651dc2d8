//! Paths as exec-servers write them: `file:` URIs, or native ones for servers that know no others.

use wire::exec_server::uri;

/// The `file:` URI of an absolute path.
pub(crate) fn to_uri(path: &str) -> String {
    uri::file_uri(path.as_bytes())
}

/// The absolute path of a `file:` URI, or of a path that is one already.
pub(crate) fn from_uri(text: &str) -> Option<String> {
    if text.starts_with('/') {
        return Some(text.to_owned());
    }
    String::from_utf8(uri::file_path(text)?).ok()
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
        for odd in ["file://host/x", "file:///%g0", "file:///a?b", "file:///%", "relative", "http://x"] {
            assert_eq!(from_uri(odd), None, "{odd}");
        }
    }
}
