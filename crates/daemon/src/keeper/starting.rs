//! Starting a keeper: the job goes down one pipe, what came of it comes up another.

use std::io;
use std::os::fd::OwnedFd;

use engine::Error;
use engine::process::{ProcessId, ProcessSpec, start_apart};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;

use super::job::{Job, Report};
use super::settings::Settings;

/// A report larger than this is not one.
const LARGEST_REPORT: u64 = 1024 * 1024;

/// A keeper that waits for its job. Without one it ends by itself when this is dropped.
#[derive(Debug)]
pub(super) struct Waiting {
    job: pipe::Sender,
    report: pipe::Receiver,
}

impl Waiting {
    /// Executes a keeper.
    pub(super) async fn start(settings: &Settings) -> io::Result<Waiting> {
        let (job_end, job) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (report, report_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let null: OwnedFd = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        for end in [&job, &report] {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        let waiting = Waiting {
            job: pipe::Sender::from_owned_fd(job)?,
            report: pipe::Receiver::from_owned_fd(report)?,
        };
        let argv = [settings.program.display().to_string(), "keeper".to_owned()];
        // Nothing of this daemon's environment: the process gets its own with the job.
        start_apart(&argv, &[], [job_end, report_end, null]).await?;
        Ok(waiting)
    }

    /// Hands over the job and waits for what comes of it.
    pub(super) async fn take_up(mut self, job: &Job) -> io::Result<Report> {
        self.job.write_all(&serde_json::to_vec(job)?).await?;
        // Its end is the end of the job.
        drop(self.job);
        let mut text = Vec::new();
        self.report.take(LARGEST_REPORT).read_to_end(&mut text).await?;
        serde_json::from_slice(&text).map_err(io::Error::from)
    }
}

/// Has a keeper start the process; returns when it runs or could not be started.
pub(super) async fn start(
    waiting: Option<Waiting>,
    id: &ProcessId,
    by: &str,
    spec: &ProcessSpec,
    settings: &Settings,
) -> Result<Report, Error> {
    let job = Job::new(id, by, spec, settings);
    if let Some(spare) = waiting
        && let Ok(report) = spare.take_up(&job).await
    {
        return Ok(report);
    }
    let failed = |source| Error::Spawn { program: "rexd keeper".to_owned(), source };
    Waiting::start(settings).await.map_err(failed)?.take_up(&job).await.map_err(failed)
}
