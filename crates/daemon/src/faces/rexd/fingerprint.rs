//! Fingerprints that tell whether two requests with one idempotency key are the same, without storing them.

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use serde::Serialize;
use wire::rexd::v1;

/// Bytes at either end of a long text that are hashed: enough to detect a mistake, not to prove equality.
const END: usize = 4 * 1024;

/// Parameters of a request that may carry a key.
pub(super) trait Fingerprint {
    /// Equal for equal requests.
    fn fingerprint(&self) -> u64;
}

/// Hashes small parameters in their JSON form.
fn of_small<P: Serialize>(params: &P) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Each method has parameters of its own type.
    std::any::type_name::<P>().hash(&mut hasher);
    serde_json::to_vec(params).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

macro_rules! small {
    ($($params:ident)*) => {
        $(impl Fingerprint for v1::$params {
            fn fingerprint(&self) -> u64 {
                // Keys belong to a session, which a request can name in two ways.
                of_small(&v1::$params { session_id: String::new(), ..self.clone() })
            }
        })*
    };
}

small! { ExecStart PtyOpen FsEdit FsPatch FsMkdir FsSymlink FsRemove FsRename FsCopy }

impl Fingerprint for v1::FsWrite {
    fn fingerprint(&self) -> u64 {
        let small = v1::FsWrite {
            session_id: String::new(),
            path: self.path.clone(),
            permissions: self.permissions.clone(),
            hash: self.hash.clone(),
            content: String::new(),
            payload: None,
            encoding: self.encoding.clone(),
            mode: self.mode.clone(),
            idempotency_key: self.idempotency_key.clone(),
            ..*self
        };
        with_bytes(&small, &self.content, &self.payload)
    }
}

impl Fingerprint for v1::ExecInput {
    fn fingerprint(&self) -> u64 {
        with_bytes(&(&self.process_id, &self.encoding, self.eof), &self.data, &self.payload)
    }
}

impl Fingerprint for v1::PtyInput {
    fn fingerprint(&self) -> u64 {
        with_bytes(&(&self.pty_id, &self.encoding), &self.data, &self.payload)
    }
}

/// Hashes parameters with a text, or a payload in its place, that may be long.
fn with_bytes<P: Serialize>(small: &P, text: &str, payload: &Option<Bytes>) -> u64 {
    let mut hasher = DefaultHasher::new();
    of_small(small).hash(&mut hasher);
    let bytes = payload.as_deref().unwrap_or(text.as_bytes());
    bytes.len().hash(&mut hasher);
    bytes.iter().take(END).chain(bytes.iter().rev().take(END)).for_each(|byte| byte.hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_text_is_another_request_and_the_same_is_the_same() {
        let write = |content: &str, path: &str| {
            let (content, path) = (content.to_owned(), path.to_owned());
            v1::FsWrite { content, path, ..Default::default() }.fingerprint()
        };
        let long = "x".repeat(100_000);
        assert_eq!(write(&long, "a"), write(&long, "a"));
        let others = [write(&long, "b"), write(&long[1..], "a"), write(&format!("y{}", &long[1..]), "a")];
        assert!(others.iter().all(|other| *other != write(&long, "a")));
        let input = |data: &str, eof| {
            v1::ExecInput { data: data.to_owned(), eof, ..Default::default() }.fingerprint()
        };
        assert!(input("a", true) != input("a", false) && input("a", true) != input("b", true));
    }
}
