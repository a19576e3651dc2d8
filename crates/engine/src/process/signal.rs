//! Signals, parsed from numbers and from names with or without `SIG`, in upper or lower case.

use std::fmt;

/// A signal of this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signal(i32);

/// The names, indexed by number; the same on x86_64 and aarch64.
const NAMES: [&str; 32] = [
    "", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];
const HIGHEST: i32 = 64;

impl Signal {
    /// Hang-up.
    pub const HUP: Signal = Signal(1);
    /// Interrupt, sent by Ctrl-C.
    pub const INT: Signal = Signal(2);
    /// Ends a process at once; cannot be caught.
    pub const KILL: Signal = Signal(9);
    /// Requests a process to end; can be caught.
    pub const TERM: Signal = Signal(15);
    /// Continues a stopped process, so that it receives other signals.
    pub const CONT: Signal = Signal(18);

    /// Parses `KILL`, `SIGKILL`, `kill` or `9`; `None` if there is no such signal.
    pub fn parse(text: &str) -> Option<Signal> {
        let text = text.trim();
        if let Ok(number) = text.parse::<i32>() {
            return Signal::from_number(number);
        }
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let number = match name {
            "" => return None,
            "POLL" => 29,
            "IOT" => 6,
            "CLD" => 17,
            _ => NAMES.iter().position(|known| *known == name)?,
        };
        Signal::from_number(i32::try_from(number).ok()?)
    }

    /// The signal with this number; `None` if there is none.
    pub fn from_number(number: i32) -> Option<Signal> {
        (1..=HIGHEST).contains(&number).then_some(Signal(number))
    }

    /// The number of the signal in the kernel.
    pub fn number(self) -> i32 {
        self.0
    }

    /// Whether this signal ends a whole process tree (TERM, KILL) instead of being sent to a process group.
    pub fn ends(self) -> bool {
        self == Signal::TERM || self == Signal::KILL
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match usize::try_from(self.0).ok().and_then(|number| NAMES.get(number)) {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_signal_is_parsed() {
        for text in ["KILL", "SIGKILL", "kill", "SigKill", " 9 ", "9"] {
            assert_eq!(Signal::parse(text), Some(Signal::KILL), "{text}");
        }
        assert_eq!(Signal::parse("WINCH").map(Signal::number), Some(28));
        assert_eq!(Signal::parse("40").map(|signal| signal.to_string()), Some("40".to_owned()));
    }

    #[test]
    fn an_unknown_signal_is_rejected() {
        for text in ["", "SIG", "0", "-9", "65", "BOGUS", "KILLALL", "99999999999"] {
            assert_eq!(Signal::parse(text), None, "{text}");
        }
    }
}
