//! What the audit keeps of each request. Contents, input and the values of variables never enter it.

use engine::audit::Detail;
use wire::exec_server::http::HttpRequest;
use wire::exec_server::{v0, v1};

use super::answer::Details;

/// Params that know what the audit should keep of them.
pub(super) trait Described {
    /// In the protocol's words.
    fn details(&self) -> Details;
}

fn one(name: &'static str, value: &str) -> Details {
    vec![(name.into(), Detail::Text(value.to_owned()))]
}

fn with_size(mut details: Details, name: &'static str, bytes: usize) -> Details {
    details.push((name.into(), Detail::Hidden { bytes: bytes as u64 }));
    details
}

/// Params of which one member says it all.
macro_rules! told_by {
    ($($params:ty: $name:literal $member:ident,)*) => {
        $(impl Described for $params {
            fn details(&self) -> Details {
                one($name, &self.$member)
            }
        })*
    };
}

told_by! {
    v1::ReadParams: "process_id" process_id,
    v1::TerminateParams: "process_id" process_id,
    v1::SignalParams: "process_id" process_id,
    v0::TerminateParams: "process_id" process_id,
    v1::FsReadFileParams: "path" path,
    v1::FsCreateDirectoryParams: "path" path,
    v1::FsGetMetadataParams: "path" path,
    v1::FsReadDirectoryParams: "path" path,
    v1::FsRemoveParams: "path" path,
    v1::FsCanonicalizeParams: "path" path,
    v1::FsWalkParams: "path" path,
    v1::FsReadBlockParams: "handle_id" handle_id,
    v1::FsHandle: "handle_id" handle_id,
}

impl Described for v1::ExecParams {
    fn details(&self) -> Details {
        start(&self.process_id, &self.argv, &self.cwd, (self.env.keys(), self.tty))
    }
}

impl Described for v0::ExecParams {
    fn details(&self) -> Details {
        start(&self.process_id, &self.argv, &self.cwd, (self.env.keys(), self.tty))
    }
}

impl Described for v1::WriteParams {
    fn details(&self) -> Details {
        with_size(one("process_id", &self.process_id), "chunk", self.chunk.0.len())
    }
}

impl Described for v0::WriteParams {
    fn details(&self) -> Details {
        with_size(one("process_id", &self.process_id), "chunk", self.chunk.0.len())
    }
}

impl Described for v1::FsWriteFileParams {
    fn details(&self) -> Details {
        with_size(one("path", &self.path), "data_base64", self.data_base64.len())
    }
}

impl Described for v1::FsCopyParams {
    fn details(&self) -> Details {
        let mut details = one("source_path", &self.source_path);
        details.extend(one("destination_path", &self.destination_path));
        details
    }
}

impl Described for v1::FsOpenParams {
    fn details(&self) -> Details {
        let mut details = one("path", &self.path);
        details.extend(one("handle_id", &self.handle_id));
        details
    }
}

impl Described for v1::FsWriteBlockParams {
    fn details(&self) -> Details {
        with_size(one("handle_id", &self.handle_id), "chunk", self.chunk.0.len())
    }
}

impl Described for v1::FsWatchMissingParams {
    fn details(&self) -> Details {
        vec![("missing".into(), Detail::List(self.missing.clone()))]
    }
}

impl Described for HttpRequest {
    fn details(&self) -> Details {
        let mut details = one("method", &self.method);
        details.extend(one("url", place(&self.url)));
        with_size(details, "body_base64", self.body_base64.as_ref().map_or(0, |body| body.0.len()))
    }
}

fn start<'a>(
    id: &str,
    argv: &[String],
    cwd: &str,
    (env, tty): (impl Iterator<Item = &'a String>, bool),
) -> Details {
    let mut details = one("process_id", id);
    details.push(("argv".into(), Detail::Argv(argv.to_vec())));
    details.extend(one("cwd", cwd));
    details.push(("env".into(), Detail::List(env.cloned().collect())));
    details.push(("tty".into(), Detail::Flag(tty)));
    details
}

/// Where a request goes, without the user, the query and the fragment: people keep secrets there.
fn place(url: &str) -> &str {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let place = &url[..end];
    let host = place.find("://").map_or(0, |scheme| scheme + 3);
    let authority = &place[host..place[host..].find('/').map_or(place.len(), |slash| host + slash)];
    match authority.rfind('@') {
        Some(at) => &place[host + at + 1..],
        None => place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_without_what_may_be_secret() {
        for (url, kept) in [
            ("https://h.example/a/b", "https://h.example/a/b"),
            ("https://h.example/a?token=x#y", "https://h.example/a"),
            ("https://me:secret@h.example/a", "h.example/a"),
            ("http://h.example/@a", "http://h.example/@a"),
            ("https://h.example#secret", "https://h.example"),
            ("me:secret@h", "h"),
            ("", ""),
        ] {
            assert_eq!(place(url), kept, "{url}");
        }
    }
}
