//! From a configuration to a running daemon: one engine, the faces over it, and an orderly end.

mod exec_server_face;
mod listeners;
pub mod notify;
mod signals;
mod sockets;

pub use exec_server_face::{ExecServerFace, exec_server, remote_executor};
pub use listeners::{Plan, serve};
pub use sockets::Sockets;

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context as _;
use engine::approval::Approvals;
use engine::audit::{AuditSink, NoAudit};
use engine::files::Durability;
use engine::process::{Containment, ProcessLimits};
use engine::{Engine, EngineSettings, Limits, Roots};
use link::stdio::Streams;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Paths, ServerConfig};
use crate::core::approvals::FileApprovalStore;
use crate::core::resume::{Crossing, LINGER, Lingering};
use crate::core::runtime_policy::{RuntimePolicy, RuntimePolicyHandle};
use crate::faces::rexd::{self, Arrival};
use crate::keeper::{self, Keepers};
use crate::net::auth::Caller;
use crate::observe::audit::{self, AuditFile};
use crate::observe::metrics::{Metrics, Transport};
use crate::observe::traces::Traces;

/// How long the clients of waiting sessions may take to go when the daemon ends.
const LANDINGS_GONE_WITHIN: Duration = Duration::from_secs(1);

/// Serves REXD on standard input and output until its peer is done or a signal asks for the end.
pub async fn stdio(config: &Config, paths: &Paths) -> anyhow::Result<()> {
    let stop = signals::ending(true)?.stop;
    let metrics = Metrics::off();
    let audit = open_audit(config, &metrics)?;
    if let Some(file) = &audit {
        tokio::spawn(start_later(Arc::downgrade(file)));
    }
    let mut service = service(config, paths, (sink(audit), metrics), stop.clone())?;
    service.lingering = Lingering::new(paths.state.as_deref());
    service.may_resume = service.lingering.is_some();
    service.retention = retention(&config.server);
    service.retention.resume = service.retention.resume.min(LINGER);
    let service = Arc::new(service);
    let streams = Streams::open().context("cannot use standard input and output")?;
    let crossing = match &service.lingering {
        Some(lingering) => lingering.cross(streams, &stop).await,
        None => Crossing::Stays(streams),
    };
    if let Crossing::Stays(streams) = crossing {
        let arrival = Arrival::new(Caller::on_stdio(), Transport::Stdio);
        rexd::serve(service.clone(), streams.into_link(&link_limits()), arrival, stop.clone()).await;
        if let Some(lingering) = &service.lingering {
            lingering.wait(&service.sessions, &stop).await;
        }
    }
    service.shut_down().await;
    if let Some(lingering) = &service.lingering {
        lingering.ended(LANDINGS_GONE_WITHIN).await;
    }
    Ok(())
}

/// How long sessions wait, as the configuration has it.
fn retention(config: &ServerConfig) -> rexd::Retention {
    rexd::Retention {
        resume: config.resume_for,
        resume_bytes: usize::try_from(config.resume_bytes).unwrap_or(usize::MAX),
        idle: config.session_idle,
        ..rexd::Retention::default()
    }
}

/// What every face over the engine shares, as the configuration has it.
pub fn service(
    config: &Config,
    paths: &Paths,
    (audit, metrics): (Arc<dyn AuditSink>, Metrics),
    stop: CancellationToken,
) -> anyhow::Result<rexd::Service> {
    let sandbox = crate::core::sandbox::settings(config)?;
    let settings = EngineSettings {
        process_limits: bounds(&config.limits, paths),
        containment: containment(),
        max_sessions: config.limits.max_concurrent_sessions,
        sandbox,
    };
    Ok(rexd::Service {
        engine: Engine::start(settings),
        roots: Roots::new(config.roots.clone()),
        no_roots: config.no_roots_message(),
        limits: config.limits.clone(),
        runtime_policy: RuntimePolicyHandle::new(RuntimePolicy::new(config, paths)),
        approvals: approvals(paths),
        durability: if config.durable_writes { Durability::Synced } else { Durability::Relaxed },
        audit,
        keepers: keepers(config, paths),
        metrics,
        traces: Traces::off(),
        may_resume: false,
        lingering: None,
        retention: rexd::Retention::default(),
        sessions: rexd::Sessions::default(),
        stop,
    })
}

/// What waits for a decision is written down below the state folder, if there is a home for one.
fn approvals(paths: &Paths) -> Approvals {
    match paths.state.as_deref() {
        Some(state) => {
            let ledger = FileApprovalStore::new(state.join("approvals"));
            let granted = ledger.grants();
            Approvals::new(Some(Arc::new(ledger)), granted)
        }
        None => Approvals::new(None, Vec::new()),
    }
}

/// Where processes that outlive everything are kept: below the state folder, if there is a home for one.
fn keepers(config: &Config, paths: &Paths) -> Option<Keepers> {
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

/// Few events wait in the lane, so that an answer overtakes nearly all of a flood and memory stays flat.
pub(crate) fn link_limits() -> link::Limits {
    link::Limits { event_slots: 2, ..link::Limits::default() }
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

/// Unnamed files go where the state is, if there is such a place yet, and else where temporary files go.
fn spill_dir(paths: &Paths) -> PathBuf {
    paths.state.clone().filter(|folder| folder.is_dir()).unwrap_or_else(std::env::temp_dir)
}

/// `REXD_CONTAINMENT=marks` is for hosts whose cgroups are somebody else's business, and for tests.
fn containment() -> Containment {
    match std::env::var_os("REXD_CONTAINMENT") {
        Some(name) if name == "marks" => Containment::Marks,
        _ => Containment::Best,
    }
}

/// A daemon that is over before anything has to be written does without the writer's thread.
async fn start_later(file: Weak<AuditFile>) {
    tokio::time::sleep(audit::BATCH).await;
    if let Some(file) = file.upgrade() {
        file.start();
    }
}

/// Where records go.
fn sink(file: Option<Arc<AuditFile>>) -> Arc<dyn AuditSink> {
    match file {
        Some(file) => file,
        None => Arc::new(NoAudit),
    }
}

/// The audit file, whose writer is yet to be started, unless there is to be none. A configured one that cannot be
/// written stops the start; the default one only warns.
fn open_audit(config: &Config, metrics: &Metrics) -> anyhow::Result<Option<Arc<AuditFile>>> {
    match AuditFile::from_config(&config.audit) {
        Ok(Some(mut file)) => {
            file.count_in(metrics);
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
