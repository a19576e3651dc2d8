//! The values of each label. They are closed sets, so that no peer can add a series.

use engine::process::{ExitCause, Stream};

/// A closed set of label values.
pub trait Label: Copy + PartialEq + std::fmt::Debug + 'static {
    /// Every value.
    const ALL: &'static [Self];
    /// The name of the label.
    const KEY: &'static str;

    /// The value in the rendered page.
    fn word(self) -> &'static str;

    /// Its index in [`Label::ALL`].
    fn index(self) -> usize {
        Self::ALL.iter().position(|value| *value == self).unwrap_or_default()
    }
}

macro_rules! label {
    ($(#[$about:meta])* $name:ident, $key:literal: $($(#[$what:meta])* $value:ident = $word:literal,)*) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$what])* $value,)*
        }

        label!(impl $name, $key: $($value = $word,)*);
    };
    (impl $name:ident, $key:literal: $($value:ident = $word:literal,)*) => {
        impl Label for $name {
            const ALL: &'static [Self] = &[$($name::$value),*];
            const KEY: &'static str = $key;

            fn word(self) -> &'static str {
                match self {
                    $($name::$value => $word,)*
                }
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
    impl ExitCause, "cause":
    Itself = "itself",
    Killed = "killed",
    TimedOut = "timed_out",
    OutputLimit = "output_limit",
    MemoryLimit = "memory_limit",
}

label! {
    impl Stream, "stream":
    Stdout = "stdout",
    Stderr = "stderr",
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
