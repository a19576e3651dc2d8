//! Paths on the wire: native ones and `file:` URIs, which never look alike.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use wire::exec_server::uri::{self, FileUriError};
use wire::jsonrpc::RpcError;

/// The absolute path that `text` names.
pub(super) fn native(text: &str) -> Result<PathBuf, RpcError> {
    if text.starts_with('/') {
        return Ok(PathBuf::from(text));
    }
    uri::file_path(text).map(|path| PathBuf::from(OsString::from_vec(path))).map_err(|error| {
        let elsewhere = || format!("'{text}' is invalid on '{}'", std::env::consts::OS);
        match error {
            FileUriError::NoScheme => RpcError::invalid_params("invalid URI: relative URL without a base"),
            FileUriError::Scheme(scheme) => {
                RpcError::invalid_params(format!("unsupported path URI scheme `{scheme}`"))
            }
            FileUriError::Query => RpcError::invalid_params("query parameters are not allowed in path URIs"),
            FileUriError::Fragment => RpcError::invalid_params("fragments are not allowed in path URIs"),
            FileUriError::Authority => {
                RpcError::invalid_params("invalid URI: invalid international domain name")
            }
            FileUriError::Host => RpcError::invalid_request(elsewhere()),
            FileUriError::Nul => RpcError::invalid_params(elsewhere()),
        }
    })
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
        for (bad, code) in [
            ("", -32602),
            ("x", -32602),
            ("./x", -32602),
            ("file://host/x", -32600),
            ("file:///a%00", -32602),
            ("http://x/y", -32602),
            ("file:///a?b", -32602),
        ] {
            assert_eq!(native(bad).unwrap_err().code, code, "{bad}");
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
