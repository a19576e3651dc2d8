//! What an approver is shown of a request: the whole command, or what changes in the files.

use std::path::Path;

use engine::Error;
use engine::approval::{Deed, Diff};
use engine::files::patch;
use engine::process::Program;

use super::call::Call;
use super::convert;
use super::wanted::Touched;
use crate::approvals::diff::{self, Preview, Shown};

/// The change in the files of a request, and what it was when it was shown.
#[derive(Debug, Default)]
pub(super) struct Pictured {
    pub(super) diff: Option<Diff>,
    pub(super) shown: Option<Shown>,
}

impl From<Preview> for Pictured {
    fn from(preview: Preview) -> Pictured {
        Pictured { diff: Some(preview.diff), shown: Some(preview.shown) }
    }
}

/// A command with everything that decides what it does.
pub(super) fn command(call: &Call, program: Program, cwd: &Path) -> Deed {
    let (env, input_bytes, has_terminal, is_detached) = match call {
        Call::ExecStart(params) => {
            (&params.env, params.stdin.as_ref().map_or(0, String::len), false, params.detach)
        }
        Call::PtyOpen(params) => (&params.env, 0, true, params.detach),
        _ => return Deed::Files { action: engine::approval::Action::Read, paths: Vec::new(), diff: None },
    };
    Deed::Run {
        program,
        cwd: cwd.to_owned(),
        env: env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        input_bytes: input_bytes as u64,
        has_terminal,
        is_detached,
    }
}

/// What a request would change in files now, as far as it changes content.
pub(super) fn files(call: &Call, touched: &Touched) -> Result<Pictured, Error> {
    let Some(first) = touched.places.first() else { return Ok(Pictured::default()) };
    let path = &first.path;
    match call {
        Call::FsWrite(params) => {
            let bytes = convert::data("content", &params.content, params.encoding.as_deref(), "encoding");
            // What is no content is refused by whoever would write it.
            let Ok(bytes) = bytes else { return Ok(Pictured::default()) };
            diff::write(path, &bytes, convert::write_mode(params.mode.as_deref()).unwrap_or_default())
                .map(Pictured::from)
        }
        Call::FsEdit(params) => diff::edit(path, &convert::edit(params)).map(Pictured::from),
        Call::FsPatch(params) => {
            let plan = patch::plan(path.roots(), &touched.base, &params.patch_text)?;
            Ok(diff::patch(&plan).into())
        }
        _ => Ok(Pictured::default()),
    }
}
