//! Starts a keeper: sends the job on one pipe and receives the report on another.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use engine::Error;
use engine::process::{ProcessId, ProcessSpec, spawn_session_leader};
use link::task::Tasks;
use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;

use super::job::{KeeperJob, KeeperTerms, StartReport};
use super::settings::KeeperSettings;

/// The maximal size of a report.
const MAX_REPORT_BYTES: u64 = 1024 * 1024;

/// The timeout of a start. A process that runs after it is in the list.
pub(super) const REPORT_TIMEOUT: Duration = Duration::from_secs(30);

/// A keeper without a job. It exits when this is dropped.
#[derive(Debug)]
pub(super) struct IdleKeeper {
    job: pipe::Sender,
    report: pipe::Receiver,
}

impl IdleKeeper {
    /// Executes a keeper program.
    pub(super) async fn start(settings: &KeeperSettings, tasks: &Tasks) -> io::Result<IdleKeeper> {
        let (job_end, job) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (report, report_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let null: OwnedFd = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        for end in [&job, &report] {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        let mut waiting = IdleKeeper {
            job: pipe::Sender::from_owned_fd(job)?,
            report: pipe::Receiver::from_owned_fd(report)?,
        };
        let argv = [settings.program.display().to_string(), "keeper".to_owned()];
        // An empty environment: the process gets its own from the job.
        spawn_session_leader(&argv, &[], [job_end, report_end, null], tasks).await?;
        let mut terms = serde_json::to_vec(&KeeperTerms::new(settings))?;
        terms.push(b'\n');
        waiting.job.write_all(&terms).await?;
        Ok(waiting)
    }

    /// Sends the job. If this fails, the keeper has exited and done nothing.
    async fn send_job(mut self, job: &[u8]) -> io::Result<pipe::Receiver> {
        self.job.write_all(job).await?;
        // The end of file ends the job.
        drop(self.job);
        Ok(self.report)
    }
}

/// Waits for the report. Without it, it is unknown whether the process runs, so the job is not repeated.
async fn read_report(pipe: pipe::Receiver) -> io::Result<StartReport> {
    let mut text = Vec::new();
    let mut reading = pipe.take(MAX_REPORT_BYTES);
    tokio::time::timeout(REPORT_TIMEOUT, reading.read_to_end(&mut text)).await??;
    serde_json::from_slice(&text).map_err(io::Error::from)
}

/// Starts a process under a keeper. Returns when it runs or failed to start.
pub(super) async fn start(
    waiting: Option<IdleKeeper>,
    id: &ProcessId,
    by: &str,
    spec: &ProcessSpec,
    (settings, tasks): (&KeeperSettings, &Tasks),
) -> Result<StartReport, Error> {
    let failed = |source| Error::Spawn { program: "rexd keeper".to_owned(), source };
    let job = KeeperJob::new(id, by, spec);
    let job = serde_json::to_vec(&job).map_err(|error| failed(error.into()))?;
    let spare = match waiting {
        Some(spare) => spare.send_job(&job).await.ok(),
        None => None,
    };
    let report = match spare {
        Some(report) => report,
        None => {
            let waiting = IdleKeeper::start(settings, tasks).await.map_err(failed)?;
            waiting.send_job(&job).await.map_err(failed)?
        }
    };
    read_report(report).await.map_err(failed)
}
