//! Detects failures that the sandbox caused, from the last error output of a process.
//!
//! The kernel does not report refused accesses. A denial is reported if the error output names a refused access and the
//! confinement refuses that access too.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::confinement::Confinement;
use super::{Denial, DenialKind};
use crate::files::{Access, clean};
use crate::process::{ExitStatus, Stream};

/// Limit on the stored error output of a confined process; beyond it the oldest bytes are dropped.
const TAIL_BYTES: usize = 4 * 1024;

/// Error messages of the C library in lower case, and whether they are about the network.
const REFUSALS: [(&str, bool); 8] = [
    ("permission denied", false),
    ("operation not permitted", false),
    ("read-only file system", false),
    ("eacces", false),
    ("eperm", false),
    ("erofs", false),
    ("network is unreachable", true),
    ("name resolution", true),
];
/// Words in lower case that indicate a refused network access.
const NETWORK_WORDS: [&str; 14] = [
    "socket",
    "connect",
    "resolve host",
    "resolve",
    "getaddrinfo",
    "network",
    "listen ",
    "bind",
    "port ",
    "dns",
    "http",
    "tcp",
    "udp",
    "ping",
];
/// Words in lower case that indicate a refused read access.
const READ_WORDS: [&str; 7] =
    ["cannot open", "can't open", "cannot read", "cannot access", "reading", "scandir", "cat: "];

/// Observes the error output of a confined process.
#[derive(Debug)]
pub(crate) struct DenialDetector {
    confinement: Arc<Confinement>,
    cwd: PathBuf,
    tail: Vec<u8>,
}

impl DenialDetector {
    pub(crate) fn new(confinement: Arc<Confinement>, cwd: PathBuf) -> DenialDetector {
        DenialDetector { confinement, cwd, tail: Vec::new() }
    }

    /// Stores the end of the error output.
    pub(crate) fn observe(&mut self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Stdout {
            return;
        }
        let new = bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or(bytes);
        let over = (self.tail.len() + new.len()).saturating_sub(TAIL_BYTES);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend_from_slice(new);
    }

    /// The refused access, if it explains this exit.
    pub(crate) fn denial(&self, exit: ExitStatus) -> Option<Denial> {
        match exit {
            ExitStatus::Code(0) => None,
            ExitStatus::Signal(signal) if signal.number() == libc::SIGSYS => {
                Some(Denial { path: None, kind: DenialKind::Call })
            }
            ExitStatus::Code(_) | ExitStatus::Signal(_) => {
                let text = String::from_utf8_lossy(&self.tail);
                text.lines().rev().find_map(|line| find_denial(line, &self.cwd, &self.confinement))
            }
        }
    }
}

/// The refused access that one line names, if this confinement refuses it.
fn find_denial(line: &str, cwd: &Path, confinement: &Confinement) -> Option<Denial> {
    let lower = line.to_lowercase();
    let (_, is_network) = REFUSALS
        .iter()
        .filter(|(words, _)| lower.contains(words))
        .max_by_key(|(_, is_network)| *is_network)?;
    let is_read = READ_WORDS.iter().any(|word| lower.contains(word));
    for path in paths(line).map(|path| clean(&cwd.join(path))) {
        // Most messages do not name the access. Reading is usually allowed, so a path that cannot be read was refused.
        let accesses = [(Access::Read, DenialKind::Read), (Access::Write, DenialKind::Write)];
        let refused = accesses.into_iter().find(|(access, _)| !confinement.permits(&path, *access));
        match refused {
            Some((_, DenialKind::Write)) if is_read => {}
            Some((_, kind)) => return Some(Denial { path: Some(path), kind }),
            None => {}
        }
    }
    let is_about_network = *is_network || NETWORK_WORDS.iter().any(|word| lower.contains(word));
    (is_about_network && confinement.restricts_network())
        .then_some(Denial { path: None, kind: DenialKind::Network })
}

/// All texts in a line that may be paths: quoted text, text between colons, and words with a slash.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let quoted = ['\'', '"', '`'].into_iter().flat_map(move |quote| quoted(line, quote));
    let curly = line.split('\u{2018}').skip(1).filter_map(|rest| rest.split('\u{2019}').next());
    let words = line.split(char::is_whitespace).map(strip);
    let slashed = words.filter(|word| word.contains('/') && !word.contains("://"));
    // The part before the error message: `sh: 1: cannot create name`, `touch: name`.
    let parts: Vec<&str> = line.split(": ").collect();
    let refusal = parts.iter().position(|part| {
        let part = part.to_lowercase();
        REFUSALS.iter().any(|(words, _)| part.starts_with(words))
    });
    let named = refusal.and_then(|index| index.checked_sub(1)).filter(|index| *index > 0);
    let last = named.and_then(|index| parts.get(index).copied());
    let last = last.map(|part| part.rsplit(' ').next().unwrap_or(part));
    quoted.chain(curly).chain(slashed).chain(last).filter(|path| is_path(path))
}

/// Texts between two of these quotes; a quote inside a word is an apostrophe.
fn quoted(line: &str, quote: char) -> impl Iterator<Item = &str> {
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let opens = move |at: usize| !is_letter(line.get(..at).and_then(|before| before.chars().next_back()));
    let opening = line.match_indices(quote).filter(move |(at, _)| opens(*at));
    opening.filter_map(move |(at, mark)| line.get(at + mark.len()..)?.split(quote).next())
}

/// A word without punctuation around it.
fn strip(word: &str) -> &str {
    word.trim_matches([':', ',', '(', ')', '[', ']']).trim_end_matches('.')
}

/// Whether a word can be a path: programs quote other texts too.
fn is_path(word: &str) -> bool {
    !word.is_empty()
        && word.len() <= 4096
        && !word.contains("://")
        && !word.starts_with('-')
        && !word.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Network, Profile, ProtectedPaths};

    fn confinement(network: Network) -> Confinement {
        let own = ProtectedPaths { protect: Vec::new(), hide: vec!["/state".into()], expose: Vec::new() };
        let mut profile = Profile::workspace_write(&["/work".into()], None, &own);
        profile.network = network;
        Confinement::new([Arc::new(profile)])
    }

    fn denial(line: &str) -> Option<(Option<String>, DenialKind)> {
        let path = |denied: &Denial| denied.path.as_ref().map(|path| path.display().to_string());
        find_denial(line, Path::new("/work/src"), &confinement(Network::Off))
            .map(|denied| (path(&denied), denied.kind))
    }

    #[test]
    fn usual_messages_name_the_path() {
        for (line, path, what) in [
            ("sh: 1: cannot create /x/y: Permission denied", "/x/y", DenialKind::Write),
            ("sh: 1: cannot create ../../x: Read-only file system", "/x", DenialKind::Write),
            ("bash: line 1: /etc/x: Read-only file system", "/etc/x", DenialKind::Write),
            ("bash: /etc/x: Permission denied", "/etc/x", DenialKind::Write),
            ("zsh:1: permission denied: /etc/x", "/etc/x", DenialKind::Write),
            ("touch: cannot touch '/x': Permission denied", "/x", DenialKind::Write),
            ("touch: cannot touch \u{2018}/x y\u{2019}: Permission denied", "/x y", DenialKind::Write),
            ("cp: cannot create regular file '/x/y z': Read-only file system", "/x/y z", DenialKind::Write),
            ("mv: cannot move 'a' to '/x/a': Read-only file system", "/x/a", DenialKind::Write),
            ("rm: cannot remove '/x': Read-only file system", "/x", DenialKind::Write),
            ("mkdir: cannot create directory '/x': Permission denied", "/x", DenialKind::Write),
            ("mkdir: can't create directory '/x': Permission denied", "/x", DenialKind::Write),
            ("cat: /state/token: Permission denied", "/state/token", DenialKind::Read),
            ("PermissionError: [Errno 13] Permission denied: '/x/y'", "/x/y", DenialKind::Write),
            ("OSError: [Errno 30] Read-only file system: '/x/y'", "/x/y", DenialKind::Write),
            ("Error: EACCES: permission denied, open '/x/y'", "/x/y", DenialKind::Write),
            ("Error: EROFS: read-only file system, mkdir '/x/y'", "/x/y", DenialKind::Write),
            ("error: failed to write `/x/y`: Permission denied (os error 13)", "/x/y", DenialKind::Write),
            ("Error: could not open /x/y: Permission denied (os error 13)", "/x/y", DenialKind::Write),
            ("open /x/y: permission denied", "/x/y", DenialKind::Write),
            (
                "error: could not lock config file /x/.gitconfig: Read-only file system",
                "/x/.gitconfig",
                DenialKind::Write,
            ),
            (
                "error: could not write config file /x/.gitconfig: Permission denied",
                "/x/.gitconfig",
                DenialKind::Write,
            ),
        ] {
            assert_eq!(denial(line), Some((Some(path.to_owned()), what)), "{line}");
        }
    }

    #[test]
    fn the_network_is_blamed_only_when_it_is_restricted() {
        for line in [
            "curl: (7) Couldn't open socket: Operation not permitted",
            "PermissionError: [Errno 1] Operation not permitted (in socket.socket)",
            "Error: connect EPERM 1.2.3.4:443",
            "connect: Network is unreachable",
            "curl: (6) Could not resolve host: example.org: Operation not permitted",
            "Temporary failure in name resolution",
        ] {
            assert_eq!(denial(line), Some((None, DenialKind::Network)), "{line}");
            assert_eq!(find_denial(line, Path::new("/work"), &confinement(Network::On)), None, "{line}");
        }
    }

    #[test]
    fn what_the_profile_allows_is_not_blamed_on_it() {
        for line in [
            "touch: cannot touch '/work/x': Permission denied",
            "cat: /etc/shadow: Permission denied",
            "cat: secret: Permission denied",
            "sh: 1: ./script: Permission denied",
            "error: No such file or directory '/x'",
            "something failed",
            "permission denied",
            "",
        ] {
            assert_eq!(denial(line), None, "{line}");
        }
    }

    #[test]
    fn only_the_last_words_are_kept() {
        let mut detector = DenialDetector::new(Arc::new(confinement(Network::Off)), "/work".into());
        detector.observe(Stream::Stderr, b"touch: cannot touch '/x': Permission denied\n");
        detector.observe(Stream::Stdout, &[b'x'; 2 * TAIL_BYTES]);
        assert!(detector.denial(ExitStatus::Code(1)).is_some());
        assert_eq!(detector.denial(ExitStatus::Code(0)), None);
        detector.observe(Stream::Stderr, &[b'x'; 2 * TAIL_BYTES]);
        assert_eq!(detector.tail.len(), TAIL_BYTES);
        assert_eq!(detector.denial(ExitStatus::Code(1)), None);
    }
}
