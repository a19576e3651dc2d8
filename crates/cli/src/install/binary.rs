//! RexdBinary: the rexd binary to install, checked against the machine.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::machine::Machine;
use crate::failure::Failure;
use crate::output;

/// The maximum size of the binary.
const SIZE_LIMIT: u64 = 512 * 1024 * 1024;
/// ELF machine numbers with the names of `uname -m`.
const PROCESSORS: &[(u16, &[&str])] = &[
    (3, &["i386", "i486", "i586", "i686", "x86"]),
    (21, &["ppc64", "ppc64le"]),
    (22, &["s390x"]),
    (40, &["arm", "armv5tel", "armv6l", "armv7l", "armv8l"]),
    (62, &["x86_64", "amd64"]),
    (183, &["aarch64", "arm64"]),
    (243, &["riscv64"]),
    (258, &["loongarch64"]),
];

/// A rexd binary to be copied.
#[derive(Debug)]
pub(crate) struct RexdBinary {
    pub(crate) file: PathBuf,
    pub(crate) content: Vec<u8>,
    pub(crate) sha256: String,
}

impl RexdBinary {
    /// Finds the binary for a machine: the given one, or the first candidate that fits.
    pub(crate) fn find(
        named: Option<&Path>,
        machine: &Machine,
        data: Option<&Path>,
    ) -> Result<RexdBinary, Failure> {
        if let Some(file) = named {
            let content = read(file)?;
            check(&content, machine).map_err(|problem| {
                Failure::new(format!("cannot install {}: {problem}", file.display()))
                    .hint(format!("pass a rexd that is built for {}", machine.suffix()))
            })?;
            return Ok(RexdBinary::new(file, content));
        }
        let candidates = candidates(machine, data);
        let mut reasons = Vec::new();
        for file in &candidates {
            match read(file)
                .map_err(|failure| failure.message)
                .and_then(|content| check(&content, machine).map(|()| RexdBinary::new(file, content)))
            {
                Ok(program) => return Ok(program),
                Err(problem) if file.exists() => reasons.push(format!("{}: {problem}", file.display())),
                Err(_) => {}
            }
        }
        let directory = data.map_or_else(|| "~/.local/share/rex".into(), Path::to_owned);
        let mut what = format!("no rexd binary for {}", machine.suffix());
        if !reasons.is_empty() {
            what = format!("{what} ({})", reasons.join("; "));
        }
        Err(Failure::new(what).hint(format!(
            "copy one to {}/rexd-{}, or pass --rexd FILE",
            directory.display(),
            machine.suffix()
        )))
    }

    fn new(file: &Path, content: Vec<u8>) -> RexdBinary {
        if is_dynamic(&content) {
            output::note(format_args!(
                "{} is dynamically linked and needs the same libraries on the machine; a release build is static",
                file.display()
            ));
        }
        let sha256 = hex::encode(Sha256::digest(&content));
        RexdBinary { file: file.to_owned(), content, sha256 }
    }
}

/// Candidate paths: binaries for that machine first, then the local rexd.
fn candidates(machine: &Machine, data: Option<&Path>) -> Vec<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|ours| ours.parent().map(Path::to_owned));
    let mut files = Vec::new();
    let system = machine.system.to_lowercase();
    let names = PROCESSORS.iter().find(|(_, names)| names.contains(&machine.processor.as_str()));
    let own = [machine.processor.as_str()];
    // Release files use either name of the same processor.
    for processor in own.iter().chain(names.map_or(&[][..], |(_, names)| names)) {
        for dir in beside.iter().map(PathBuf::as_path).chain(data) {
            files.push(dir.join(format!("rexd-{system}-{processor}")));
        }
    }
    files.extend(client::find_rexd());
    files
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let wrong = |problem: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read {}: {problem}", file.display()))
            .hint("--rexd FILE selects another file")
    };
    let about = std::fs::metadata(file).map_err(|error| wrong(&error))?;
    if !about.is_file() || about.len() > SIZE_LIMIT {
        return Err(wrong(&"not a program"));
    }
    std::fs::read(file).map_err(|error| wrong(&error))
}

/// Checks by the file header whether a binary runs on a machine.
pub(crate) fn check(content: &[u8], machine: &Machine) -> Result<(), String> {
    let is_elf = content.starts_with(b"\x7fELF");
    if machine.system != "Linux" {
        // Other systems' formats are checked by running the binary there, before it replaces the old one.
        return if is_elf {
            Err(format!("it is a Linux binary, and the machine runs {}", machine.system))
        } else {
            Ok(())
        };
    }
    if !is_elf {
        return Err("it is not a Linux binary".to_owned());
    }
    let found = elf_number(content, 18, 2);
    let wanted = PROCESSORS.iter().find(|(_, names)| names.contains(&machine.processor.as_str()));
    match (found, wanted) {
        (_, None) => Ok(()),
        (Some(found), Some((number, _))) if found == u64::from(*number) => Ok(()),
        (Some(found), Some(_)) => {
            let known = PROCESSORS.iter().find(|(number, _)| u64::from(*number) == found);
            let name = known.and_then(|(_, names)| names.last()).copied().unwrap_or("another processor");
            Err(format!("it is a binary for {name}, and the machine is {}", machine.processor))
        }
        (None, _) => Err("the file is truncated".to_owned()),
    }
}

/// Whether a binary has an interpreter, that is, is dynamically linked.
pub(crate) fn is_dynamic(content: &[u8]) -> bool {
    const INTERPRETER: u64 = 3;
    if !content.starts_with(b"\x7fELF") {
        return false;
    }
    let is_wide = content.get(4) == Some(&2);
    let (table, size, count) = match is_wide {
        true => (elf_number(content, 32, 8), elf_number(content, 54, 2), elf_number(content, 56, 2)),
        false => (elf_number(content, 28, 4), elf_number(content, 42, 2), elf_number(content, 44, 2)),
    };
    let (Some(table), Some(size), Some(count)) = (table, size, count) else { return false };
    let kind = |index: u64| {
        let offset = index.checked_mul(size).and_then(|start| table.checked_add(start))?;
        elf_number(content, usize::try_from(offset).ok()?, 4)
    };
    (0..count).any(|index| kind(index) == Some(INTERPRETER))
}

/// A number in an ELF file, in the byte order of the file.
fn elf_number(content: &[u8], offset: usize, size: usize) -> Option<u64> {
    let bytes = content.get(offset..offset.checked_add(size)?)?;
    let is_big = content.get(5) == Some(&2);
    let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    Some(match is_big {
        true => bytes.iter().fold(0, join),
        false => bytes.iter().rev().fold(0, join),
    })
}
