//! The environment of all rows: paths, durations, the known text, and the tree of files.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::args::Args;
use crate::peers::rexd::Setup;

/// Size of the streamed text.
pub(crate) const TEXT_BYTES: u64 = 256 << 20;

/// Real text: source files of this project.
const SOURCES: [&str; 8] = [
    include_str!("world.rs"),
    include_str!("report.rs"),
    include_str!("stats.rs"),
    include_str!("watchdog.rs"),
    include_str!("main.rs"),
    include_str!("peers/peer.rs"),
    include_str!("peers/ssh.rs"),
    include_str!("../../Cargo.lock"),
];

/// Paths and settings of a run.
#[derive(Debug)]
pub(crate) struct World {
    /// The program under test.
    pub(crate) rexd: PathBuf,
    /// The command line under test.
    pub(crate) rex: PathBuf,
    /// The hub under test.
    pub(crate) rexhub: PathBuf,
    /// The directory with the installed peers.
    pub(crate) home: PathBuf,
    /// The data directory; the only root of the rexd under test.
    pub(crate) directory: PathBuf,
    quick: bool,
    block: Vec<u8>,
}

impl World {
    /// Creates the data directory; removes the data of an earlier run first.
    pub(crate) fn new(args: &Args) -> Result<Self> {
        fs::create_dir_all(&args.home)?;
        let home = args.home.canonicalize()?;
        let directory = home.join("run");
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        let (rexd, rex) = (args.rexd.clone(), std::path::absolute(&args.rex)?);
        let rexhub = rexd.with_file_name("rexhub");
        Ok(Self { rexd, rex, rexhub, home, directory, quick: args.quick, block: words(1 << 20) })
    }

    /// Selects one of two amounts, by `--quick`.
    pub(crate) fn amount<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The rexd configuration of most rows.
    pub(crate) fn setup(&self) -> Setup {
        Setup::new(&self.rexd, &self.directory)
    }

    /// Creates a file with this many bytes of the known text, in the page cache.
    pub(crate) fn text(&self, size: u64) -> Result<PathBuf> {
        let path = self.directory.join(format!("text-{size}"));
        if path.exists() {
            return Ok(path);
        }
        let mut file = File::create(&path)?;
        let mut left = usize::try_from(size)?;
        while left > 0 {
            let part = &self.block[..left.min(self.block.len())];
            file.write_all(part)?;
            left -= part.len();
        }
        Ok(path)
    }

    /// The first bytes of the known text.
    pub(crate) fn known(&self, size: usize) -> &[u8] {
        &self.block[..size.min(self.block.len())]
    }

    /// Compares a stream with the known text.
    pub(crate) fn expect(&self) -> Expected<'_> {
        Expected { block: &self.block, restart: usize::MAX, at: 0 }
    }

    /// Creates a file with this many bytes of real text, and returns the block that repeats in it.
    pub(crate) fn sources(&self, size: usize) -> Result<(PathBuf, Vec<u8>)> {
        let mut block = Vec::new();
        for part in SOURCES {
            block.extend_from_slice(part.as_bytes());
        }
        let path = self.directory.join(format!("sources-{size}"));
        let text: Vec<u8> = block.iter().cycle().take(size).copied().collect();
        fs::write(&path, text)?;
        Ok((path, block))
    }

    /// Compares a stream with files of that size, one after another.
    pub(crate) fn expect_files(&self, size: u64) -> Result<Expected<'_>> {
        Ok(Expected { block: &self.block, restart: usize::try_from(size)?, at: 0 })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.directory));
    }
}

/// Compares every byte of a stream with the known text, which repeats one block.
#[derive(Debug)]
pub(crate) struct Expected<'a> {
    block: &'a [u8],
    /// The text restarts at multiples of this offset.
    restart: usize,
    at: usize,
}

impl<'a> Expected<'a> {
    /// Compares with a text that repeats this block.
    pub(crate) fn repeating(block: &'a [u8]) -> Self {
        Self { block, restart: usize::MAX, at: 0 }
    }
}

impl Expected<'_> {
    /// Compares the next bytes.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let in_file = self.at % self.restart;
            let wanted = &self.block[in_file % self.block.len()..];
            let size = wanted.len().min(bytes.len()).min(self.restart - in_file);
            ensure!(
                wanted[..size] == bytes[..size],
                "the bytes differ from the text near offset {}",
                self.at
            );
            self.at += size;
            bytes = &bytes[size..];
        }
        Ok(())
    }

    /// Fails unless the whole text was received.
    pub(crate) fn end(&self, size: u64) -> Result<()> {
        ensure!(self.at as u64 == size, "{} of {size} bytes arrived", self.at);
        Ok(())
    }
}

/// Lines of 60 to 80 characters of words; always the same.
fn words(size: usize) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "agent",
        "binary",
        "cursor",
        "daemon",
        "engine",
        "directory",
        "kernel",
        "ledger",
        "machine",
        "notice",
        "output",
        "process",
        "queue",
        "reader",
        "session",
        "terminal",
    ];
    let mut numbers = Numbers(0x5eed);
    let mut text = Vec::with_capacity(size + 96);
    while text.len() < size {
        let end = text.len() + 60 + numbers.below(12);
        while text.len() < end {
            text.extend_from_slice(WORDS[numbers.below(WORDS.len())].as_bytes());
            text.push(b' ');
        }
        text.pop();
        text.push(b'\n');
    }
    text
}

/// A small random number generator with a fixed seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit
    }
}

/// A tree of files with the expected search results.
#[derive(Debug)]
pub(crate) struct FileTree {
    /// The directory of the tree.
    pub(crate) directory: PathBuf,
    /// Number of files.
    pub(crate) files: usize,
    /// Number of subdirectories.
    pub(crate) directories: usize,
    /// Files that end in `.rs`.
    pub(crate) rust: usize,
    /// Number of lines with [`NEEDLE`].
    pub(crate) needles: usize,
}

/// The text that searches look for.
pub(crate) const NEEDLE: &str = "fn needle_in_the_tree";

impl FileTree {
    /// Writes the tree: ten directories, each with directories of a hundred small files.
    pub(crate) fn grow(world: &World) -> Result<Self> {
        let directory = world.directory.join("tree");
        let (outer, inner, each) = (10, world.amount(50, 5), 100);
        let mut tree = Self { directory, files: 0, directories: outer, rust: 0, needles: 0 };
        for branch in 0..outer {
            for twig in 0..inner {
                let place = tree.directory.join(format!("branch{branch}/twig{twig}"));
                fs::create_dir_all(&place)?;
                tree.directories += 1;
                for leaf in 0..each {
                    tree.leaf(&place, leaf, world.known(600 + leaf * 20))?;
                }
            }
        }
        Ok(tree)
    }

    fn leaf(&mut self, place: &Path, number: usize, text: &[u8]) -> Result<()> {
        let rust = number.is_multiple_of(5);
        let mut content = text.to_vec();
        if self.files.is_multiple_of(500) {
            content.extend_from_slice(format!("\n    {NEEDLE}() {{}}\n").as_bytes());
            self.needles += 1;
        }
        fs::write(place.join(format!("leaf{number}.{}", if rust { "rs" } else { "txt" })), content)?;
        self.files += 1;
        self.rust += usize::from(rust);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_same_in_every_run_and_made_of_lines() {
        let text = words(10_000);
        assert_eq!(text, words(10_000));
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        assert!(lines.into_iter().all(|line| (59..=80).contains(&line.len())));
    }

    #[test]
    fn a_lost_or_changed_byte_is_noticed() {
        let block = words(1000);
        let mut expected = Expected { block: &block, restart: usize::MAX, at: 0 };
        expected.take(&block).unwrap();
        expected.take(&block[..10]).unwrap();
        expected.end(block.len() as u64 + 10).unwrap();
        assert!(expected.end(5).is_err());
        assert!(expected.take(&block[11..20]).is_err());
    }

    #[test]
    fn several_files_begin_anew() {
        let block = words(1000);
        let mut expected = Expected { block: &block, restart: 1500, at: 0 };
        let file: Vec<u8> = block.iter().cycle().take(1500).copied().collect();
        expected.take(&[file.clone(), file].concat()).unwrap();
        expected.end(3000).unwrap();
    }
}
