//! `rexd keeper`: one engine, one process, one log, one socket, until nothing is left of the process.

use std::io::{self, Read as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use engine::process::{Closed, Cursor, LogReader, Process, Signal};
use engine::{Engine, Error, Session, Settings};
use rustix::fs::{Mode, OFlags};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::keeper::Version;

use super::connection::{self, Served};
use super::convert;
use super::folder::LOG;
use super::home::Home;
use super::job::{Job, Report};
use super::quota::Quota;
use super::record::{Record, Status, boot_id, to_ms};
use super::scribe;
use super::segments::Segments;

/// A job larger than this is refused: its environment and input are bounded long before.
const LARGEST_JOB: u64 = 64 * 1024 * 1024;
/// Connections served at the same time; the next one is closed at once.
const MAX_CONNECTIONS: usize = 64;
/// Of these, those that watch.
const MAX_VIEWERS: usize = 32;
/// How long viewers may take to hear the end. Who is later reads it from disk.
const LINGER: Duration = Duration::from_secs(2);
/// Threads for the disk: one for the scribe, the rest for viewers of old output and for looks at `/proc`.
const BLOCKING_THREADS: usize = 4;
/// The kernel sends it when a file may not grow; the write then also fails, which is enough.
const SIGXFSZ: i32 = 25;

/// Reads the job from standard input, runs it, and returns when nothing is left to keep.
pub fn main() -> io::Result<u8> {
    // Without a name of its own it would be listed as `exe`.
    let _named = rustix::thread::set_name(c"rexd-keeper");
    let mut text = Vec::new();
    io::stdin().lock().take(LARGEST_JOB).read_to_end(&mut text)?;
    // A starter that went away, or a spare that is not needed: nothing to do.
    let Ok(job) = serde_json::from_slice::<Job>(&text) else { return Ok(0) };
    drop(text);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_stack_size(256 * 1024)
        .build()?;
    runtime.block_on(keep(job))?;
    runtime.shutdown_background();
    Ok(0)
}

async fn keep(job: Job) -> io::Result<()> {
    let asked_to_end = mind_signals()?;
    let home = match Home::make(&job.keepers(), &job.id) {
        Ok(home) => home,
        Err(error) => return report(&Report::of_io(&job.keepers(), &error)),
    };
    let settings = Settings { bounds: job.bounds(), containment: job.containment(), max_sessions: 1 };
    let engine = Engine::start(settings);
    let started = match engine.open_session() {
        Ok(session) => start(session, &job).await,
        Err(error) => Err(error),
    };
    let (session, process, reader) = match started {
        Ok(started) => started,
        Err(error) => {
            home.never_ran();
            return report(&Report::of(&error));
        }
    };
    let mut kept = Kept { home, process, asked_to_end };
    let listener = match kept.announce(&job) {
        Ok(listener) => listener,
        Err(error) => {
            let told = Report::of_io(&kept.home.folder().path, &error);
            session.close().await;
            kept.home.never_ran();
            return report(&told);
        }
    };
    kept.run(&job, reader, listener).await?;
    session.close().await;
    Ok(())
}

/// Starts the process, with a reader that misses nothing of it.
async fn start(mut session: Session, job: &Job) -> Result<(Session, Process, LogReader), Error> {
    let starting = session.start(job.spec()?)?;
    let reader = starting.process().primary_reader(Cursor(0));
    let process = starting.running().await?;
    Ok((session, process, reader))
}

struct Kept {
    home: Home,
    process: Process,
    asked_to_end: CancellationToken,
}

impl Kept {
    /// Makes the process known and tells the starter.
    fn announce(&mut self, job: &Job) -> io::Result<UnixListener> {
        let description = self.process.description();
        let (pid, started_at_ms) = (self.process.pid().unwrap_or(0), to_ms(description.started_at));
        let listener = UnixListener::from_std(self.home.listen()?)?;
        self.home.announce(&Record {
            by: job.by.clone(),
            face: job.face.clone(),
            argv: description.argv.clone(),
            cwd: description.cwd.display().to_string(),
            terminal: description.has_terminal,
            started_at_ms,
            pid,
            keeper_pid: std::process::id(),
            protocol: job.protocol,
            boot_id: boot_id(),
        })?;
        // A starter that has gone can find the process in the list.
        let _told = report(&Report::Running { pid, started_at_ms });
        Ok(listener)
    }

    /// Writes down, serves, and sees the process through to its end.
    async fn run(&self, job: &Job, reader: LogReader, listener: UnixListener) -> io::Result<()> {
        let log = self.home.folder().path.join(LOG);
        let quota = Quota { keepers: job.keepers(), bytes: job.quota_bytes };
        let segments = Segments::new(log.clone(), self.home.life()?, job.log_bytes, quota);
        let (written_sender, written) = watch::channel(Cursor(0));
        let served = Arc::new(Served {
            process: self.process.clone(),
            log,
            written,
            protocol: Version::NEWEST.common(job.protocol).unwrap_or(Version::V1),
            viewers: Semaphore::new(MAX_VIEWERS),
            ending: CancellationToken::new(),
        });
        let connections = TaskTracker::new();
        let accepting = tokio::spawn(accept(listener, served.clone(), connections.clone()));
        let closed = tokio::select! {
            closed = scribe::write_down(reader, segments, &written_sender) => closed,
            () = self.end_when_asked() => None,
        };
        if let Some(closed) = closed {
            self.write_status(&closed).await;
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
        self.home.stop_listening();
        Ok(())
    }

    /// Ends the tree if this program is asked to end; goes on until it has ended.
    async fn end_when_asked(&self) {
        self.asked_to_end.cancelled().await;
        // What comes of it is what the log and the status say.
        let _ended = self.process.kill(Signal::TERM).await;
        std::future::pending::<()>().await;
    }

    async fn write_status(&self, closed: &Closed) {
        let status = Status {
            closed: convert::closed_told(closed),
            end: self.process.facts().end.0,
            ended_at_ms: to_ms(SystemTime::now()),
        };
        // Into room that was taken at the start: only a broken disk refuses it, and then nothing can be told there.
        if let Err(error) = self.home.close(&status) {
            tracing::debug!(%error, "cannot write the status of a kept process");
        }
    }
}

/// Takes connections of this user, as many as there may be.
async fn accept(listener: UnixListener, served: Arc<Served>, connections: TaskTracker) {
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
fn report(report: &Report) -> io::Result<()> {
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
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
