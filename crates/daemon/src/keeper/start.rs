//! Starting a keeper: the job goes down one pipe, what came of it comes up another.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use engine::Error;
use engine::process::{ProcessId, ProcessSpec, spawn_session_leader};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;

use super::job::{KeeperJob, KeeperTerms, StartReport};
use super::settings::KeeperSettings;

/// A report larger than this is not one.
const LARGEST_REPORT: u64 = 1024 * 1024;

/// How long a start may take. Past it nobody knows what came of it; if it runs after all, the list has it.
const REPORT_WITHIN: Duration = Duration::from_secs(30);

/// A keeper that makes ready and waits for its job. Without one it ends by itself when this is dropped.
#[derive(Debug)]
pub(super) struct IdleKeeper {
    job: pipe::Sender,
    report: pipe::Receiver,
}

impl IdleKeeper {
    /// Executes a keeper.
    pub(super) async fn start(settings: &KeeperSettings) -> io::Result<IdleKeeper> {
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
        // Nothing of this daemon's environment: the process gets its own with the job.
        spawn_session_leader(&argv, &[], [job_end, report_end, null]).await?;
        let mut terms = serde_json::to_vec(&KeeperTerms::new(settings))?;
        terms.push(b'\n');
        waiting.job.write_all(&terms).await?;
        Ok(waiting)
    }

    /// Hands over the job. A keeper that is gone cannot take it, and has done nothing.
    async fn hand_over(mut self, job: &[u8]) -> io::Result<BusyKeeper> {
        self.job.write_all(job).await?;
        // The end of the pipe is the end of the job.
        drop(self.job);
        Ok(BusyKeeper { report: self.report })
    }
}

/// A keeper that has its job. If it says nothing about it, nobody knows how far it came: it is not done again.
struct BusyKeeper {
    report: pipe::Receiver,
}

impl BusyKeeper {
    async fn report(self) -> io::Result<StartReport> {
        let mut text = Vec::new();
        let reading = self.report.take(LARGEST_REPORT);
        tokio::pin!(reading);
        tokio::time::timeout(REPORT_WITHIN, reading.read_to_end(&mut text)).await??;
        serde_json::from_slice(&text).map_err(io::Error::from)
    }
}

/// Has a keeper start the process; returns when it runs or could not be started.
pub(super) async fn start(
    waiting: Option<IdleKeeper>,
    id: &ProcessId,
    by: &str,
    spec: &ProcessSpec,
    settings: &KeeperSettings,
) -> Result<StartReport, Error> {
    let failed = |source| Error::Spawn { program: "rexd keeper".to_owned(), source };
    let job = KeeperJob::new(id, by, spec);
    let job = serde_json::to_vec(&job).map_err(|error| failed(error.into()))?;
    let spare = match waiting {
        Some(spare) => spare.hand_over(&job).await.ok(),
        None => None,
    };
    let working = match spare {
        Some(working) => working,
        None => {
            let waiting = IdleKeeper::start(settings).await.map_err(failed)?;
            waiting.hand_over(&job).await.map_err(failed)?
        }
    };
    working.report().await.map_err(failed)
}
