//! The bindings of the relay's frames, out of their schema, without a compiler from elsewhere.

use std::fs;

use anyhow::{Context, Result};

use crate::tree::root;

/// Where the bindings are kept.
pub(crate) const BINDINGS: &str = "crates/wire/src/exec_server/relay/generated.rs";
/// The folder of the schema, and its name in there.
const SCHEMA: (&str, &str) = ("crates/wire/src/exec_server", "relay.proto");
/// Every source says what it is for; this one is read by nobody, so its items need no sentence each.
const HEAD: &str = "//! The relay's frames as protobuf has them. Written by `cargo xtask generate` from `relay.proto`.\n\
                    #![allow(missing_docs, unreachable_pub, reason = \"generated\")]\n\n";

/// The text of the bindings.
pub(crate) fn bindings() -> Result<String> {
    let (folder, name) = SCHEMA;
    let files = protox::compile([name], [root().join(folder)]).context(name)?;
    let made = std::env::temp_dir().join(format!("relay-bindings-{}", std::process::id()));
    fs::create_dir_all(&made).with_context(|| made.display().to_string())?;
    let text = prost_build::Config::new()
        // A payload stays where it was received.
        .bytes(["."])
        .disable_comments(["."])
        .out_dir(&made)
        .compile_fds(files)
        .map_err(anyhow::Error::from)
        .and_then(|()| Ok(fs::read_to_string(made.join("codex.exec_server.relay.v1.rs"))?));
    fs::remove_dir_all(&made).with_context(|| made.display().to_string())?;
    Ok(HEAD.to_owned() + &text?)
}
