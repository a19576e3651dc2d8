//! Paths on the wire: native ones and `file:` URIs, which never look alike.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use wire::exec_server::uri;
use wire::jsonrpc::RpcError;

/// The absolute path that `text` names.
pub(super) fn native(text: &str) -> Result<PathBuf, RpcError> {
    if text.starts_with('/') {
        return Ok(PathBuf::from(text));
    }
    if !text.starts_with("file:") {
        let message = format!("{text:?} is neither an absolute path nor a file: URI");
        return Err(RpcError::invalid_params(message));
    }
    match uri::file_path(text) {
        Some(path) => Ok(PathBuf::from(OsString::from_vec(path))),
        None => Err(RpcError::invalid_params(format!("{text:?} is not a path on this machine"))),
    }
}

/// The `file:` URI of a path.
pub(super) fn uri(path: &Path) -> String {
    uri::file_uri(path.as_os_str().as_bytes())
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
