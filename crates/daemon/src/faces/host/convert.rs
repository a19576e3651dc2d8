//! Conversions from the parameters of requests to the engine's types.

use engine::process::{Signal, TerminalSize};
use wire::hub::v1::{Resize, RunStart};
use wire::jsonrpc::RpcError;

/// The size of a terminal that its starter does not give.
pub(super) const DEFAULT_SIZE: TerminalSize = TerminalSize { cols: 80, rows: 24 };

/// The signal of a stop.
pub(super) fn signal(name: Option<&str>) -> Result<Signal, RpcError> {
    match name.unwrap_or("term") {
        "term" => Ok(Signal::TERM),
        "kill" => Ok(Signal::KILL),
        "int" => Ok(Signal::INT),
        other => {
            Err(RpcError::invalid_params(format!("unknown signal {other:?}: expected term, kill or int")))
        }
    }
}

/// The size of a terminal, within the limits of the protocol.
pub(super) fn size(resize: Resize) -> TerminalSize {
    TerminalSize { cols: resize.cols.clamp(2, 500), rows: resize.rows.clamp(1, 200) }
}

/// The size of the terminal of a new run.
pub(super) fn start_size(start: &RunStart) -> TerminalSize {
    size(Resize {
        cols: start.cols.unwrap_or(DEFAULT_SIZE.cols),
        rows: start.rows.unwrap_or(DEFAULT_SIZE.rows),
    })
}

/// A path relative to the directory of the run, by its text. Where it leads is checked when it is opened.
pub(super) fn relative(path: &str) -> Result<&str, RpcError> {
    let problem = match path {
        "" => "missing path",
        path if path.starts_with('/') => "path must be relative",
        path if path.split('/').any(|part| part == "..") => "path contains ..",
        _ => return Ok(path),
    };
    Err(RpcError::invalid_params(problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_values_or_the_errors_of_the_protocol() {
        assert_eq!(signal(None).unwrap(), Signal::TERM);
        assert_eq!(signal(Some("int")).unwrap(), Signal::INT);
        assert!(signal(Some("hup")).unwrap_err().message.contains("term, kill or int"));
        assert_eq!(size(Resize { cols: 0, rows: 0 }), TerminalSize { cols: 2, rows: 1 });
        assert_eq!(size(Resize { cols: 9_999, rows: 9_999 }), TerminalSize { cols: 500, rows: 200 });
        assert_eq!(start_size(&RunStart::default()), DEFAULT_SIZE);
        for (path, error) in [
            ("", "missing path"),
            ("/etc/passwd", "path must be relative"),
            ("a/../b", "path contains .."),
            ("..", "path contains .."),
        ] {
            assert_eq!(relative(path).unwrap_err().message, error);
        }
        assert_eq!(relative("a..b/c").unwrap(), "a..b/c");
    }
}
