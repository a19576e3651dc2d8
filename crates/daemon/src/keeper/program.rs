//! `rexd keeper`: one engine, one process, one log, one socket, until nothing is left of the process.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use engine::audit::{AuditOutcome, AuditRecord, AuditSink as _, Detail};
use engine::process::{Cursor, LogReader, Process, ProcessSummary, Signal};
use engine::{Engine, EngineSettings, Error, Session};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::keeper::Version;

use super::connection::{self, ServerState};
use super::convert;
use super::dir::LOG;
use super::dir_writer::KeeperDirWriter;
use super::job::{KeeperJob, KeeperTerms, StartReport};
use super::log_writer;
use super::quota::Quota;
use super::record::{EndRecord, ProcessRecord, boot_id, to_ms};
use super::segments::Segments;
use crate::core::sandbox::remove_temp_dir;
use crate::core::state::detach_standard_streams;
use crate::observe::audit::AuditFile;

/// A job larger than this is refused: its environment and input are bounded long before.
const LARGEST_JOB: u64 = 64 * 1024 * 1024;
/// Connections served at the same time; the next one is closed at once.
const MAX_CONNECTIONS: usize = 128;
/// Of these, those that watch.
const MAX_VIEWERS: usize = 32;
/// How long viewers may take to hear the end. Who is later reads it from disk.
const LINGER: Duration = Duration::from_secs(2);
/// Viewers that read from disk at the same time; the next one waits for its turn.
const DISK_READS: usize = 2;
/// Threads that may wait: for viewers on disk, for the scribe, and for looks at `/proc`. Made when they are needed.
const BLOCKING_THREADS: usize = DISK_READS + 3;
/// The kernel sends it when a file may not grow; the write then also fails, which is enough.
const SIGXFSZ: i32 = 25;

/// Makes ready, reads the job from standard input, runs it, and returns when nothing is left to keep.
pub fn main() -> io::Result<u8> {
    // Without a name of its own it would be listed as `exe`.
    let _named = rustix::thread::set_name(c"rexd-keeper");
    let mut input = BufReader::new(io::stdin().lock().take(LARGEST_JOB));
    let mut text = Vec::new();
    input.read_until(b'\n', &mut text)?;
    // A starter that went away before it could say anything.
    let Ok(terms) = serde_json::from_slice::<KeeperTerms>(&text) else { return Ok(0) };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_stack_size(256 * 1024)
        .build()?;
    runtime.block_on(async {
        let ready = PreparedKeeper::make(terms);
        text.clear();
        // Nothing else happens in this program until there is a job.
        input.read_to_end(&mut text)?;
        let job = serde_json::from_slice(&text);
        drop(text);
        match job {
            Ok(job) => ready.keep(job).await,
            // Not needed: the daemon it was a spare of has ended.
            Err(_none) => {
                ready.not_needed();
                Ok(())
            }
        }
    })?;
    runtime.shutdown_background();
    Ok(0)
}

/// Everything that can be done before there is a job.
struct PreparedKeeper {
    terms: KeeperTerms,
    dir_writer: io::Result<(KeeperDirWriter, UnixListener)>,
    engine: Engine,
}

impl PreparedKeeper {
    fn make(terms: KeeperTerms) -> PreparedKeeper {
        let settings = EngineSettings {
            process_limits: terms.bounds(),
            containment: terms.containment(),
            max_sessions: 1,
            sandbox: terms.sandbox(),
        };
        let engine = Engine::start(settings);
        // Opens the cgroups, or finds that there are none.
        engine.uses_cgroups();
        let dir_writer = KeeperDirWriter::make(&terms.keepers()).and_then(|dir_writer| {
            let listener = UnixListener::from_std(dir_writer.listen()?)?;
            Ok((dir_writer, listener))
        });
        PreparedKeeper { terms, dir_writer, engine }
    }

    fn not_needed(self) {
        if let Ok((dir_writer, _)) = self.dir_writer {
            dir_writer.never_ran();
        }
    }

    async fn keep(self, job: KeeperJob) -> io::Result<()> {
        let PreparedKeeper { terms, dir_writer, engine } = self;
        let asked_to_end = mind_signals()?;
        let (dir_writer, listener) = match dir_writer {
            Ok(dir_writer) => dir_writer,
            Err(error) => {
                remove_job_temp_dir(&job);
                return report(&StartReport::of_io(&terms.keepers(), &error));
            }
        };
        let started = match engine.open_session() {
            Ok(session) => start(session, &job).await,
            Err(error) => Err(error),
        };
        let (session, process, reader) = match started {
            Ok(started) => started,
            Err(error) => {
                remove_job_temp_dir(&job);
                dir_writer.never_ran();
                return report(&StartReport::of(&error));
            }
        };
        let mut kept =
            RunningKeeper { id: job.id.clone(), by: job.by.clone(), dir_writer, process, asked_to_end };
        if let Err(error) = kept.announce(&job, &terms) {
            let told = StartReport::of_io(&kept.dir_writer.dir().path, &error);
            session.close().await;
            remove_job_temp_dir(&job);
            kept.dir_writer.never_ran();
            return report(&told);
        }
        kept.run(&terms, reader, listener).await?;
        session.close().await;
        remove_job_temp_dir(&job);
        Ok(())
    }
}

fn remove_job_temp_dir(job: &KeeperJob) {
    if let Some(temp) = job.temp() {
        remove_temp_dir(&temp);
    }
}

/// Starts the process, with a reader that misses nothing of it.
async fn start(mut session: Session, job: &KeeperJob) -> Result<(Session, Process, LogReader), Error> {
    let starting = session.start(job.spec()?)?;
    let reader = starting.process().primary_reader(Cursor(0));
    let process = starting.running().await?;
    Ok((session, process, reader))
}

struct RunningKeeper {
    /// The name of the process, for everybody else.
    id: String,
    /// Who asked for it.
    by: String,
    dir_writer: KeeperDirWriter,
    process: Process,
    asked_to_end: CancellationToken,
}

impl RunningKeeper {
    /// Makes the process known and tells the starter.
    fn announce(&mut self, job: &KeeperJob, terms: &KeeperTerms) -> io::Result<()> {
        let description = self.process.description();
        let (pid, started_at_ms) = (self.process.pid().unwrap_or(0), to_ms(description.started_at));
        let record = ProcessRecord {
            by: job.by.clone(),
            face: job.face.clone(),
            argv: description.argv.clone(),
            cwd: description.cwd.display().to_string(),
            terminal: description.has_terminal,
            started_at_ms,
            pid,
            keeper_pid: std::process::id(),
            protocol: terms.protocol,
            boot_id: boot_id(),
        };
        self.dir_writer.announce(&job.id, &record)?;
        // A starter that has gone can find the process in the list.
        let _told = report(&StartReport::Running { pid, started_at_ms });
        Ok(())
    }

    /// Writes down, serves, and sees the process through to its end.
    async fn run(&self, terms: &KeeperTerms, reader: LogReader, listener: UnixListener) -> io::Result<()> {
        let log = self.dir_writer.dir().path.join(LOG);
        let quota = Quota { keepers: terms.keepers(), bytes: terms.quota_bytes };
        let segments = Segments::new(log.clone(), self.dir_writer.life()?, terms.log_bytes, quota);
        let (written_sender, written) = watch::channel(Cursor(0));
        let served = Arc::new(ServerState {
            process: self.process.clone(),
            log,
            written,
            protocol: Version::NEWEST.common(terms.protocol).unwrap_or(Version::V1),
            viewers: Semaphore::new(MAX_VIEWERS),
            disk: Arc::new(Semaphore::new(DISK_READS)),
            ending: CancellationToken::new(),
        });
        let connections = TaskTracker::new();
        let accepting = tokio::spawn(accept(listener, served.clone(), connections.clone()));
        let closed = tokio::select! {
            closed = log_writer::write_log(reader, segments, &written_sender) => closed,
            () = self.end_when_asked() => None,
        };
        if let Some(closed) = closed {
            self.write_status(&closed).await;
            self.record_end(terms, &closed).await;
        }
        tokio::select! {
            () = self.process.gone() => {}
            () = self.end_when_asked() => {}
        }
        served.ending.cancel();
        connections.close();
        // Whoever has not heard the end by then finds it on disk.
        let _served = tokio::time::timeout(LINGER, connections.wait()).await;
        accepting.abort();
        self.dir_writer.stop_listening();
        Ok(())
    }

    /// Ends the tree if this program is asked to end; goes on until it has ended.
    async fn end_when_asked(&self) {
        self.asked_to_end.cancelled().await;
        // What comes of it is what the log and the status say.
        let _ended = self.process.kill(Signal::TERM).await;
        std::future::pending::<()>().await;
    }

    async fn write_status(&self, closed: &ProcessSummary) {
        let status = EndRecord {
            closed: convert::closed_told(closed),
            end: self.process.state().end.0,
            ended_at_ms: to_ms(SystemTime::now()),
        };
        // Into room that was taken at the start: only a broken disk refuses it, and then nothing can be told there.
        if let Err(error) = self.dir_writer.close(&status) {
            tracing::debug!(%error, "cannot write the status of a kept process");
        }
    }
}

impl RunningKeeper {
    /// Records the end in the audit, as the daemon does for its own processes. Whoever started it is named.
    async fn record_end(&self, terms: &KeeperTerms, closed: &ProcessSummary) {
        let Some(path) = terms.audit() else { return };
        let operation = if self.process.description().has_terminal { "pty.exit" } else { "exec.exit" };
        let record = AuditRecord {
            time: SystemTime::now(),
            caller: Arc::from(self.by.as_str()),
            address: None,
            client: Arc::from(""),
            face: crate::faces::rexd::FACE,
            session: None,
            operation: operation.into(),
            details: vec![("process_id".into(), Detail::Text(self.id.clone()))],
            outcome: AuditOutcome::Done("ended".into()),
            exit: Some(closed.exit),
            duration: closed.duration,
            decision: None,
        };
        let write = move || match AuditFile::open(&path, false) {
            Ok(file) => {
                file.record(record);
                file.close();
            }
            Err(error) => tracing::debug!(%error, "the end of a kept process is not recorded"),
        };
        // Only a runtime that shuts down does not run it.
        let _recorded = tokio::task::spawn_blocking(write).await;
    }
}

/// Takes connections of this user, as many as there may be.
async fn accept(listener: UnixListener, served: Arc<ServerState>, connections: TaskTracker) {
    let own = rustix::process::geteuid().as_raw();
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            // Out of descriptors: those that are open will be closed some time.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let is_own = socket.peer_cred().is_ok_and(|peer| peer.uid() == own);
        if is_own && connections.len() < MAX_CONNECTIONS {
            connections.spawn(connection::serve(socket, served.clone()));
        }
    }
}

/// HUP is not for us. TERM and INT end the process, and with it the keeper.
fn mind_signals() -> io::Result<CancellationToken> {
    let asked = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut received = signal(kind)?;
        let asked = asked.clone();
        // Lives as long as the runtime.
        tokio::spawn(async move {
            received.recv().await;
            asked.cancel();
        });
    }
    for kind in [SignalKind::hangup(), SignalKind::from_raw(SIGXFSZ)] {
        // Once there is a handler, the default action is off for good.
        let _ignored = signal(kind)?;
    }
    Ok(asked)
}

/// Tells the starter what came of the job, and lets go of it.
fn report(report: &StartReport) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut rest = line.as_slice();
    while !rest.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            // A starter that went away can find the process in the list.
            Err(_gone) => break,
        }
    }
    detach_standard_streams()
}
