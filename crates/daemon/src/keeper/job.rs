//! The job of a keeper and the report of its start: one JSON document each way, over a pipe.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::Error;
use engine::files::{RootedPath, Roots};
use engine::limits::OnOutputLimit;
use engine::process::{
    Containment, OutputLimit, ProcessId, ProcessLimits, ProcessSpec, Program, Stdin, TerminalSize,
};
use engine::sandbox::{self, OnGap};
use serde::{Deserialize, Serialize};

use super::profiles::{self, JobProfile};
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
    pub(super) name: Option<String>,
    #[serde(with = "ProgramDef")]
    program: Program,
    /// The roots of the working directory, the outermost first.
    roots: Vec<Vec<RawBytes>>,
    cwd: RawBytes,
    env: Vec<(RawBytes, RawBytes)>,
    pub(super) terminal: Option<(u16, u16)>,
    stdin: JobStdin,
    merges_stderr: bool,
    stop_after_ms: Option<u64>,
    output_bytes: Option<u64>,
    ends_at_output_limit: bool,
    is_text: bool,
    /// The sandbox profiles; empty means no sandbox.
    confinement: Vec<JobProfile>,
    /// The temporary directory of the process, removed when it has ended.
    pub(super) temp: Option<RawBytes>,
}

/// Settings for every job, sent first, so that a keeper can prepare before it has a job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeeperTerms {
    pub(super) keepers: RawBytes,
    pub(super) log_bytes: u64,
    pub(super) quota_bytes: u64,
    /// The audit file for the end of the process.
    pub(super) audit: Option<RawBytes>,
    #[serde(with = "ProcessLimitsDef")]
    pub(super) bounds: ProcessLimits,
    marks_only: bool,
    pub(super) protocol: u32,
    /// The value of `REXD_SANDBOX_FEATURES`.
    lowered_features: String,
    /// Whether a process starts although the kernel cannot enforce its whole sandbox.
    reduces_gaps: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Program")]
enum ProgramDef {
    Argv(Vec<String>),
    Shell { line: String, login: bool },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ProcessLimits")]
struct ProcessLimitsDef {
    log_bytes: usize,
    spill_bytes: u64,
    spill_dir: PathBuf,
    commands_waiting: usize,
    kill_grace: Duration,
    drain_idle: Duration,
    drain_max: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
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
            name: spec.name.clone(),
            program: spec.program.clone(),
            roots: chain(spec.cwd.roots()),
            cwd: raw(spec.cwd.as_path().as_os_str()),
            env: spec.env.iter().map(|(name, value)| (raw(name), raw(value))).collect(),
            terminal: spec.terminal.map(|size| (size.cols, size.rows)),
            stdin: match &spec.stdin {
                Stdin::Open => JobStdin::Open,
                Stdin::Given(bytes) => JobStdin::Given(RawBytes(bytes.to_vec())),
                Stdin::Empty => JobStdin::Empty,
            },
            merges_stderr: spec.merges_stderr,
            stop_after_ms: spec.stop_after.map(ms),
            output_bytes: spec.output_limit.map(|limit| limit.bytes),
            ends_at_output_limit: spec.output_limit.is_some_and(|limit| limit.then == OnOutputLimit::Kill),
            is_text: spec.is_text,
            confinement: profiles::from_confinement(spec.confinement.as_deref()),
            temp: spec.confinement.as_deref().and_then(detached_temp_dir).map(|path| raw(path.as_os_str())),
        }
    }

    /// The process specification of the job.
    pub(super) fn spec(&self) -> Result<ProcessSpec, Error> {
        let then = if self.ends_at_output_limit { OnOutputLimit::Kill } else { OnOutputLimit::Truncate };
        Ok(ProcessSpec {
            program: self.program.clone(),
            arg0: None,
            name: self.name.clone(),
            cwd: self.directory()?,
            env: self.env.iter().map(|(name, value)| (name.text(), value.text())).collect(),
            terminal: self.terminal.map(|(cols, rows)| TerminalSize { cols, rows }),
            stdin: match &self.stdin {
                JobStdin::Open => Stdin::Open,
                JobStdin::Given(bytes) => Stdin::Given(bytes.0.clone().into()),
                JobStdin::Empty => Stdin::Empty,
            },
            merges_stderr: self.merges_stderr,
            side_pipes: None,
            end_grace: None,
            stop_after: self.stop_after_ms.map(Duration::from_millis),
            output_limit: self.output_bytes.map(|bytes| OutputLimit { bytes, then }),
            is_text: self.is_text,
            origin: self.face.clone().into(),
            confinement: profiles::to_confinement(&self.confinement),
        })
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
        KeeperTerms {
            keepers: raw(settings.dir.as_os_str()),
            log_bytes: settings.config.log_bytes,
            quota_bytes: settings.config.quota_bytes,
            audit: settings.audit.as_deref().map(|path| raw(path.as_os_str())),
            // Nothing spills to disk: the log writer always reads.
            bounds: ProcessLimits {
                spill_bytes: 0,
                spill_dir: "/".into(),
                commands_waiting: 16,
                ..settings.bounds.clone()
            },
            marks_only: settings.containment == Containment::Marks,
            protocol: settings.protocol.number(),
            lowered_features: std::env::var(FEATURES_VARIABLE).unwrap_or_default(),
            reduces_gaps: settings.on_gap == OnGap::Reduce,
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
}

/// The result of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StartReport {
    /// The process runs.
    Running { pid: i32, started_at_ms: u64 },
    /// The program could not be executed.
    NotStarted { program: String, errno: i32 },
    /// A file error in the working directory.
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
    pub(super) fn of(error: Error) -> StartReport {
        let reason = error.to_string();
        match error {
            Error::Spawn { program, source } if let Some(errno) = source.raw_os_error() => {
                StartReport::NotStarted { program, errno }
            }
            Error::File { path, source, .. } if let Some(errno) = source.raw_os_error() => {
                StartReport::NoFile { path: raw(path.as_os_str()), errno }
            }
            Error::OutsideRoots { path, resolved, roots } => StartReport::Outside {
                path: raw(path.as_os_str()),
                resolved: resolved.map(|path| raw(path.as_os_str())),
                roots: roots.iter().map(|path| raw(path.as_os_str())).collect(),
            },
            Error::Sandbox { profile, reason } => StartReport::NotConfined { profile, reason },
            Error::SandboxDenied { path } => StartReport::Unreadable { path: raw(path.as_os_str()) },
            _ => StartReport::Failed { reason },
        }
    }

    /// The pid and the start time, or the error for the client, of the same kind as for a process without a keeper.
    pub(super) fn into_result(self) -> Result<(i32, u64), Error> {
        Err(match self {
            StartReport::Running { pid, started_at_ms } => return Ok((pid, started_at_ms)),
            StartReport::NotStarted { program, errno } => {
                Error::Spawn { program, source: io::Error::from_raw_os_error(errno) }
            }
            StartReport::NoFile { path, errno } => {
                let source = io::Error::from_raw_os_error(errno);
                Error::File { action: "open", path: path.path(), source }
            }
            StartReport::Outside { path, resolved, roots } => Error::OutsideRoots {
                path: path.path(),
                resolved: resolved.map(|path| path.path()),
                roots: roots.iter().map(RawBytes::path).collect(),
            },
            StartReport::NotConfined { profile, reason } => Error::Sandbox { profile, reason },
            StartReport::Unreadable { path } => Error::SandboxDenied { path: path.path() },
            StartReport::Failed { reason } => Error::Unsupported { what: "a detached process", reason },
        })
    }
}

impl RawBytes {
    fn text(&self) -> OsString {
        OsString::from_vec(self.0.clone())
    }

    pub(super) fn path(&self) -> PathBuf {
        self.text().into()
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

/// Serializes paths as [`RawBytes`].
pub(super) mod raw_paths {
    use super::{PathBuf, RawBytes, raw};
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| raw(path.as_os_str())))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<RawBytes>::deserialize(deserializer)?.iter().map(RawBytes::path).collect())
    }
}

fn raw(text: &OsStr) -> RawBytes {
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
