//! `rexd keeper`: owns one process, its log and its socket until the process tree has ended.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use engine::audit::{AuditOutcome, AuditRecord, AuditSink as _, Detail};
use engine::error::errno_text;
use engine::process::{Cursor, LogReader, Process, ProcessSummary, Signal, TerminalSize};
use engine::{Engine, EngineSettings, Error, Session};
use link::task::{OwnedTask, Tasks};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use wire::keeper::Version;

use super::connection::{self, ServerState};
use super::convert;
use super::dir::LOG;
use super::dir_writer::KeeperDirWriter;
use super::input_keys::InputKeys;
use super::job::{KeeperJob, KeeperTerms, RawBytes, StartReport};
use super::log_writer;
use super::quota::Quota;
use super::record::{EndRecord, ProcessRecord, boot_id, to_ms};
use super::segments::SegmentWriter;
use super::settings::OWN_PROGRAM;
use crate::core::sandbox::remove_temp_dir;
use crate::core::state::detach_standard_streams;
use crate::observe::audit::AuditFile;

/// The maximal size of a job; its environment and input are limited before.
const MAX_JOB_BYTES: u64 = 64 * 1024 * 1024;
/// The maximal number of connections; further ones are closed.
const MAX_CONNECTIONS: usize = 128;
/// The maximal number of viewers among the connections.
const MAX_VIEWERS: usize = 32;
/// How long a keeper waits for viewers after the end; slower viewers read the log from disk.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximal number of concurrent disk reads of viewers; further ones wait.
const DISK_READS: usize = 2;
/// Blocking threads: for viewers, the log writer, a terminal and reads of `/proc`. Created on demand.
const BLOCKING_THREADS: usize = DISK_READS + 4;
/// Sent when a file exceeds its size limit; the failing write is enough.
const SIGXFSZ: i32 = 25;

/// Prepares, reads the job from stdin, runs it, and returns when the process has ended.
pub fn main() -> io::Result<u8> {
    // Otherwise `ps` shows the name `exe`.
    let _named = rustix::thread::set_name(c"rexd-keeper");
    let mut input = BufReader::new(io::stdin().lock().take(MAX_JOB_BYTES));
    let mut text = Vec::new();
    input.read_until(b'\n', &mut text)?;
    // The daemon has exited before it sent the settings.
    let Ok(terms) = serde_json::from_slice::<KeeperTerms>(&text) else { return Ok(0) };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_stack_size(256 * 1024)
        .build()?;
    runtime.block_on(async {
        let prepared = PreparedKeeper::new(terms);
        text.clear();
        // Blocking is fine: nothing else runs before there is a job.
        input.read_to_end(&mut text)?;
        let job = serde_json::from_slice(&text);
        drop(text);
        match job {
            Ok(job) => prepared.run(job).await,
            // The daemon has exited without a job for this keeper.
            Err(_none) => {
                prepared.discard();
                Ok(())
            }
        }
    })?;
    runtime.shutdown_background();
    Ok(0)
}

/// A keeper that is ready for a job.
struct PreparedKeeper {
    terms: KeeperTerms,
    dir_writer: io::Result<(KeeperDirWriter, UnixListener)>,
    engine: Engine,
}

impl PreparedKeeper {
    fn new(terms: KeeperTerms) -> PreparedKeeper {
        let settings = EngineSettings {
            process_limits: terms.bounds.clone(),
            containment: terms.containment(),
            max_sessions: 1,
            sandbox: terms.sandbox(),
            guardian: Some(OWN_PROGRAM.into()),
            // Otherwise the kill of many detached processes reads all of `/proc` for each of them.
            adopts_orphans: true,
        };
        let engine = Engine::start(settings);
        // Finds and opens the cgroups.
        engine.uses_cgroups();
        let dir_writer = KeeperDirWriter::create(&terms.keepers.path()).and_then(|dir_writer| {
            let listener = UnixListener::from_std(dir_writer.listen()?)?;
            Ok((dir_writer, listener))
        });
        PreparedKeeper { terms, dir_writer, engine }
    }

    fn discard(self) {
        if let Ok((dir_writer, _)) = self.dir_writer {
            dir_writer.discard();
        }
    }

    async fn run(self, job: KeeperJob) -> io::Result<()> {
        let ended = self.keep(&job).await;
        if let Some(temp) = &job.temp {
            remove_temp_dir(&temp.path());
        }
        ended
    }

    /// Starts the process and runs until it has ended.
    async fn keep(self, job: &KeeperJob) -> io::Result<()> {
        let PreparedKeeper { terms, dir_writer, engine } = self;
        let (stop_requested, _signal_tasks) = install_signal_handlers()?;
        // The state directory is the operator's, not a parameter of the request.
        let not_created = |path: PathBuf, source: io::Error| {
            let reason = format!("cannot create {}: {}", path.display(), errno_text(&source));
            report(&StartReport::Failed { reason })
        };
        let (mut dir_writer, listener) = match dir_writer {
            Ok(created) => created,
            Err(error) => return not_created(terms.keepers.path(), error),
        };
        if let Err(error) = dir_writer.claim(&job.id) {
            dir_writer.discard();
            return not_created(terms.keepers.path(), error);
        }
        // In this order: the next daemon finds the directory, or this one starts nothing.
        if is_daemon_gone() {
            dir_writer.discard();
            return Ok(());
        }
        let started = match engine.open_session() {
            Ok(session) => start(session, job).await,
            Err(error) => Err(error),
        };
        let (session, process, reader) = match started {
            Ok(started) => started,
            Err(error) => {
                dir_writer.discard();
                return report(&StartReport::of(error));
            }
        };
        let keeper = RunningKeeper { job, terms: &terms, dir_writer, process, stop_requested };
        if let Err(error) = keeper.publish() {
            session.close().await;
            let path = keeper.dir_writer.dir.path.clone();
            keeper.dir_writer.discard();
            return not_created(path, error);
        }
        keeper.run(reader, listener).await?;
        session.close().await;
        Ok(())
    }
}

/// Starts the process, with a reader from its first byte on.
async fn start(mut session: Session, job: &KeeperJob) -> Result<(Session, Process, LogReader), Error> {
    let starting = session.start(job.spec()?)?;
    let reader = starting.process().primary_reader(Cursor(0));
    let process = starting.running().await?;
    Ok((session, process, reader))
}

/// A keeper whose process runs.
struct RunningKeeper<'k> {
    job: &'k KeeperJob,
    terms: &'k KeeperTerms,
    dir_writer: KeeperDirWriter,
    process: Process,
    stop_requested: CancellationToken,
}

impl RunningKeeper<'_> {
    /// Publishes the directory and reports the start to the daemon.
    fn publish(&self) -> io::Result<()> {
        let description = self.process.description();
        let (pid, started_at_ms) = (self.process.pid().unwrap_or(0), to_ms(description.started_at));
        let record = ProcessRecord {
            by: self.job.by.clone(),
            face: self.job.face.clone(),
            name: description.name.clone(),
            argv: description.argv.clone(),
            cwd: description.cwd.display().to_string(),
            terminal: description.has_terminal,
            size: self.job.terminal,
            started_at_ms,
            pid,
            keeper_pid: std::process::id(),
            protocol: self.terms.protocol,
            boot_id: boot_id(),
        };
        self.dir_writer.publish(&record)?;
        // A daemon that has exited can find the process in the list.
        let _reported = report(&StartReport::Running { pid, started_at_ms });
        Ok(())
    }

    /// Writes the log and serves connections until the process has ended.
    async fn run(&self, reader: LogReader, listener: UnixListener) -> io::Result<()> {
        let terms = self.terms;
        let log = self.dir_writer.dir.path.join(LOG);
        let quota = Quota { keepers: terms.keepers.path(), bytes: terms.quota_bytes };
        let life = self.dir_writer.life.try_clone()?;
        let segments = SegmentWriter::new(log.clone(), life, terms.log_bytes, quota);
        let (written_sender, written) = watch::channel(Cursor(0));
        let state = Arc::new(ServerState {
            process: self.process.clone(),
            log,
            written,
            protocol: Version::NEWEST.common(terms.protocol).unwrap_or(Version::V1),
            viewers: Semaphore::new(MAX_VIEWERS),
            disk: Arc::new(Semaphore::new(DISK_READS)),
            input_keys: InputKeys::default(),
            terminal_size: watch::Sender::new(
                self.job.terminal.map(|(cols, rows)| TerminalSize { cols, rows }),
            ),
            stop: CancellationToken::new(),
        });
        let connections = Tasks::new();
        let accepting = OwnedTask::spawn(accept(listener, state.clone(), connections.clone()));
        let closed = tokio::select! {
            closed = log_writer::write_log(reader, segments, &written_sender) => closed,
            () = self.kill_on_request() => None,
        };
        if let Some(closed) = &closed {
            self.write_status(closed, *state.terminal_size.borrow());
        }
        // Viewers receive the end only now, so that the process is listed as ended after it.
        drop(written_sender);
        if let Some(closed) = &closed {
            self.record_end(closed).await;
        }
        tokio::select! {
            () = self.process.gone() => {}
            () = self.kill_on_request() => {}
        }
        state.stop.cancel();
        connections.close();
        // Slower viewers read the log from disk.
        let _drained = tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await;
        accepting.stop().await;
        self.dir_writer.remove_socket();
        Ok(())
    }

    /// Kills the tree when the keeper receives TERM or INT. Never returns.
    async fn kill_on_request(&self) {
        self.stop_requested.cancelled().await;
        // The log and the status show the result.
        let _ended = self.process.kill(Signal::TERM).await;
        std::future::pending::<()>().await;
    }

    fn write_status(&self, closed: &ProcessSummary, size: Option<TerminalSize>) {
        let status = EndRecord {
            closed: convert::summary_to_wire(closed),
            end: self.process.state().end.0,
            ended_at_ms: to_ms(SystemTime::now()),
            size: size.map(|size| (size.cols, size.rows)),
        };
        // The space was reserved at the start, so only a broken disk fails.
        if let Err(error) = self.dir_writer.write_status(&status) {
            tracing::debug!(%error, "cannot write the status of a detached process");
        }
    }

    /// Records the end in the audit, as the daemon does for its own processes, with the caller that started it.
    async fn record_end(&self, closed: &ProcessSummary) {
        let Some(path) = self.terms.audit.as_ref().map(RawBytes::path) else { return };
        let operation = if self.process.description().has_terminal { "pty.exit" } else { "exec.exit" };
        let record = AuditRecord {
            time: SystemTime::now(),
            caller: Arc::from(self.job.by.as_str()),
            address: None,
            client: Arc::from(""),
            face: "rexd",
            session: None,
            operation: operation.into(),
            details: vec![("process_id".into(), Detail::Text(self.job.id.clone()))],
            outcome: AuditOutcome::Done("ended".into()),
            exit: Some(closed.exit),
            duration: closed.duration,
            decision: None,
        };
        let write = move || match AuditFile::open(&path, false) {
            // Dropping the file writes the record.
            Ok(file) => file.record(record),
            Err(error) => tracing::debug!(%error, "cannot record the end of a detached process"),
        };
        // Fails only while the runtime shuts down.
        let _recorded = tokio::task::spawn_blocking(write).await;
    }
}

/// Accepts connections of this user, up to the limit.
async fn accept(listener: UnixListener, state: Arc<ServerState>, connections: Tasks) {
    let own = rustix::process::geteuid().as_raw();
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            // Out of descriptors: wait until some are closed.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let is_own = socket.peer_cred().is_ok_and(|peer| peer.uid() == own);
        if is_own && connections.len() < MAX_CONNECTIONS {
            connections.spawn(connection::serve(socket, state.clone()));
        }
    }
}

/// Ignores HUP; TERM and INT end the process and then the keeper.
fn install_signal_handlers() -> io::Result<(CancellationToken, Vec<OwnedTask<()>>)> {
    let (stop, mut tasks) = (CancellationToken::new(), Vec::new());
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut received = signal(kind)?;
        let stop = stop.clone();
        tasks.push(OwnedTask::spawn(async move {
            received.recv().await;
            stop.cancel();
        }));
    }
    for kind in [SignalKind::hangup(), SignalKind::from_raw(SIGXFSZ)] {
        // Installing a handler disables the default action.
        let _ignored = signal(kind)?;
    }
    Ok((stop, tasks))
}

/// Whether no process reads the report any more.
fn is_daemon_gone() -> bool {
    let stdout = rustix::stdio::stdout();
    let mut report = [PollFd::new(&stdout, PollFlags::empty())];
    poll(&mut report, Some(&Timespec::default())).is_ok() && report[0].revents().contains(PollFlags::ERR)
}

/// Sends the report to the daemon and detaches from its streams.
fn report(report: &StartReport) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut rest = line.as_slice();
    while !rest.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            // A daemon that has exited can find the process in the list.
            Err(_gone) => break,
        }
    }
    detach_standard_streams()
}
