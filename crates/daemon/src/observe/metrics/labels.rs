//! The values of each label. They are closed sets, so that no peer can add a series.

use engine::process::{ExitCause, Stream};

/// A closed set of label values.
pub(super) trait Label: Copy + 'static {
    /// Every value, in the order of [`Label::index`].
    const ALL: &'static [Self];
    /// The name of the label.
    const KEY: &'static str;

    /// The value in the rendered page.
    fn word(self) -> &'static str;

    /// Its index in [`Label::ALL`].
    fn index(self) -> usize;
}

macro_rules! label {
    ($(#[$about:meta])* $name:ident, $key:literal: $($(#[$what:meta])* $value:ident = $word:literal,)*) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$what])* $value,)*
        }

        impl $name {
            /// The value in the rendered page.
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

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

label! {
    /// The outcome of a request.
    RequestOutcome, "outcome":
    /// It was answered with a result.
    Ok = "ok",
    /// It was answered with an error.
    Error = "error",
    /// It was cancelled, or its connection ended before the response.
    Cancelled = "cancelled",
}

label! {
    /// The transport of a connection.
    Transport, "transport":
    /// Standard input and output.
    Stdio = "stdio",
    /// A unix socket.
    Unix = "unix",
    /// HTTP requests and server-sent events.
    Http = "http",
    /// A WebSocket.
    Ws = "ws",
}

label! {
    /// The direction of bytes, seen from the daemon.
    Direction, "direction":
    /// From the peer.
    Received = "received",
    /// To the peer.
    Sent = "sent",
}

label! {
    /// Whether a session has a connection.
    SessionState, "state":
    /// It is attached to a connection.
    Attached = "attached",
    /// It waits to be resumed.
    Waiting = "waiting",
}

label! {
    /// The owner of a process.
    ProcessOwner, "kind":
    /// This daemon.
    Attached = "attached",
    /// A keeper.
    Detached = "detached",
}

label! {
    /// The cause of a process's end.
    EndCause, "cause":
    /// It exited, or another program killed it.
    Itself = "itself",
    /// A client killed it.
    Killed = "killed",
    /// Its timeout expired.
    TimedOut = "timed_out",
    /// It exceeded its output limit.
    OutputLimit = "output_limit",
    /// It exceeded its memory limit.
    MemoryLimit = "memory_limit",
}

label! {
    /// The stream of some output.
    OutputStream, "stream":
    /// Standard output.
    Stdout = "stdout",
    /// Standard error.
    Stderr = "stderr",
    /// A terminal.
    Terminal = "terminal",
}

label! {
    /// Why a connection or a request was refused.
    RefusalReason, "reason":
    /// It has neither a token nor a certificate.
    Unauthenticated = "unauthenticated",
    /// Its token, certificate or user is unknown or revoked.
    Credentials = "credentials",
    /// The caller lacks the required scope.
    Scope = "scope",
    /// Its `Origin` is another site.
    Origin = "origin",
    /// Its `Host` is not a name of this daemon.
    Host = "host",
    /// The TLS handshake failed, or the peer sent plain text to a TLS port.
    Tls = "tls",
    /// The connection limit is reached.
    Connections = "connections",
    /// The limit of sessions, processes or pending requests is reached.
    Busy = "busy",
    /// It exceeds the size limit.
    TooLarge = "too_large",
    /// The peer missed a deadline.
    TooSlow = "too_slow",
    /// It could not be parsed.
    Malformed = "malformed",
    /// A policy rule forbids it.
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

/// The `method` label of a request that names no method of its face.
pub const OTHER_METHOD: &str = "other";

/// The methods of one face: the values that its `method` label can take, besides [`OTHER_METHOD`].
#[derive(Debug, Clone)]
pub struct FaceMethods {
    pub(super) face: &'static str,
    pub(super) methods: Vec<&'static str>,
}

impl FaceMethods {
    /// A face with the names in its method table.
    pub fn new(face: &'static str, methods: impl IntoIterator<Item = &'static str>) -> FaceMethods {
        FaceMethods { face, methods: methods.into_iter().collect() }
    }
}
