//! The shell of a bash topic: requests and reports go over private pipes, and only its programs use the terminal.
//!
//! The shell reads each request as a line that evaluates the user's text, quoted as a whole, with the terminal as its
//! standard input, and then reports the status and the directory. An interrupt ends that line, so a second one reports if
//! the first did not. Nothing is typed into the terminal, and no text of the output is interpreted. Programs do not
//! inherit the pipes.

use std::time::Duration;

use engine::Error;
use engine::process::{Cursor, Item, LogReader, Process, SideChannel, SidePipes, Signal};
use tokio::time::{Instant, sleep_until, timeout};

use super::super::methods::command::{CommandOutput, TIMED_OUT};

/// How long a program may take to end after an interrupt, and again after it was killed.
const INTERRUPT_GRACE: Duration = Duration::from_secs(2);
/// How long the end of a shell may take that has closed its pipes.
const END_GRACE: Duration = Duration::from_secs(1);
/// Bytes of one read of the log.
const READ_BYTES: usize = 64 * 1024;
/// The descriptor of reports inside the shell. Below 10, so that the shell closes it in programs.
const REPORT_FD: u8 = 8;

/// A running shell of a topic.
#[derive(Debug)]
pub(super) struct Shell {
    process: Process,
    channel: SideChannel,
    reader: LogReader,
    /// The directory after the last command.
    pub(super) cwd: String,
    /// The number of requests so far; a report carries the number of its request.
    requests: u64,
    /// What the next request turns on again, because the report has turned it off.
    suspended: Option<SuspendedOptions>,
}

/// Options that write what the shell reads or runs (`set -v`, `set -x`), and the status that `$?` must have.
#[derive(Debug, PartialEq, Eq)]
struct SuspendedOptions {
    letters: &'static str,
    status: i32,
}

/// How a command in the shell ended.
#[derive(Debug)]
pub(super) struct ShellReply {
    pub(super) status: i32,
    pub(super) output: String,
    /// False if the shell has ended with it.
    pub(super) is_alive: bool,
}

/// The arguments that start the shell with these pipes.
pub(super) fn argv(pipes: &SidePipes) -> Vec<String> {
    let (reads, writes) = pipes.numbers();
    let start = format!(
        "PS1= PS2= exec /bin/bash --norc --noprofile --noediting -i 0<&{reads} {reads}<&- \
         {REPORT_FD}>&{writes} {writes}>&-"
    );
    ["/bin/bash", "--norc", "--noprofile", "-c", &start].map(str::to_owned).to_vec()
}

/// The first request: defines the report, which keeps `$?`, and turns off what is for people at a prompt.
///
/// A function of the user with the name `builtin` would replace what requests are made of, so the report removes it.
/// Options that would write the requests themselves are off between requests.
fn preamble() -> String {
    format!(
        "set +H; set +o history; unset PROMPT_COMMAND BASH_ENV TMOUT; __rexd_report() {{ __rexd_status=$?; \
         if [[ ${{__rexd_reported-}} != \"$1\" ]]; then \\unset -f builtin; \
         \\builtin printf '%s\\0%s\\0%s\\0%s\\0' \"$1\" \"$__rexd_status\" \"${{PWD-$(\\builtin pwd)}}\" \"$-\" >&{REPORT_FD}; \
         \\builtin set +vx; __rexd_reported=$1; fi; \\builtin return \"$__rexd_status\"; }}; \
         __rexd_resume() {{ \\builtin set \"$1\"; \\builtin return \"$2\"; }}; readonly -f __rexd_report __rexd_resume\n"
    )
}

/// One request: the text as one quoted word, so that no text can reach beyond it. Traps of the user see that requests
/// call functions, so the output of these calls is dropped; as the first part of a list, their status triggers none.
/// After a syntax error, bash recognizes the brace of the second line only behind an empty one.
fn request(number: u64, text: &str, suspended: Option<&SuspendedOptions>) -> String {
    let resume = suspended.map(|SuspendedOptions { letters, status }| {
        format!("{{ \\__rexd_resume -{letters} {status} && \\builtin :; }} >/dev/null 2>&1\n")
    });
    let quoted = format!("{}{text}", resume.unwrap_or_default()).replace('\'', "'\\''");
    let report = format!("{{ \\__rexd_report {number} && \\builtin :; }} >/dev/null 2>&1");
    format!("\\builtin eval '{quoted}' 0</dev/tty {REPORT_FD}>&-; {report}\n\n{report}\n")
}

/// The state of the shell after a command.
#[derive(Debug, PartialEq, Eq)]
struct ShellReport {
    status: i32,
    cwd: String,
    suspended: Option<SuspendedOptions>,
}

/// What a wait for a report ended with.
enum Report {
    Status(ShellReport),
    /// The shell has ended.
    Ended(i32),
    /// The shell has closed the pipe and may still run.
    Closed,
    Late,
}

impl Shell {
    /// A shell that was just started.
    pub(super) async fn new(
        (process, reader): (Process, LogReader),
        channel: SideChannel,
        cwd: String,
    ) -> Result<Shell, Error> {
        channel.write(preamble().as_bytes()).await.map_err(|_closed| Error::Gone)?;
        Ok(Shell { process, channel, reader, cwd, requests: 0, suspended: None })
    }

    /// Runs a text. After `limit` its foreground job is interrupted, then killed; the status is then 124.
    pub(super) async fn run(&mut self, text: &str, limit: Duration) -> ShellReply {
        self.process.set_reader_disconnected(false);
        let mut output = CommandOutput::default();
        self.requests += 1;
        let request = request(self.requests, text, self.suspended.as_ref());
        let mut reports = Vec::new();
        // A shell that does not read its request must not block the topic.
        let written = timeout(limit, self.channel.write(request.as_bytes())).await;
        let mut report = match written {
            Ok(Ok(())) => self.wait(&mut output, &mut reports, limit).await,
            Ok(Err(_closed)) => Report::Closed,
            Err(_late) => Report::Late,
        };
        let mut is_late = false;
        if matches!(report, Report::Late) {
            is_late = true;
            report = self.end_job(&mut output, &mut reports).await;
        }
        let (status, is_alive) = match report {
            Report::Status(report) => {
                self.cwd = report.cwd;
                self.suspended = report.suspended;
                (report.status, true)
            }
            Report::Ended(status) => (status, false),
            Report::Closed | Report::Late => (self.end(&mut output).await, false),
        };
        self.process.set_reader_disconnected(true);
        let status = if is_late { TIMED_OUT } else { status };
        ShellReply { status, output: output.into_terminal_text(), is_alive }
    }

    /// Interrupts the foreground job, then kills it and interrupts the shell itself.
    async fn end_job(&mut self, output: &mut CommandOutput, reports: &mut Vec<u8>) -> Report {
        // Fails only if the shell has ended, which the wait reports.
        let _sent = self.process.signal_foreground(Signal::INT).await;
        let report = self.wait(output, reports, INTERRUPT_GRACE).await;
        if !matches!(report, Report::Late) {
            return report;
        }
        let _sent = self.process.signal_foreground(Signal::KILL).await;
        let _sent = self.process.kill(Signal::INT).await;
        self.wait(output, reports, INTERRUPT_GRACE).await
    }

    async fn wait(&mut self, output: &mut CommandOutput, reports: &mut Vec<u8>, limit: Duration) -> Report {
        let until = Instant::now() + limit;
        loop {
            tokio::select! {
                biased;
                read = self.channel.read() => match read {
                    Ok(Some(bytes)) => {
                        reports.extend(bytes);
                        if let Some(report) = parse(reports, self.requests) {
                            return self.caught_up(output, report).await;
                        }
                    }
                    Ok(None) | Err(_) => return Report::Closed,
                },
                item = self.reader.next(READ_BYTES) => {
                    if let Some(status) = take(output, item) {
                        return Report::Ended(status);
                    }
                }
                () = sleep_until(until) => return Report::Late,
            }
        }
    }

    /// Reads the output that was written before the report.
    async fn caught_up(&mut self, output: &mut CommandOutput, report: ShellReport) -> Report {
        let end = self.process.catch_up().await.unwrap_or(Cursor(0));
        while self.reader.cursor() < end {
            let item = self.reader.next(READ_BYTES).await;
            if let Some(status) = take(output, item) {
                return Report::Ended(status);
            }
        }
        Report::Status(report)
    }

    /// Waits for the end of a shell that cannot be used any more, and ends it if it does not end itself.
    async fn end(&mut self, output: &mut CommandOutput) -> i32 {
        let until = Instant::now() + END_GRACE;
        let mut is_killed = false;
        loop {
            tokio::select! {
                item = self.reader.next(READ_BYTES) => {
                    if let Some(status) = take(output, item) {
                        return status;
                    }
                }
                () = sleep_until(until), if !is_killed => {
                    is_killed = true;
                    // It may have ended meanwhile.
                    let _killed = self.process.kill(Signal::KILL).await;
                }
            }
        }
    }

    /// Ends the shell with its jobs.
    pub(super) async fn kill(&self) {
        // It may have ended already.
        let _killed = self.process.kill(Signal::KILL).await;
    }

    /// Whether it has ended, by itself or because another face has killed it.
    pub(super) fn is_over(&self) -> bool {
        self.process.state().exited.is_some()
    }

    /// Its id in the engine.
    pub(super) fn id(&self) -> &engine::process::ProcessId {
        self.process.id()
    }
}

/// Keeps output; the status of the shell if it has ended. The status of `exit` is not reported, as the protocol has it.
fn take(output: &mut CommandOutput, item: Item) -> Option<i32> {
    match item {
        Item::Output { bytes, .. } => output.push(&bytes),
        Item::Lost { bytes, .. } => output.lost += bytes,
        Item::Exited { .. } => {}
        Item::Closed(exit) => {
            return Some(match exit.exit {
                engine::process::ExitStatus::Code(_) => 0,
                engine::process::ExitStatus::Signal(signal) => 128 + signal.number(),
            });
        }
        Item::Disconnected => return Some(0),
    }
    None
}

/// The report of a request, once it is complete: number, status, directory and options, each with a NUL behind it. A
/// request that was interrupted while it reported may have left another one.
fn parse(reports: &[u8], number: u64) -> Option<ShellReport> {
    let mut parts = reports.split(|byte| *byte == 0);
    loop {
        let (reported, status, cwd) = (parts.next()?, parts.next()?, parts.next()?);
        let options = parts.next()?;
        // What follows the last NUL is not complete.
        parts.clone().next()?;
        if reported != number.to_string().as_bytes() {
            continue;
        }
        let status = std::str::from_utf8(status).ok()?.parse().ok()?;
        let letters = match (options.contains(&b'v'), options.contains(&b'x')) {
            (true, true) => "vx",
            (true, false) => "v",
            (false, true) => "x",
            (false, false) => "",
        };
        let suspended = (!letters.is_empty()).then_some(SuspendedOptions { letters, status });
        return Some(ShellReport { status, cwd: String::from_utf8_lossy(cwd).into_owned(), suspended });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_complete_or_none() {
        let report = |letters| {
            let suspended = Some(letters).filter(|it: &&str| !it.is_empty());
            let suspended = suspended.map(|letters| SuspendedOptions { letters, status: 0 });
            Some(ShellReport { status: 0, cwd: "/tmp".to_owned(), suspended })
        };
        assert_eq!(parse(b"3\x000\0/tmp\0imB\0", 3), report(""));
        assert_eq!(parse(b"3\x000\0/tmp\0imxB\0", 3), report("x"));
        assert_eq!(parse(b"3\x000\0/tmp\0imvxB\0", 3), report("vx"));
        assert_eq!(parse(b"2\x007\0/old\0im\x003\x000\0/tmp\0im\0", 3), report(""), "a report that was left");
        assert_eq!(parse(b"3\x000\0/tmp\0im", 3), None);
        assert_eq!(parse(b"2\x000\0/tmp\0im\0", 3), None);
        assert_eq!(parse(b"3\0x\0/tmp\0\0", 3), None);
        assert_eq!(parse(b"", 3), None);
    }

    #[test]
    fn a_text_is_one_word_of_its_request() {
        let report = "{ \\__rexd_report 7 && \\builtin :; } >/dev/null 2>&1";
        assert_eq!(
            request(7, "echo 'a'\n; echo b", None),
            format!("\\builtin eval 'echo '\\''a'\\''\n; echo b' 0</dev/tty 8>&-; {report}\n\n{report}\n")
        );
        let suspended = SuspendedOptions { letters: "vx", status: 4 };
        let resumed = request(1, "true", Some(&suspended));
        assert!(resumed.starts_with("\\builtin eval '{ \\__rexd_resume -vx 4 && "), "{resumed}");
    }
}
