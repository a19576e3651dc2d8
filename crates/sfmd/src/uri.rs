//! Addresses of documents: joining, files and percent encoding.

use crate::quote::{hex_digit, percent};

/// Splits an address at its first `#`.
pub fn split_fragment(address: &str) -> (&str, Option<&str>) {
    match address.split_once('#') {
        Some((address, fragment)) => (address, Some(fragment)),
        None => (address, None),
    }
}

/// The scheme of an absolute address, in lower case.
pub fn scheme(address: &str) -> Option<String> {
    let (scheme, _) = address.split_once("://")?;
    let is_valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    is_valid.then(|| scheme.to_ascii_lowercase())
}

/// Whether a document at this address is loaded over HTTP.
pub fn is_http(address: &str) -> bool {
    matches!(scheme(address).as_deref(), Some("http" | "https"))
}

/// An address as written in a document, made absolute against that document's address.
pub fn resolve(target: &str, base: Option<&str>) -> String {
    if let Some(rest) = target.strip_prefix("chanflow://") {
        return format!("https://{rest}");
    }
    if scheme(target).is_some() || target.starts_with("act:") || target.starts_with("mailto:") {
        return target.to_owned();
    }
    let (path, fragment) = split_fragment(target);
    let resolved = match base {
        Some(base) if is_http(base) => resolve_http(path, base),
        Some(base) => {
            let document = to_path(base).unwrap_or_default();
            from_path(&join(directory(&document), &decode(path)))
        }
        None => from_path(&join("/", &decode(path))),
    };
    match fragment {
        Some(fragment) => format!("{resolved}#{fragment}"),
        None => resolved,
    }
}

fn resolve_http(target: &str, base: &str) -> String {
    let base = split_fragment(base).0;
    let authority_start = base.find("://").map_or(0, |at| at + 3);
    if let Some(rest) = target.strip_prefix("//") {
        return format!("{}//{rest}", &base[..authority_start - 2]);
    }
    let path_start = base[authority_start..].find(['/', '?']).map_or(base.len(), |at| authority_start + at);
    let (site, path) = base.split_at(path_start);
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    if target.is_empty() {
        return base.to_owned();
    }
    if target.starts_with('?') {
        return format!("{site}{path}{target}");
    }
    let _ = query;
    let (target, query) = match target.split_once('?') {
        Some((target, query)) => (target, format!("?{query}")),
        None => (target, String::new()),
    };
    let joined = match target.starts_with('/') {
        true => target.to_owned(),
        false => format!("{}/{target}", path.rsplit_once('/').map_or("", |(directory, _)| directory)),
    };
    format!("{site}{}{query}", normal(&joined))
}

/// A path below a directory, or the path itself if it is absolute; without `.`, `..` and repeated slashes.
pub fn join(directory: &str, path: &str) -> String {
    match path.starts_with('/') {
        true => normal(path),
        false => normal(&format!("{directory}/{path}")),
    }
}

/// The directory that contains a file.
pub fn directory(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) => "/",
        Some(at) => &path[..at],
        None => "/",
    }
}

/// An absolute path without `.` and `..`; a trailing slash is kept.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let is_directory = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    let end = if is_directory && !parts.is_empty() { "/" } else { "" };
    format!("/{}{end}", parts.join("/"))
}

/// The address of an absolute path.
pub fn from_path(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte);
    format!("file://{}", percent(path, is_plain))
}

/// The path of a `file://` address, decoded.
pub fn to_path(address: &str) -> Option<String> {
    let rest = address.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    rest.starts_with('/').then(|| decode(split_fragment(rest).0))
}

/// Decodes percent escapes; invalid ones stay, invalid UTF-8 is replaced.
pub fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair =
            (bytes.get(at + 1).copied().and_then(hex_digit), bytes.get(at + 2).copied().and_then(hex_digit));
        if let (b'%', (Some(high), Some(low))) = (bytes[at], pair) {
            decoded.push(high * 16 + low);
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The pairs of a query, decoded; `+` is a blank.
pub fn query(text: &str) -> Vec<(String, String)> {
    let value = |text: &str| decode(&text.replace('+', " "));
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(k, v)| (value(k), value(v))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_resolved_against_their_document() {
        let (file, web) = (Some("file:///srv/a%20b/doc.md"), Some("http://h:9/x/y.html?q=1#f"));
        let table = [
            ("c.md", file, "file:///srv/a%20b/c.md"),
            ("../c d.md#x", file, "file:///srv/c%20d.md#x"),
            ("/etc/x", file, "file:///etc/x"),
            ("c.md", None, "file:///c.md"),
            ("../../../../etc", file, "file:///etc"),
            ("http://a/../b", file, "http://a/../b"),
            ("chanflow://a/b", file, "https://a/b"),
            ("act:x?y=1", file, "act:x?y=1"),
            ("z?r=2", web, "http://h:9/x/z?r=2"),
            ("/z#g", web, "http://h:9/z#g"),
            ("../../z/", web, "http://h:9/z/"),
            ("//o/z", web, "http://o/z"),
            ("?r", web, "http://h:9/x/y.html?r"),
            ("", web, "http://h:9/x/y.html?q=1"),
            ("z", Some("https://h"), "https://h/z"),
        ];
        for (target, base, expected) in table {
            assert_eq!(resolve(target, base), expected, "{target} against {base:?}");
        }
    }

    #[test]
    fn paths_survive_their_address() {
        for path in ["/a b/ü%#?.md", "/", "/x/y"] {
            assert_eq!(to_path(&from_path(path)).as_deref(), Some(path));
        }
        assert_eq!(from_path("/tmp/a b.md"), "file:///tmp/a%20b.md");
        assert_eq!(to_path("http://x/"), None);
        assert_eq!(decode("%4%41%zz%"), "%4A%zz%");
        assert_eq!(
            query("a=b+c&d&=e%26"),
            [("a", "b c"), ("d", ""), ("", "e&")].map(|(k, v)| (k.into(), v.into()))
        );
    }
}
