//! Runs the examples of the README and of `docs/rex.md` in order, in one bash with an empty home and a real sshd as the
//! other machine, and compares their output with the output shown.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use support::REX;
use testkit::proc::{survivors, watch_marked};
use testkit::programs::program;
use testkit::sandbox::Sandbox;
use testkit::sshd::Sshd;

/// The documents, from the root of the checkout, and the section of each whose blocks are run.
const TOURS: [(&str, &str); 2] = [("README.md", "## Five tasks"), ("docs/rex.md", "## Tasks")];
/// The prefix of a comment before a block that is not run; the reason follows.
const SKIP: &str = "<!-- not run: ";
/// The blocks that are not run, by their first words: each is a decision.
const SKIPPED: [&str; 2] = ["make install", "rex -t build shell"];
/// The unprivileged user of the other machine when the tests run as root.
const NOBODY: u32 = 65534;
/// How long what was started may take to go.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// A block of commands.
#[derive(Debug, Default)]
struct Block {
    /// The document and the line of its first line.
    at: String,
    script: String,
    /// The output shown below it.
    shows: Option<String>,
    /// Why it is not run.
    skipped: Option<String>,
}

/// ARCHITECTURE.md, invariant 50.
/// ARCHITECTURE.md, invariant 54.
#[test]
fn the_readme_leads_from_nothing_to_a_first_remote_command() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut blocks = Vec::new();
    for (document, section) in TOURS {
        let text = fs::read_to_string(root.join(document)).unwrap();
        blocks.extend(blocks_of(document, section, &text));
    }
    let (skipped, run): (Vec<Block>, Vec<Block>) =
        blocks.into_iter().partition(|block| block.skipped.is_some());
    let is_listed = |block: &Block| SKIPPED.iter().any(|words| block.script.starts_with(words));
    assert!(skipped.iter().all(is_listed) && skipped.len() == SKIPPED.len(), "{skipped:?}");
    assert!(run.len() >= 8 && run.iter().all(|block| block.shows.is_some()), "{run:?}");

    let sandbox = Sandbox::new();
    let _sshd = another_machine(&sandbox);
    let script = script(&run);
    let ended = bash(&sandbox, &script).status().unwrap();
    let reached: usize = sandbox.read("tour/reached").trim().parse().unwrap();
    let block = &run[reached];
    let said = sandbox.read(&format!("tour/{reached}.err"));
    assert!(ended.success(), "{}: {ended}\n{}\n{said}", block.at, block.script);
    assert_eq!(reached + 1, run.len());
    for (number, block) in run.iter().enumerate() {
        let printed = sandbox.read(&format!("tour/{number}.out"));
        if let Some(shows) = &block.shows {
            assert!(fits(shows, &printed), "{}\nshown:\n{shows}\nprinted:\n{printed}", block.at);
        }
    }
    // Whatever was started here or there has one of these in its environment.
    for mark in ["TOUR=$DIR/tour", "HOME=$DIR/there"] {
        let left = survivors(&watch_marked(&sandbox.expand(mark)), GONE_WITHIN);
        assert!(left.is_empty(), "{mark}: still running: {left:?}");
    }
}

/// The blocks of a document's section, in order.
fn blocks_of(document: &str, section: &str, text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut reason = None;
    let mut fence: Option<&str> = None;
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != section).skip(1);
    for (index, line) in lines.take_while(|(_, line)| !line.starts_with("## ")) {
        match (fence, line) {
            (None, "```bash") => {
                fence = Some("bash");
                let at = format!("{document}:{}", index + 2);
                blocks.push(Block { at, skipped: reason.take(), ..Block::default() });
            }
            (None, "```text") => {
                fence = Some("text");
                blocks.last_mut().expect("a block before what it prints").shows = Some(String::new());
            }
            (None, line) => {
                if let Some(text) = line.strip_prefix(SKIP) {
                    reason = Some(text.trim_end_matches("-->").trim().to_owned());
                }
            }
            (Some(_), "```") => fence = None,
            (Some(kind), line) => {
                let block = blocks.last_mut().expect("an open block");
                let text = if kind == "bash" { &mut block.script } else { block.shows.as_mut().unwrap() };
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    blocks
}

/// All blocks as one script, each with files of its own for what it prints. The first command that fails ends it.
fn script(blocks: &[Block]) -> String {
    let mut script = String::from("set -eu -o pipefail\n");
    for (number, block) in blocks.iter().enumerate() {
        script.push_str(&format!(
            "echo {number} > \"$TOUR/reached\"; exec > \"$TOUR/{number}.out\" 2> \"$TOUR/{number}.err\"\n{}",
            block.script
        ));
    }
    script
}

/// A bash with an empty home, `rex` and `rexd` on its PATH, and an ssh that knows the other machine.
fn bash(sandbox: &Sandbox, script: &str) -> Command {
    symlink(REX, sandbox.path("bin/rex")).unwrap();
    symlink(program("rexd"), sandbox.path("bin/rexd")).unwrap();
    fs::create_dir(sandbox.path("tour")).unwrap();
    let file = sandbox.write("tour/script", script);
    let mut command = sandbox.command("/bin/bash");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", sandbox.path("bin").display());
    command.env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME").env("PATH", path);
    command.env("TOUR", sandbox.path("tour")).arg(file).current_dir(sandbox.path("home"));
    command
}

/// A machine with its own home directory, whose user cannot write to system directories; every host name resolves to it.
fn another_machine(sandbox: &Sandbox) -> Sshd {
    let home = sandbox.path("there");
    fs::create_dir(&home).unwrap();
    let mut settings = format!("SetEnv HOME={}\n", home.display());
    if rustix::process::geteuid().is_root() {
        // Root could write to this machine's own /usr/local/bin.
        fs::set_permissions(sandbox.path(""), fs::Permissions::from_mode(0o711)).unwrap();
        chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
        settings.push_str(&format!(
            "ForceCommand cd {home}; exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups \
             sh -c \"$SSH_ORIGINAL_COMMAND\"\n",
            home = home.display()
        ));
    } else {
        settings
            .push_str(&format!("ForceCommand cd {}; exec sh -c \"$SSH_ORIGINAL_COMMAND\"\n", home.display()));
    }
    let sshd = Sshd::start_with(sandbox, &settings);
    let config = sshd.client_config(sandbox);
    let ssh = format!("#!/bin/sh\nexec /usr/bin/ssh -F '{}' \"$@\"\n", config.display());
    executable(&sandbox.write("bin/ssh", ssh));
    sshd
}

fn executable(file: &Path) {
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Whether lines are as shown: `…` alone is any number of lines, within a line it is any text.
fn fits(shown: &str, printed: &str) -> bool {
    let (shown, printed): (Vec<&str>, Vec<&str>) = (shown.lines().collect(), printed.lines().collect());
    lines_fit(&shown, &printed)
}

fn lines_fit(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"…", rest)) => (0..=printed.len()).any(|skipped| lines_fit(rest, &printed[skipped..])),
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| line_fits(line, first) && lines_fit(rest, others)),
    }
}

fn line_fits(shown: &str, printed: &str) -> bool {
    match shown.split_once('…') {
        None => shown == printed,
        Some((start, rest)) => printed.strip_prefix(start).is_some_and(|printed| {
            printed
                .char_indices()
                .map(|(place, _)| place)
                .chain([printed.len()])
                .any(|place| line_fits(rest, &printed[place..]))
        }),
    }
}

#[test]
fn what_is_shown_is_compared() {
    assert!(
        fits("a\n…\nz\n", "a\nb\nc\nz\n") && fits("a\n…\nz\n", "a\nz\n") && fits("p_… run\n", "p_12 run\n")
    );
    assert!(!fits("a\n", "a\nb\n") && !fits("a…c\n", "abd\n") && !fits("…\nz\n", "a\n") && !fits("a\n", ""));
}
