//! The job of a keeper and the report of its start: one JSON document each way, over a pipe.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::files::{RootedPath, Roots};
use engine::limits::OnOutputLimit;
use engine::process::{
    Containment, OutputLimit, ProcessId, ProcessLimits, ProcessSpec, Program, Stdin, TerminalSize,
};
use engine::sandbox::{self, OnGap};
use engine::{Error, error};
use serde::{Deserialize, Serialize};

use super::profiles::{self, ProfileSpec};
use super::settings::KeeperSettings;
use crate::core::sandbox::{FEATURES_VARIABLE, detached_temp_dir};

/// Bytes that may not be UTF-8, serialized as base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawBytes(pub(super) Vec<u8>);

/// The process to start. Never written to disk, because its environment can contain secrets.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeeperJob {
    pub(super) id: String,
    pub(super) by: String,
    pub(super) face: String,
    program: JobProgram,
    /// The roots of the working directory, the outermost first.
    roots: Vec<Vec<RawBytes>>,
    cwd: RawBytes,
    /// `NAME=value`, each ended by NUL.
    env: RawBytes,
    terminal: Option<(u16, u16)>,
    stdin: JobStdin,
    stop_after_ms: Option<u64>,
    output_bytes: Option<u64>,
    ends_at_output_limit: bool,
    /// The sandbox profiles; empty means no sandbox.
    #[serde(default)]
    confinement: Vec<ProfileSpec>,
    /// Removed when the process has ended.
    #[serde(default)]
    temp: Option<RawBytes>,
}

/// Settings for every job, sent first, so that a keeper can prepare before it has a job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeeperTerms {
    keepers: RawBytes,
    pub(super) log_bytes: u64,
    pub(super) quota_bytes: u64,
    /// The audit file for the end of the process.
    audit: Option<RawBytes>,
    tail_bytes: usize,
    kill_grace_ms: u64,
    drain_idle_ms: u64,
    drain_at_most_ms: u64,
    marks_only: bool,
    pub(super) protocol: u32,
    /// The value of `REXD_SANDBOX_FEATURES`.
    #[serde(default)]
    lowered_features: String,
    /// Whether a process starts although the kernel cannot enforce its whole sandbox.
    #[serde(default)]
    reduces_gaps: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum JobProgram {
    Argv(Vec<String>),
    Shell { line: String, login: bool },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum JobStdin {
    Open,
    Given(RawBytes),
    Empty,
}

impl KeeperJob {
    /// The job for a process specification.
    pub(super) fn new(id: &ProcessId, by: &str, spec: &ProcessSpec) -> KeeperJob {
        KeeperJob {
            id: id.0.clone(),
            by: by.to_owned(),
            face: spec.origin.to_string(),
            program: match &spec.program {
                Program::Argv(argv) => JobProgram::Argv(argv.clone()),
                Program::Shell { line, login } => JobProgram::Shell { line: line.clone(), login: *login },
            },
            roots: chain(spec.cwd.roots()),
            cwd: raw(spec.cwd.as_path().as_os_str()),
            env: RawBytes(environment(&spec.env)),
            terminal: spec.terminal.map(|size| (size.cols, size.rows)),
            stdin: match &spec.stdin {
                Stdin::Open => JobStdin::Open,
                Stdin::Given(bytes) => JobStdin::Given(RawBytes(bytes.to_vec())),
                Stdin::Empty => JobStdin::Empty,
            },
            stop_after_ms: spec.stop_after.map(ms),
            output_bytes: spec.output_limit.map(|limit| limit.bytes),
            ends_at_output_limit: spec.output_limit.is_some_and(|limit| limit.then == OnOutputLimit::Kill),
            confinement: profiles::to_specs(spec.confinement.as_deref()),
            temp: spec.confinement.as_deref().and_then(detached_temp_dir).map(|path| raw(path.as_os_str())),
        }
    }

    /// The process specification of the job.
    pub(super) fn spec(&self) -> Result<ProcessSpec, Error> {
        let then = if self.ends_at_output_limit { OnOutputLimit::Kill } else { OnOutputLimit::Truncate };
        Ok(ProcessSpec {
            program: match &self.program {
                JobProgram::Argv(argv) => Program::Argv(argv.clone()),
                JobProgram::Shell { line, login } => Program::Shell { line: line.clone(), login: *login },
            },
            arg0: None,
            cwd: self.directory()?,
            env: self.env.0.split(|byte| *byte == 0).filter_map(variable).collect(),
            terminal: self.terminal.map(|(cols, rows)| TerminalSize { cols, rows }),
            stdin: match &self.stdin {
                JobStdin::Open => Stdin::Open,
                JobStdin::Given(bytes) => Stdin::Given(bytes.0.clone().into()),
                JobStdin::Empty => Stdin::Empty,
            },
            stop_after: self.stop_after_ms.map(Duration::from_millis),
            output_limit: self.output_bytes.map(|bytes| OutputLimit { bytes, then }),
            origin: self.face.clone().into(),
            confinement: profiles::from_specs(&self.confinement),
        })
    }

    /// The temporary directory of the process, if it has one.
    pub(super) fn temp(&self) -> Option<PathBuf> {
        self.temp.as_ref().map(RawBytes::path)
    }

    fn directory(&self) -> Result<RootedPath, Error> {
        let mut chain = self.roots.iter().map(|roots| roots.iter().map(RawBytes::path).collect::<Vec<_>>());
        let mut roots = Roots::new(chain.next().unwrap_or_default());
        for narrower in chain {
            roots = roots.narrowed(narrower)?;
        }
        roots.admit(Path::new("/"), &self.cwd.path())
    }
}

impl KeeperTerms {
    pub(super) fn new(settings: &KeeperSettings) -> KeeperTerms {
        let bounds = &settings.bounds;
        KeeperTerms {
            keepers: raw(settings.dir.as_os_str()),
            log_bytes: settings.config.log_bytes,
            quota_bytes: settings.config.quota_bytes,
            audit: settings.audit.as_deref().map(|path| raw(path.as_os_str())),
            tail_bytes: bounds.log_bytes,
            kill_grace_ms: ms(bounds.kill_grace),
            drain_idle_ms: ms(bounds.drain_idle),
            drain_at_most_ms: ms(bounds.drain_max),
            marks_only: settings.containment == Containment::Marks,
            protocol: settings.protocol.number(),
            lowered_features: std::env::var(FEATURES_VARIABLE).unwrap_or_default(),
            reduces_gaps: settings.on_gap == OnGap::Reduce,
        }
    }

    /// The audit file for the end of the process, if there is one.
    pub(super) fn audit(&self) -> Option<PathBuf> {
        self.audit.as_ref().map(RawBytes::path)
    }

    /// The limits of the process. Nothing spills to disk: the log writer always reads.
    pub(super) fn bounds(&self) -> ProcessLimits {
        ProcessLimits {
            log_bytes: self.tail_bytes,
            spill_bytes: 0,
            spill_dir: PathBuf::from("/"),
            commands_waiting: 16,
            kill_grace: Duration::from_millis(self.kill_grace_ms),
            drain_idle: Duration::from_millis(self.drain_idle_ms),
            drain_max: Duration::from_millis(self.drain_at_most_ms),
        }
    }

    pub(super) fn containment(&self) -> Containment {
        if self.marks_only { Containment::Marks } else { Containment::Best }
    }

    /// The engine's sandbox settings. The daemon has refused unknown features.
    pub(super) fn sandbox(&self) -> sandbox::SandboxSettings {
        let on_gap = if self.reduces_gaps { OnGap::Reduce } else { OnGap::Refuse };
        sandbox::SandboxSettings { feature_mask: self.lowered_features.parse().unwrap_or_default(), on_gap }
    }

    pub(super) fn keepers(&self) -> PathBuf {
        self.keepers.path()
    }
}

/// The result of a job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StartReport {
    /// The process runs.
    Running { pid: i32, started_at_ms: u64 },
    /// The program could not be executed.
    NotStarted { program: String, errno: i32 },
    /// A file error in the working directory or the keeper's directory.
    NoFile { path: RawBytes, errno: i32 },
    /// The working directory is outside the roots.
    Outside { path: RawBytes, resolved: Option<RawBytes>, roots: Vec<RawBytes> },
    /// The sandbox cannot be enforced.
    NotConfined { profile: String, reason: String },
    /// The sandbox does not allow access to the program.
    Unreadable { path: RawBytes },
    /// Another error.
    Failed { reason: String },
}

impl StartReport {
    /// The report for an error of the keeper's engine.
    pub(super) fn of(error: &Error) -> StartReport {
        let failed = || StartReport::Failed { reason: error.to_string() };
        match error {
            Error::Spawn { program, source } => match source.raw_os_error() {
                Some(errno) => StartReport::NotStarted { program: program.clone(), errno },
                None => failed(),
            },
            Error::File { path, source, .. } => match source.raw_os_error() {
                Some(errno) => StartReport::NoFile { path: raw(path.as_os_str()), errno },
                None => failed(),
            },
            Error::OutsideRoots { path, resolved, roots } => StartReport::Outside {
                path: raw(path.as_os_str()),
                resolved: resolved.as_ref().map(|path| raw(path.as_os_str())),
                roots: roots.iter().map(|path| raw(path.as_os_str())).collect(),
            },
            Error::Sandbox { profile, reason } => {
                StartReport::NotConfined { profile: profile.clone(), reason: reason.clone() }
            }
            Error::SandboxDenied { path } => StartReport::Unreadable { path: raw(path.as_os_str()) },
            Error::NoSuchProcess(_)
            | Error::Gone
            | Error::InputClosed
            | Error::BadPath { .. }
            | Error::NotRegular { .. }
            | Error::Exists { .. }
            | Error::Conflict { .. }
            | Error::Edit(_)
            | Error::Patch(_)
            | Error::Pattern { .. }
            | Error::Denied { .. }
            | Error::NoApprover { .. }
            | Error::Refused { .. }
            | Error::Unanswered { .. }
            | Error::NoSuchApproval(_)
            | Error::AlreadySettled { .. }
            | Error::Guarded { .. }
            | Error::Unsupported { .. }
            | Error::LimitReached { .. }
            | Error::Deadline { .. }
            | Error::Cancelled => failed(),
        }
    }

    /// The error for the client, of the same kind as for a process without a keeper; `None` if the process runs.
    pub(super) fn into_error(self) -> Option<Error> {
        match self {
            StartReport::Running { .. } => None,
            StartReport::NotStarted { program, errno } => {
                Some(Error::Spawn { program, source: io::Error::from_raw_os_error(errno) })
            }
            StartReport::NoFile { path, errno } => {
                let source = io::Error::from_raw_os_error(errno);
                Some(Error::File { action: "open", path: path.path(), source })
            }
            StartReport::Outside { path, resolved, roots } => Some(Error::OutsideRoots {
                path: path.path(),
                resolved: resolved.map(|path| path.path()),
                roots: roots.iter().map(RawBytes::path).collect(),
            }),
            StartReport::NotConfined { profile, reason } => Some(Error::Sandbox { profile, reason }),
            StartReport::Unreadable { path } => Some(Error::SandboxDenied { path: path.path() }),
            StartReport::Failed { reason } => Some(Error::Unsupported { what: "a detached process", reason }),
        }
    }

    /// The report for a file of the keeper that could not be created.
    pub(super) fn of_io(path: &Path, source: &io::Error) -> StartReport {
        match source.raw_os_error() {
            Some(errno) => StartReport::NoFile { path: raw(path.as_os_str()), errno },
            None => {
                StartReport::Failed { reason: format!("{}: {}", path.display(), error::errno_text(source)) }
            }
        }
    }
}

impl RawBytes {
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.0.clone()))
    }
}

impl Serialize for RawBytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&wire::base64::encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for RawBytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<RawBytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        wire::base64::decode(&text).map(RawBytes).map_err(serde::de::Error::custom)
    }
}

pub(super) fn raw(text: &OsStr) -> RawBytes {
    RawBytes(text.as_bytes().to_vec())
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The roots and those they were narrowed from, the outermost first.
fn chain(roots: &Roots) -> Vec<Vec<RawBytes>> {
    let mut chain = roots.outer().map(chain).unwrap_or_default();
    chain.push(roots.paths().iter().map(|path| raw(path.as_os_str())).collect());
    chain
}

fn environment(env: &[(OsString, OsString)]) -> Vec<u8> {
    let pair =
        |(name, value): &(OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat();
    env.iter().flat_map(pair).collect()
}

fn variable(pair: &[u8]) -> Option<(OsString, OsString)> {
    // A name may begin with an equals sign, and is never empty.
    let place = pair.iter().skip(1).position(|byte| *byte == b'=')? + 1;
    let (name, value) = (pair.get(..place)?, pair.get(place + 1..)?);
    Some((OsString::from_vec(name.to_vec()), OsString::from_vec(value.to_vec())))
}
