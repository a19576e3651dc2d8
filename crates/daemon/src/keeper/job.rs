//! What a keeper is told to run, and what it reports back: one JSON document each way, over a pipe.

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

/// Bytes that need not be text, as base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawBytes(pub(super) Vec<u8>);

/// Everything a keeper needs to know. It is never written to disk: the environment may hold secrets.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeeperJob {
    pub(super) id: String,
    pub(super) by: String,
    pub(super) face: String,
    program: ProgramOrder,
    /// The roots its directory was found in, the outermost first.
    roots: Vec<Vec<RawBytes>>,
    cwd: RawBytes,
    /// `NAME=value`, each ended by NUL.
    env: RawBytes,
    terminal: Option<(u16, u16)>,
    stdin: StdinOrder,
    stop_after_ms: Option<u64>,
    output_bytes: Option<u64>,
    ends_at_output_limit: bool,
    /// What the process is confined by; nothing leaves it as it is.
    #[serde(default)]
    confinement: Vec<ProfileSpec>,
    /// Removed when the process has ended.
    #[serde(default)]
    temp: Option<RawBytes>,
}

/// What holds for every job: sent first, so that a keeper can make ready before there is one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeeperTerms {
    keepers: RawBytes,
    pub(super) log_bytes: u64,
    pub(super) quota_bytes: u64,
    /// Where the end is recorded.
    audit: Option<RawBytes>,
    tail_bytes: usize,
    kill_grace_ms: u64,
    drain_idle_ms: u64,
    drain_at_most_ms: u64,
    marks_only: bool,
    pub(super) protocol: u32,
    /// What the kernel's features are lowered to.
    #[serde(default)]
    lowered_features: String,
    /// Whether a process is started though the kernel cannot hold all of its confinement.
    #[serde(default)]
    reduces_gaps: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProgramOrder {
    Argv(Vec<String>),
    Shell { line: String, login: bool },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StdinOrder {
    Open,
    Given(RawBytes),
    Empty,
}

impl KeeperJob {
    /// What a keeper is told about a process.
    pub(super) fn new(id: &ProcessId, by: &str, spec: &ProcessSpec) -> KeeperJob {
        KeeperJob {
            id: id.0.clone(),
            by: by.to_owned(),
            face: spec.origin.to_string(),
            program: match &spec.program {
                Program::Argv(argv) => ProgramOrder::Argv(argv.clone()),
                Program::Shell { line, login } => ProgramOrder::Shell { line: line.clone(), login: *login },
            },
            roots: chain(spec.cwd.roots()),
            cwd: raw(spec.cwd.as_path().as_os_str()),
            env: RawBytes(environment(&spec.env)),
            terminal: spec.terminal.map(|size| (size.cols, size.rows)),
            stdin: match &spec.stdin {
                Stdin::Open => StdinOrder::Open,
                Stdin::Given(bytes) => StdinOrder::Given(RawBytes(bytes.to_vec())),
                Stdin::Empty => StdinOrder::Empty,
            },
            stop_after_ms: spec.stop_after.map(ms),
            output_bytes: spec.output_limit.map(|limit| limit.bytes),
            ends_at_output_limit: spec.output_limit.is_some_and(|limit| limit.then == OnOutputLimit::Kill),
            confinement: profiles::told(spec.confinement.as_deref()),
            temp: spec.confinement.as_deref().and_then(detached_temp_dir).map(|path| raw(path.as_os_str())),
        }
    }

    /// What the engine is told.
    pub(super) fn spec(&self) -> Result<ProcessSpec, Error> {
        let then = if self.ends_at_output_limit { OnOutputLimit::Kill } else { OnOutputLimit::Truncate };
        Ok(ProcessSpec {
            program: match &self.program {
                ProgramOrder::Argv(argv) => Program::Argv(argv.clone()),
                ProgramOrder::Shell { line, login } => Program::Shell { line: line.clone(), login: *login },
            },
            arg0: None,
            cwd: self.directory()?,
            env: self.env.0.split(|byte| *byte == 0).filter_map(variable).collect(),
            terminal: self.terminal.map(|(cols, rows)| TerminalSize { cols, rows }),
            stdin: match &self.stdin {
                StdinOrder::Open => Stdin::Open,
                StdinOrder::Given(bytes) => Stdin::Given(bytes.0.clone().into()),
                StdinOrder::Empty => Stdin::Empty,
            },
            stop_after: self.stop_after_ms.map(Duration::from_millis),
            output_limit: self.output_bytes.map(|bytes| OutputLimit { bytes, then }),
            origin: self.face.clone().into(),
            confinement: profiles::heard(&self.confinement),
        })
    }

    /// The temporary directory that was made for the process, if one was.
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

    /// The file in which the end is recorded, if any.
    pub(super) fn audit(&self) -> Option<PathBuf> {
        self.audit.as_ref().map(RawBytes::path)
    }

    /// The bounds of its process. Nothing spills: the scribe always reads.
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

    /// What the engine has to know about confining. Features that nobody understands were refused by the daemon.
    pub(super) fn sandbox(&self) -> sandbox::SandboxSettings {
        let on_gap = if self.reduces_gaps { OnGap::Reduce } else { OnGap::Refuse };
        sandbox::SandboxSettings { feature_mask: self.lowered_features.parse().unwrap_or_default(), on_gap }
    }

    pub(super) fn keepers(&self) -> PathBuf {
        self.keepers.path()
    }
}

/// What came of a job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StartReport {
    /// It runs under this number since this moment.
    Running { pid: i32, started_at_ms: u64 },
    /// The program could not be executed.
    NotStarted { program: String, errno: i32 },
    /// Something with its directory, or the keeper's own.
    NoFile { path: RawBytes, errno: i32 },
    /// Its directory is not inside the roots any more.
    Outside { path: RawBytes, resolved: Option<RawBytes>, roots: Vec<RawBytes> },
    /// It cannot be confined as its profile says.
    NotConfined { profile: String, reason: String },
    /// Its profile keeps the program from being read.
    Unreadable { path: RawBytes },
    /// Anything else.
    Failed { reason: String },
}

impl StartReport {
    /// An error of the keeper's engine as it is reported.
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
            _ => failed(),
        }
    }

    /// The same as an error of the starter, of the kind an attached start would have had.
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

    /// A file of the keeper that could not be made.
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
