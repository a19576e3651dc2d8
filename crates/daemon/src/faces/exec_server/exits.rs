//! Statuses: how the end of a process is told.

use engine::process::ExitStatus;

/// What a terminal's process that was killed ends with.
const KILLED_ON_TERMINAL: i32 = 1;
/// What is added to the number of a signal.
const SIGNALLED: i32 = 128;

/// The status of a process. One on pipes that was killed has that of its signal; of one on a terminal nobody learns
/// which signal it was.
pub(super) fn exit_code(exit: ExitStatus, has_terminal: bool) -> i32 {
    match exit {
        ExitStatus::Code(code) => code,
        ExitStatus::Signal(_) if has_terminal => KILLED_ON_TERMINAL,
        ExitStatus::Signal(signal) => SIGNALLED + signal.number(),
    }
}
