//! What an approver is shown of a request: the whole command, or what changes in the files.

use std::path::Path;

use engine::approval::{Diff, InputPreview, Operation};
use engine::files::patch;
use engine::process::Program;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use wire::rexd::v1::{ExecStart, RpcError};

use super::call::Call;
use super::convert;
use super::errors::rpc_error;
use super::wanted::Touched;
use crate::core::approvals::diff::{self, Preview, PreviewDigest};

/// The most of a command's input that is shown; how much was cut off is said.
const SHOWN_INPUT: usize = 64 * 1024;

/// The change in the files of a request, and what it was when it was shown.
#[derive(Debug, Default)]
pub(super) struct Pictured {
    pub(super) diff: Option<Diff>,
    pub(super) shown: Option<PreviewDigest>,
}

impl From<Preview> for Pictured {
    fn from(preview: Preview) -> Pictured {
        Pictured { diff: Some(preview.diff), shown: Some(preview.shown) }
    }
}

/// A command with everything that decides what it does.
pub(super) fn command(call: &Call, program: Program, cwd: &Path) -> Operation {
    let none = std::collections::BTreeMap::new();
    let (env, input, has_terminal, is_detached) = match call {
        Call::ExecStart(params) => (&params.env, input(params), false, params.detach),
        Call::PtyOpen(params) => (&params.env, InputPreview::default(), true, params.detach),
        _ => (&none, InputPreview::default(), false, false),
    };
    Operation::Run {
        program,
        cwd: cwd.to_owned(),
        env: env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        input,
        has_terminal,
        is_detached,
    }
}

/// What a command is given to read: for a shell or a database it is what will happen.
fn input(params: &ExecStart) -> InputPreview {
    let text = params.stdin.as_deref().unwrap_or_default();
    // What cannot be decoded was refused before.
    let bytes = convert::data("stdin", text, params.stdin_encoding.as_deref(), "").unwrap_or_default();
    let shown = bytes.get(..SHOWN_INPUT).unwrap_or(&bytes);
    InputPreview {
        text: String::from_utf8_lossy(shown).into_owned(),
        cut_bytes: (bytes.len() - shown.len()) as u64,
        bytes: bytes.len() as u64,
    }
}

/// All of a request, whichever session makes it and however often, as a fingerprint.
pub(super) fn whole(call: &Call) -> String {
    let mut params = match call {
        Call::ExecStart(params) => json!(params),
        Call::PtyOpen(params) => json!(params),
        Call::FsRead(params) => json!(params),
        Call::FsList(params) => json!(params),
        Call::FsStat(params) => json!(params),
        Call::FsWatch(params) => json!(params),
        Call::FsGlob(params) => json!(params),
        Call::FsGrep(params) => json!(params),
        Call::FsWrite(params) => json!(params),
        Call::FsEdit(params) => json!(params),
        Call::FsPatch(params) => json!(params),
        Call::FsMkdir(params) => json!(params),
        Call::FsRemove(params) => json!(params),
        Call::FsRename(params) => json!(params),
        Call::FsCopy(params) => json!(params),
        _ => json!({}),
    };
    if let Some(params) = params.as_object_mut() {
        params.remove("session_id");
        params.remove("idempotency_key");
    }
    let digest = Sha256::digest(format!("{} {params}", call.method()));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a request would change in files now, as far as it changes content.
pub(super) fn files(call: &Call, touched: &Touched) -> Result<Pictured, RpcError> {
    let Some(first) = touched.places.first() else { return Ok(Pictured::default()) };
    let path = &first.path;
    match call {
        Call::FsWrite(params) => {
            let bytes = convert::data("content", &params.content, params.encoding.as_deref(), "encoding")?;
            let mode = convert::write_mode(params.mode.as_deref())?;
            diff::write(path, &bytes, mode).map(Pictured::from).map_err(rpc_error)
        }
        Call::FsEdit(params) => {
            diff::edit(path, &convert::edit(params)).map(Pictured::from).map_err(rpc_error)
        }
        Call::FsPatch(params) => {
            let plan = patch::plan(path.roots(), &touched.base, &params.patch_text).map_err(rpc_error)?;
            Ok(diff::patch(&plan).into())
        }
        _ => Ok(Pictured::default()),
    }
}
