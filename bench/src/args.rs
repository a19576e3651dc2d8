//! Command-line arguments: programs, rows, duration, and the path of the report.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use lexopt::prelude::*;

/// The text of `--help`.
pub(crate) const USAGE: &str = "\
bench --rexd PATH [--rex PATH] [--only ROW,...] [--quick] [--out FILE] [--home DIR]

  --rexd PATH   the rexd to measure, with the rexhub in the same directory
  --rex PATH    the rex to measure (default: in the same directory as rexd)
  --only ROWS   some of: true rate stream stall read write cold memory pty tree size growth
                connections detached resume compress sandbox policy
                exec-server exec-server-files exec-server-memory exec-server-relay
                rex-exec rex-cp rex-mcp rex-start
  --quick       few and short rounds, for development; the figures are not meaningful
  --out FILE    also write the report as Markdown
  --home DIR    the directory in which bench/setup.sh installed the peers (default: $BENCH_HOME, else .bench)
";

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct Args {
    /// The program under test.
    pub(crate) rexd: PathBuf,
    /// The command line under test.
    pub(crate) rex: PathBuf,
    /// Names of the rows to run; empty means all.
    pub(crate) only: Vec<String>,
    /// Run few and short rounds.
    pub(crate) quick: bool,
    /// The path of the Markdown report.
    pub(crate) out: Option<PathBuf>,
    /// The directory for installed peers and for data.
    pub(crate) home: PathBuf,
}

impl Args {
    /// Parses the arguments of this process; `None` for `--help`.
    pub(crate) fn parse() -> Result<Option<Self>> {
        let mut rexd = None;
        let mut args = Self {
            rexd: PathBuf::new(),
            rex: PathBuf::new(),
            only: Vec::new(),
            quick: false,
            out: None,
            home: std::env::var_os("BENCH_HOME").map_or_else(|| PathBuf::from(".bench"), PathBuf::from),
        };
        let mut parser = lexopt::Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                Long("rexd") => rexd = Some(PathBuf::from(parser.value()?)),
                Long("rex") => args.rex = PathBuf::from(parser.value()?),
                Long("only") => {
                    args.only.extend(parser.value()?.string()?.split(',').map(|name| name.trim().to_owned()));
                }
                Long("quick") => args.quick = true,
                Long("out") => args.out = Some(PathBuf::from(parser.value()?)),
                Long("home") => args.home = PathBuf::from(parser.value()?),
                Short('h') | Long("help") => return Ok(None),
                other => return Err(other.unexpected().into()),
            }
        }
        args.rexd = rexd.context("--rexd PATH is required")?;
        if !args.rexd.is_file() {
            bail!("{} is not a file: build rexd first", args.rexd.display());
        }
        args.rexd = args.rexd.canonicalize()?;
        if args.rex.as_os_str().is_empty() {
            args.rex = args.rexd.with_file_name("rex");
        }
        Ok(Some(args))
    }

    /// Whether the row was selected.
    pub(crate) fn wants(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == row)
    }
}
