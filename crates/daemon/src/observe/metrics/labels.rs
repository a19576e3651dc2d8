//! Labels: the few words each dimension of a metric may take, so that no peer can make the series grow.

use engine::process::{ExitCause, Stream};
use wire::rexd::v1::METHODS;

/// A closed set of label values.
pub(super) trait Label: Copy + 'static {
    /// Every value, in the order of its place.
    const ALL: &'static [Self];
    /// The name of the label.
    const KEY: &'static str;

    /// The value as it is rendered.
    fn word(self) -> &'static str;

    /// Its place in [`Label::ALL`].
    fn place(self) -> usize;
}

macro_rules! label {
    ($(#[$about:meta])* $name:ident, $key:literal: $($(#[$what:meta])* $value:ident = $word:literal,)*) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$what])* $value,)*
        }

        impl $name {
            /// The value as it is rendered.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$value => $word,)*
                }
            }
        }

        impl Label for $name {
            const ALL: &'static [Self] = &[$($name::$value),*];
            const KEY: &'static str = $key;

            fn word(self) -> &'static str {
                $name::word(self)
            }

            fn place(self) -> usize {
                self as usize
            }
        }
    };
}

label! {
    /// What came of a request.
    RequestOutcome, "outcome":
    /// It was answered with a result.
    Ok = "ok",
    /// It was answered with an error.
    Error = "error",
    /// It was withdrawn, or its connection went away before the answer.
    Cancelled = "cancelled",
}

label! {
    /// What carries a connection.
    Transport, "transport":
    /// Standard input and output.
    Stdio = "stdio",
    /// A unix socket.
    Unix = "unix",
    /// Posted requests and streams of events.
    Http = "http",
    /// A WebSocket.
    Ws = "ws",
}

label! {
    /// Which way bytes went, seen from the daemon.
    Direction, "direction":
    /// From the peer.
    Received = "received",
    /// To the peer.
    Sent = "sent",
}

label! {
    /// Whether somebody listens to a session.
    SessionState, "state":
    /// A connection holds it.
    Attached = "attached",
    /// It waits to be resumed.
    Waiting = "waiting",
}

label! {
    /// Who owns a process.
    ProcessOwner, "kind":
    /// This daemon.
    Attached = "attached",
    /// A keeper.
    Detached = "detached",
}

label! {
    /// Why a process ended.
    EndCause, "cause":
    /// By itself, or by something outside.
    Itself = "itself",
    /// Somebody asked for its end.
    Killed = "killed",
    /// Its time was up.
    TimedOut = "timed_out",
    /// It wrote more than it may.
    OutputLimit = "output_limit",
    /// It used more memory than it may.
    MemoryLimit = "memory_limit",
}

label! {
    /// Where output came from.
    OutputStream, "stream":
    /// Standard output.
    Stdout = "stdout",
    /// Standard error.
    Stderr = "stderr",
    /// A terminal.
    Terminal = "terminal",
}

label! {
    /// Why a connection or a request was turned away.
    RefusalReason, "reason":
    /// It came without a token or certificate.
    Unauthenticated = "unauthenticated",
    /// Its token, certificate or user is not known, or no longer.
    Credentials = "credentials",
    /// Its caller may not do this.
    Scope = "scope",
    /// A page of another site asked.
    Origin = "origin",
    /// It was meant for another host.
    Host = "host",
    /// The handshake failed, or plain text came to a TLS port.
    Tls = "tls",
    /// There are too many connections.
    Connections = "connections",
    /// There are too many sessions, processes or requests under way.
    Busy = "busy",
    /// It was larger than allowed.
    TooLarge = "too_large",
    /// The peer took too long.
    TooSlow = "too_slow",
    /// It was not understood.
    Malformed = "malformed",
    /// A rule of the operator forbids it.
    Policy = "policy",
}

impl From<ExitCause> for EndCause {
    fn from(cause: ExitCause) -> EndCause {
        match cause {
            ExitCause::Itself => EndCause::Itself,
            ExitCause::Killed => EndCause::Killed,
            ExitCause::TimedOut => EndCause::TimedOut,
            ExitCause::OutputLimit => EndCause::OutputLimit,
            ExitCause::MemoryLimit => EndCause::MemoryLimit,
        }
    }
}

impl From<Stream> for OutputStream {
    fn from(stream: Stream) -> OutputStream {
        match stream {
            Stream::Stdout => OutputStream::Stdout,
            Stream::Stderr => OutputStream::Stderr,
            Stream::Terminal => OutputStream::Terminal,
        }
    }
}

/// How many values the `method` label takes: every method there is, and [`OTHER`].
pub(super) const METHOD_COUNT: usize = METHODS.len() + 1;

/// The method of whatever is no method.
pub(super) const OTHER: &str = "other";

/// The place of a method; everything unknown shares the last one.
pub(super) fn method_place(name: &str) -> usize {
    METHODS.iter().position(|method| method.name == name).unwrap_or(METHODS.len())
}

/// The label value of a place.
pub(super) fn method_word(place: usize) -> &'static str {
    METHODS.get(place).map_or(OTHER, |method| method.name)
}
