//! Runs the daemon of a configuration: one engine, the faces on top of it, and the shutdown.

mod exec_server_face;
mod host_face;
mod listeners;
pub mod notify;
mod runtime;
mod signals;
mod sockets;
mod stringd_face;

pub use exec_server_face::{ExecServerFace, exec_server, remote_executor};
pub use host_face::{HostFace, host};
pub use listeners::{Plan, serve, with_listener_files};
pub use runtime::run;
pub use sockets::Sockets;
pub use stringd_face::{StringdFace, stringd};

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context as _;
use engine::approval::Approvals;
use engine::audit::{AuditSink, NoAudit};
use engine::files::Durability;
use engine::process::{Containment, ProcessLimits};
use engine::{Engine, EngineSettings, Limits, Roots};
use link::ByteBudget;
use link::stdio::Streams;
use link::task::OwnedTask;
use link::task::Tasks;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Paths, ServerConfig};
use crate::core::approvals::FileApprovalStore;
use crate::core::peers::Peers;
use crate::core::request::ConnectionContext;
use crate::core::resume::{HandoverOutcome, ResumeWait};
use crate::core::runtime_policy::{RuntimePolicy, RuntimePolicyHandle};
use crate::core::session::{Face as _, Retention};
use crate::core::{Core, SHUTDOWN_TIMEOUT};
use crate::faces::rexd::{self, Rexd};
use crate::keeper::{self, Keepers};
use crate::net::auth::Caller;
use crate::observe::audit::{self, AuditFile};
use crate::observe::metrics::{Metrics, Transport};
use crate::observe::traces::Traces;

/// The time that clients of disconnected sessions have to close when the daemon ends.
const RESUME_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves REXD on standard input and output until its peer disconnects or a signal ends the daemon.
pub async fn stdio(config: &Config, paths: &Paths) -> anyhow::Result<()> {
    let shutdown = signals::handle_shutdown(true)?;
    let stop = shutdown.stop.clone();
    let metrics = Metrics::off();
    let audit = open_audit(config, &metrics)?;
    let audit_start = audit.as_ref().map(|file| OwnedTask::spawn(start_later(Arc::downgrade(file))));
    let core = Arc::new(core(config, paths, (sink(audit), metrics), stop.clone())?);
    let resume = ResumeWait::new(paths.state.as_deref());
    let retention = resume.as_ref().map(|_| retention(&config.server));
    let face = Arc::new(Rexd::new(core.clone(), retention, resume.clone()));
    let streams = Streams::open().context("cannot use standard input and output")?;
    let outcome = match &resume {
        Some(resume) => resume.hand_over(streams, &stop).await,
        None => HandoverOutcome::Declined(streams),
    };
    if let HandoverOutcome::Declined(streams) = outcome {
        let _peers = serve_peers(&face);
        let context = ConnectionContext::new(Caller::on_stdio(), Transport::Stdio);
        rexd::serve(face.clone(), streams.into_link(&link_limits(&core)), context, stop.clone()).await;
        if let Some(resume) = &resume {
            resume.wait(face.sessions(), &stop).await;
        }
    }
    shut_down(&core, &[face.sessions().tasks()]).await;
    if let Some(resume) = &resume {
        resume.close(RESUME_CLOSE_TIMEOUT).await;
    }
    drop(audit_start);
    Ok(())
}

/// Serves the other daemons of this user until the task is dropped.
fn serve_peers(face: &Rexd) -> Option<OwnedTask<()>> {
    let peers = face.core().peers.clone()?;
    Some(OwnedTask::spawn(peers.serve(Arc::new(face.for_peers()))))
}

/// A core for one face alone, and the shutdown signals, one of which is the closing of a terminal.
fn alone(config: &Config, paths: &Paths) -> anyhow::Result<(Arc<Core>, signals::ShutdownSignals)> {
    engine::process::raise_open_file_limit();
    let ending = signals::handle_shutdown(true)?;
    let stop = ending.stop.clone();
    let metrics = Metrics::off();
    let audit = open_audit(config, &metrics)?;
    audit.iter().for_each(|file| file.start());
    let core = Arc::new(core(config, paths, (sink(audit), metrics), stop)?);
    Ok((core, ending))
}

/// Shows the processes and approvals of this daemon to the other daemons of this user, which ask for them by REXD.
fn serve_peers_of(core: &Arc<Core>) -> Option<OwnedTask<()>> {
    serve_peers(&Rexd::new(core.clone(), None, None))
}

/// Ends every session. After a second signal it does not wait: the kernel then kills the processes.
async fn shut_down_alone(core: &Core, sessions: &[&Tasks], ending: &signals::ShutdownSignals) {
    tokio::select! {
        () = shut_down(core, sessions) => {}
        () = ending.at_once.cancelled() => {}
    }
}

/// Ends every session and waits for their tasks, then ends the core.
async fn shut_down(core: &Core, sessions: &[&Tasks]) {
    core.stop.cancel();
    let ended = async {
        for tasks in sessions {
            tasks.close();
            tasks.wait().await;
        }
    };
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, ended).await.is_err() {
        tracing::warn!("some clients did not read their last events in time");
    }
    core.shut_down().await;
}

/// How long sessions are kept without a connection, as configured.
fn retention(config: &ServerConfig) -> Retention {
    Retention {
        resume: config.resume_for,
        resume_bytes: usize::try_from(config.resume_bytes).unwrap_or(usize::MAX),
        idle: config.session_idle,
        ..Retention::default()
    }
}

/// The core that all faces share, as configured.
pub fn core(
    config: &Config,
    paths: &Paths,
    (audit, metrics): (Arc<dyn AuditSink>, Metrics),
    stop: CancellationToken,
) -> anyhow::Result<Core> {
    let settings = EngineSettings {
        process_limits: bounds(&config.limits, paths),
        containment: containment(),
        max_sessions: config.limits.max_concurrent_sessions,
        sandbox: crate::core::sandbox::settings(config)?,
        guardian: paths.program.clone(),
        adopts_orphans: false,
    };
    let budget = ByteBudget::new(config.server.max_buffered_bytes);
    let measured = budget.clone();
    Ok(Core {
        engine: Engine::start(settings),
        roots: Roots::new(config.roots.clone()),
        no_roots: config.no_roots_message(),
        limits: config.limits.clone(),
        policy: RuntimePolicyHandle::new(RuntimePolicy::new(config, paths)),
        approvals: approvals(paths),
        durability: if config.durable_writes { Durability::Synced } else { Durability::Relaxed },
        audit,
        peers: Peers::new(paths.state.as_deref()),
        keepers: keepers(config, paths),
        budget,
        _budget_gauge: metrics.queue("buffered_bytes", move || measured.used()),
        metrics,
        traces: Traces::off(),
        tasks: Tasks::new(),
        stop,
    })
}

/// The approvals. Pending ones are stored in the state directory, if there is one.
fn approvals(paths: &Paths) -> Approvals {
    match paths.state.as_deref() {
        Some(state) => {
            let store = FileApprovalStore::new(state.join("approvals"));
            let granted = store.grants();
            Approvals::new(Some(Arc::new(store)), granted)
        }
        None => Approvals::new(None, Vec::new()),
    }
}

/// The keepers of detached processes, in the state directory; `None` if there is none.
pub fn keepers(config: &Config, paths: &Paths) -> Option<Keepers> {
    let state = paths.state.as_deref()?;
    let bounds = bounds(&config.limits, paths);
    let audit = config.audit.path.clone().filter(|_| config.audit.enabled);
    let settings = keeper::KeeperSettings {
        audit,
        on_gap: config.sandbox.on_gap,
        ..keeper::KeeperSettings::new(state, config.keepers.clone(), bounds, containment())
    };
    Some(Keepers::new(settings))
}

/// Few events are queued in the lane, so that a response overtakes most of them and memory use stays constant.
pub(crate) fn link_limits(core: &Core) -> link::Limits {
    link::Limits { event_slots: 2, budget: core.budget.clone(), ..link::Limits::default() }
}

fn bounds(limits: &Limits, paths: &Paths) -> ProcessLimits {
    ProcessLimits {
        log_bytes: limits.log_bytes,
        spill_bytes: limits.spill_bytes,
        spill_dir: spill_dir(paths),
        commands_waiting: limits.commands_waiting,
        kill_grace: limits.kill_grace,
        drain_idle: limits.drain_idle,
        drain_max: limits.drain_max,
    }
}

/// The directory of unnamed files: the state directory if it exists, otherwise the one for temporary files.
fn spill_dir(paths: &Paths) -> PathBuf {
    paths.state.clone().filter(|state| state.is_dir()).unwrap_or_else(std::env::temp_dir)
}

/// `REXD_CONTAINMENT=marks` is for hosts where another program manages the cgroups, and for tests.
fn containment() -> Containment {
    match std::env::var_os("REXD_CONTAINMENT") {
        Some(name) if name == "marks" => Containment::Marks,
        _ => Containment::Best,
    }
}

/// Starts the writer thread after a delay: a daemon that ends earlier does not need it.
async fn start_later(file: Weak<AuditFile>) {
    tokio::time::sleep(audit::BATCH).await;
    if let Some(file) = file.upgrade() {
        file.start();
    }
}

/// The destination of audit records.
fn sink(file: Option<Arc<AuditFile>>) -> Arc<dyn AuditSink> {
    match file {
        Some(file) => file,
        None => Arc::new(NoAudit),
    }
}

/// The audit file, without its writer thread; `None` if the audit is off. If a configured file cannot be written, the
/// daemon does not start; for the default file it only logs an error.
fn open_audit(config: &Config, metrics: &Metrics) -> anyhow::Result<Option<Arc<AuditFile>>> {
    match AuditFile::from_config(&config.audit) {
        Ok(Some(mut file)) => {
            file.report_to(metrics);
            Ok(Some(Arc::new(file)))
        }
        Ok(None) => Ok(None),
        Err(error) if config.audit.configured => Err(error).context("the audit file cannot be written"),
        Err(error) => {
            tracing::error!("NOTHING IS BEING AUDITED: {error}");
            Ok(None)
        }
    }
}
