//! The Rust bindings of the relay's frames, generated from their protobuf schema without an installed `protoc`.

use std::fs;

use anyhow::{Context, Result};

use crate::tree::root;

/// The path of the bindings.
pub(crate) const BINDINGS: &str = "crates/wire/src/exec_server/relay/generated.rs";
/// The directory and the file name of the schema.
const SCHEMA: (&str, &str) = ("crates/wire/src/exec_server", "relay.proto");
/// The start of the generated file.
const HEAD: &str = "//! The relay's frames as protobuf messages. Written by `cargo xtask generate` from `relay.proto`.\n\
                    #![allow(missing_docs, unreachable_pub, reason = \"generated\")]\n\n";

/// Generates the text of the bindings.
pub(crate) fn bindings() -> Result<String> {
    let (directory, name) = SCHEMA;
    let files = protox::compile([name], [root().join(directory)]).context(name)?;
    let output = std::env::temp_dir().join(format!("relay-bindings-{}", std::process::id()));
    fs::create_dir_all(&output).with_context(|| output.display().to_string())?;
    let text = prost_build::Config::new()
        // `Bytes` instead of `Vec<u8>`: a payload is not copied.
        .bytes(["."])
        .disable_comments(["."])
        .out_dir(&output)
        .compile_fds(files)
        .map_err(anyhow::Error::from)
        .and_then(|()| Ok(fs::read_to_string(output.join("codex.exec_server.relay.v1.rs"))?));
    fs::remove_dir_all(&output).with_context(|| output.display().to_string())?;
    Ok(HEAD.to_owned() + &text?)
}
