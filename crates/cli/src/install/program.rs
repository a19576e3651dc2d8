//! Program: the rexd to put on a machine, checked to be one that runs there.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::machine::Machine;
use crate::failure::Failure;
use crate::output;

/// No rexd is larger.
const SIZE_LIMIT: u64 = 512 * 1024 * 1024;
/// The number of each processor in an ELF file, by the names `uname -m` has for it.
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

/// A rexd to be copied.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) file: PathBuf,
    pub(crate) content: Vec<u8>,
    pub(crate) sha256: String,
}

impl Program {
    /// The program for a machine: the one that is named, else the first that fits.
    pub(crate) fn find(
        named: Option<&Path>,
        machine: &Machine,
        data: Option<&Path>,
    ) -> Result<Program, Failure> {
        if let Some(file) = named {
            let content = read(file)?;
            check(&content, machine).map_err(|problem| {
                Failure::new(format!("{} does not run there: {problem}", file.display()))
                    .hint(format!("name a rexd that was built for {}", machine.suffix()))
            })?;
            return Ok(Program::new(file, content));
        }
        let candidates = candidates(machine, data);
        let mut reasons = Vec::new();
        for file in &candidates {
            match read(file)
                .map_err(|failure| failure.message)
                .and_then(|content| check(&content, machine).map(|()| Program::new(file, content)))
            {
                Ok(program) => return Ok(program),
                Err(problem) if file.exists() => reasons.push(format!("{}: {problem}", file.display())),
                Err(_) => {}
            }
        }
        let place = data.map_or_else(|| "~/.local/share/rex".into(), Path::to_owned);
        let mut what = format!("there is no rexd for {} on this machine", machine.suffix());
        if !reasons.is_empty() {
            what = format!("{what} ({})", reasons.join("; "));
        }
        Err(Failure::new(what).hint(format!(
            "put one at {}/rexd-{}, or name it with --rexd FILE",
            place.display(),
            machine.suffix()
        )))
    }

    fn new(file: &Path, content: Vec<u8>) -> Program {
        if is_dynamic(&content) {
            output::remark(format_args!(
                "{} needs the same system libraries there; a release build needs none",
                file.display()
            ));
        }
        let sha256 = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        Program { file: file.to_owned(), content, sha256 }
    }
}

/// Where a program for that machine may lie: for it alone, then what runs here.
fn candidates(machine: &Machine, data: Option<&Path>) -> Vec<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|ours| ours.parent().map(Path::to_owned));
    let mut files = Vec::new();
    let system = machine.system.to_lowercase();
    let names = PROCESSORS.iter().find(|(_, names)| names.contains(&machine.processor.as_str()));
    let own = [machine.processor.as_str()];
    // Releases call the same processor by one name or the other.
    for processor in own.iter().chain(names.map_or(&[][..], |(_, names)| names)) {
        for folder in beside.iter().map(PathBuf::as_path).chain(data) {
            files.push(folder.join(format!("rexd-{system}-{processor}")));
        }
    }
    files.extend(client::find_rexd());
    files
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let wrong = |problem: &dyn std::fmt::Display| {
        Failure::new(format!("cannot read {}: {problem}", file.display())).hint("--rexd names another file")
    };
    let about = std::fs::metadata(file).map_err(|error| wrong(&error))?;
    if !about.is_file() || about.len() > SIZE_LIMIT {
        return Err(wrong(&"it is no program"));
    }
    std::fs::read(file).map_err(|error| wrong(&error))
}

/// Whether a program runs on a machine, as far as the file says.
pub(crate) fn check(content: &[u8], machine: &Machine) -> Result<(), String> {
    let is_elf = content.starts_with(b"\x7fELF");
    if machine.system != "Linux" {
        // What other systems want in a program is found out there, before it takes its place.
        return if is_elf {
            Err(format!("it is a program for Linux, not for {}", machine.system))
        } else {
            Ok(())
        };
    }
    if !is_elf {
        return Err("it is no program for Linux".to_owned());
    }
    let found = elf_number(content, 18, 2);
    let wanted = PROCESSORS.iter().find(|(_, names)| names.contains(&machine.processor.as_str()));
    match (found, wanted) {
        (_, None) => Ok(()),
        (Some(found), Some((number, _))) if found == u64::from(*number) => Ok(()),
        (Some(found), Some(_)) => {
            let known = PROCESSORS.iter().find(|(number, _)| u64::from(*number) == found);
            let name = known.and_then(|(_, names)| names.last()).copied().unwrap_or("another processor");
            Err(format!("it is a program for {name}, and the machine is {}", machine.processor))
        }
        (None, _) => Err("it is cut off".to_owned()),
    }
}

/// Whether a program asks the system for a loader, and so for libraries.
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
        let place = index.checked_mul(size).and_then(|offset| table.checked_add(offset))?;
        elf_number(content, usize::try_from(place).ok()?, 4)
    };
    (0..count).any(|index| kind(index) == Some(INTERPRETER))
}

/// A number of an ELF file, in the byte order of the file.
fn elf_number(content: &[u8], place: usize, size: usize) -> Option<u64> {
    let bytes = content.get(place..place.checked_add(size)?)?;
    let is_big = content.get(5) == Some(&2);
    let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    Some(match is_big {
        true => bytes.iter().fold(0, join),
        false => bytes.iter().rev().fold(0, join),
    })
}
