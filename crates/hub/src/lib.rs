//! `rexhub`: connects people and clients to machines behind NAT: hosts and their runs, users, approvals, and the executor
//! registry with its rendezvous.

mod administration;
mod api;
mod api_error;
mod approvals;
pub mod args;
pub mod audit;
pub mod auth;
mod browser;
mod collect;
pub mod commands;
pub mod config;
mod enrolment;
pub mod feed;
pub mod hosts;
pub mod ingest;
mod live;
pub mod log;
mod nodes;
mod notices;
pub mod passwords;
mod publisher;
mod rendezvous;
mod routes;
mod routing;
pub mod runs;
pub mod serve;
mod services;
pub mod store;
mod upkeep;
mod uplink;
pub mod wakeups;
mod web;

pub use api::openapi;
pub use link::listen::TlsError;

/// Whether a character may be part of the name of a token or an executor: only ASCII, so that no two names look alike.
pub(crate) fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '@')
}

#[cfg(test)]
mod tests {
    use super::rendezvous::ExecutorId;

    /// Names enter the hub in two places: `rexhub token add`, and the path of a request.
    #[test]
    fn names_that_look_like_another_name_are_rejected_wherever_a_name_enters() {
        let names = ["..", ".", "../x", "a/..", "%2e%2e"].map(str::to_owned);
        let invisible = [
            '\u{ad}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{e0041}',
        ];
        let inside = invisible.map(|invisible| format!("build{invisible}-1"));
        let at_end = invisible.map(|invisible| format!("build-1{invisible}"));
        let similar = ["bu\u{456}ld-1", "build\u{2010}1", "ｂuild-1"].map(str::to_owned);
        for name in names.into_iter().chain(inside).chain(at_end).chain(similar) {
            assert!(ExecutorId::parse(&name).is_err(), "executor {name:?}");
            assert!(super::args::token_name(&name).is_err(), "token {name:?}");
        }
        assert!(ExecutorId::parse("build-1").is_ok() && super::args::token_name("build-1").is_ok());
    }
}
