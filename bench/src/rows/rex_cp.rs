//! `rex cp`, scp and rsync over ssh on loopback: one large file and many small files, in both directions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use super::{median, table};
use crate::peers::rex::{Rex, whole};
use crate::peers::sshd::Sshd;
use crate::report::{Bound, Findings, compare};
use crate::stats::{interleave, time};
use crate::world::World;

const LARGE_BYTES: u64 = 1 << 30;
const FILES: usize = 5_000;
const FOLDERS: usize = 100;
/// Small files have between this many bytes and forty times as many.
const SMALLEST: usize = 100;

/// The direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// The program that copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copier {
    Scp,
    Rsync,
    Rex,
}

impl Copier {
    const ALL: [Copier; 3] = [Copier::Scp, Copier::Rsync, Copier::Rex];

    fn name(self) -> &'static str {
        match self {
            Copier::Scp => "scp",
            Copier::Rsync => "rsync",
            Copier::Rex => "rex cp",
        }
    }

    /// The command that copies a file or a tree to a new name.
    fn command(self, (sshd, rex): (&Sshd, &Rex), way: Way, from: &Path, to: &Path) -> Command {
        let far = match self {
            Copier::Rex => "far:",
            Copier::Scp | Copier::Rsync => "127.0.0.1:",
        };
        let (here, there) =
            (|path: &Path| path.display().to_string(), |path: &Path| format!("{far}{}", path.display()));
        let (mut from, to) = match way {
            Way::Up => (here(from), there(to)),
            Way::Down => (there(from), here(to)),
        };
        let mut command = match self {
            Copier::Rex => return rex.command(&["cp", &from, &to]),
            Copier::Scp => {
                let mut command = Command::new("scp");
                command.args(["-q", "-r"]).args(sshd.options());
                command
            }
            Copier::Rsync => {
                // A trailing slash copies the tree under the new name.
                from.push_str(if from.ends_with("many") { "/" } else { "" });
                let mut command = Command::new("rsync");
                command.args(["-rp", "-e", &format!("ssh {}", sshd.options().join(" "))]);
                command
            }
        };
        command.arg(from).arg(to).stdin(Stdio::null());
        command
    }
}

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let sshd = Sshd::start()?;
    let rex = Rex::new(world, Some(&sshd))?;
    let size = world.amount(LARGE_BYTES, LARGE_BYTES / 64);
    let (large, many) = (world.text(size)?, small_files(world, world.amount(FILES, FILES / 20))?);
    let mut findings = Findings::new("`rex cp` over ssh");
    let mut copies = 0;
    for (what, source, rounds) in [("1 GiB", &large, 3), ("5,000 small files", &many, 3)] {
        let expected = weigh(source)?;
        for (way, word) in [(Way::Up, "up"), (Way::Down, "down")] {
            let mut copiers = Copier::ALL;
            let samples = interleave(&mut copiers, world.amount(rounds, 1), |copier| {
                copies += 1;
                let to = world.directory.join(format!("copied-{copies}"));
                let seconds = whole(&mut copier.command((&sshd, &rex), way, source, &to))?;
                ensure!(weigh(&to)? == expected, "{} did not copy everything", copier.name());
                if to.is_file() {
                    fs::remove_file(&to)?;
                }
                Ok(vec![seconds])
            })?;
            let names: Vec<String> = copiers.iter().map(|copier| copier.name().to_owned()).collect();
            let work = format!("{what} {word}");
            table(&mut findings, &work, &names, &samples, time);
            let ours = median(&names, &samples, "rex cp")?;
            let most = if source == &large { 1.0 } else { 0.7 };
            let (scp, rsync) = (median(&names, &samples, "scp")?, median(&names, &samples, "rsync")?);
            let better = if scp < rsync { ("scp", scp) } else { ("rsync", rsync) };
            let work = format!("rex cp, {work}, of the better of scp and rsync");
            findings.targets.push(compare(&work, ours, better, Bound::AtMost(most), time));
        }
    }
    findings.note(
        "rex compares hashes, scp compares nothing. rsync preserves modes and has an empty destination. All write \
         to the page cache. The small files stay until the end: the file system of this machine is several times slower \
         for a few seconds after many files were removed.",
    );
    Ok(findings)
}

/// Files of 100 to 4,000 bytes of the known text, a hundred per directory.
fn small_files(world: &World, files: usize) -> Result<PathBuf> {
    let top = world.directory.join("many");
    for number in 0..files {
        let directory = top.join(format!("{:02}", number % FOLDERS));
        fs::create_dir_all(&directory)?;
        let size = SMALLEST + number * 7919 % (SMALLEST * 39);
        fs::write(directory.join(number.to_string()), world.known(size))?;
    }
    Ok(top)
}

/// The number of files and of bytes.
fn weigh(path: &Path) -> Result<(usize, u64)> {
    if path.is_file() {
        return Ok((1, path.metadata()?.len()));
    }
    let mut sum = (0, 0);
    for entry in fs::read_dir(path)? {
        let (files, bytes) = weigh(&entry?.path())?;
        sum = (sum.0 + files, sum.1 + bytes);
    }
    Ok(sum)
}
