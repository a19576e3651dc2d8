//! Compares the policy with real shells: the policy finds every command that a shell runs.
//!
//! Every shell of this machine runs random texts with only a marker program called `rm` on its `PATH`. If the marker ran, a
//! policy that denies `rm` must not have allowed the text.

#![expect(clippy::unwrap_used, reason = "a test whose tools fail has failed")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use engine::policy::{
    ArgvPattern, CommandLine, Matcher, Policy, PolicyOperation, PolicyQuery, PolicySettings, Rule, Verdict,
};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

#[rustfmt::skip]
const PARTS: &[&str] = &[
    "rm", "rm x", "rm x\n", "rm x;", "\nrm x\n", " ", " ", " ", "\n", "\n", ";", "&", "&&", "||", "|", "(", ")", "{ ", "; }", "<", ">",
    "<<", "<<-", "<<<", "EOF", "\nEOF\n", "\n\tEOF\n", ": <<EOF\n", ": <<'EOF'\n", ": <<-EOF\n", ": <<E\\OF\n", "E", "'", "'", "\"",
    "\"", "`", "`", "$", "$(", "\"$(", ")\"", "$((", "$((1<<", "((1<<", "))", "${", "${x:-", "${x#", "}", "\\", "\\\n", "#", "=", "x=",
    "x=(", "x", "if true; then ", "else ", "; fi", "for x in 1; do ", "; done", "while ", "case x in x) ", "x) ", ";;", ";; esac", "!",
    "~", "*", "1", "2", "[", "]", "[[ ", " ]]", "time ", "function f ", "f() ", "f", "eval ", "true", "true ", "echo ", ": ", "exec ",
    "command ", "&>", ">&", "2>&1", "\t", "$'", "@", "{rm,x}", "r", "m", "set -- rm;", "\"$@\"", "$x", "trap ", " EXIT", "((", "+",
    "a[", ",", "x='rm x';", "x='a[$(rm)]';", "alias f=rm\n", "\r", "\u{b}", "\u{a0}",
];

/// Texts that mention or almost run `rm`, which are mutated at random.
#[rustfmt::skip]
const SEEDS: &[&str] = &[
    "echo a &>b rm x", "echo 'rm x'", "echo \"rm x\"", ": <<EOF\nrm x\nEOF\n", ": <<'EOF'\n$(rm x)\nEOF\n", ": <<-EOF\n\trm x\n\tEOF\n",
    ": <<A <<B\nA\nrm x\nB\n", "((x<<2))\nrm x\n2", "echo $((1<<2))\n: rm x\n2", "echo $'a\\'; rm x; '", "# rm x\n:", "echo a # rm x",
    "echo a#; : rm x", "x='rm x'; : $x", "x='a[$(rm x)]'; : $((x))", "case rm in rm) : ;; esac", "case x in rm x) : ;; esac", ": ${x:-rm x}",
    ": \"${x:-'rm x'}\"", ": `: rm x`", ": \"`: \\\"rm x\\\"`\"", "f() { : rm x; }; f", "for rm in 1; do : $rm; done", "[[ a && rm ]]",
    "x=(rm x)", "echo \\\nrm x", "echo a\\; rm x", "echo a \\| rm x", ": > rm", ": 2>&1 rm x", "echo {rm,x}", "alias f=rm\n: f", "trap ': rm x' EXIT",
    "eval ': rm x'", "set -- rm; : $@", "if :; then : rm x; fi", "echo $(: rm x)", "time : rm x", "! : rm x", "{ : rm x; }", "( : rm x )", "cat <(: rm x)",
    ": \"a\\\"; rm x\"", "x=1 : rm x", "exec 3>a; : rm x", ": <<< 'rm x'", ": \"$(: \"rm x\")\"", "echo ${#x} rm x", ": '\n' rm x", "a=b\\\n: rm x",
];

/// A seed with a few parts inserted, removed or replaced.
fn mutated() -> impl Strategy<Value = String> {
    let change = (any::<prop::sample::Index>(), 0..4_u8, prop::sample::select(PARTS));
    (prop::sample::select(SEEDS), prop::collection::vec(change, 0..4)).prop_map(mutate)
}

fn mutate((seed, changes): (&str, Vec<(prop::sample::Index, u8, &str)>)) -> String {
    let mut text: Vec<char> = seed.chars().collect();
    for (at, way, part) in changes {
        let at = at.index(text.len() + 1);
        let end = (at + 1 + usize::from(way == 3)).min(text.len());
        let put: Vec<char> = if way < 2 { part.chars().collect() } else { Vec::new() };
        text.splice(at..if way == 0 { at } else { end }, put);
    }
    text.into_iter().collect()
}

/// A larger command with which a shell or a tool of this machine runs this command.
fn wrapped(command: String, way: usize) -> String {
    let quoted = format!("'{}'", command.replace('\'', "'\\''"));
    let inner = command.replace('\\', "\\\\").replace('"', "\\\"");
    match way {
        0 => format!("true; {command}"),
        1 => format!("true &&\n{command}"),
        2 => format!("({command})"),
        3 => format!("echo \"$({command})\""),
        4 => format!("f() {{ {command}\n}}; f"),
        5 => format!("sh -c {quoted}"),
        6 => format!("env A=1 sh -c {quoted}"),
        7 => format!("eval {quoted}"),
        8 => format!("echo x | xargs -I% sh -c {quoted}"),
        9 => format!("find . -maxdepth 0 -exec sh -c {quoted} \\;"),
        10 => format!("cat <<E\n$({command})\nE\n"),
        11 => format!("case x in x) {command}\n;; esac"),
        12 => format!("timeout 2 nice -n 1 sh -c {quoted}"),
        13 => format!("trap {quoted} EXIT"),
        14 => format!("git -c alias.x='!{}' x", command.replace('\'', "'\\''")),
        15 => format!("git init -q; GIT_PAGER={quoted} git -p config -l"),
        16 => format!("awk 'BEGIN {{ system(\"{}\") }}'", inner.replace('\'', "'\\''")),
        17 => format!("echo x | sed {}", format_args!("'1e {}'", command.replace('\'', "'\\''"))),
        18 => format!("tar -cf a.tar . --checkpoint=1 --checkpoint-action=exec={quoted}"),
        19 => format!("echo x | split --filter={quoted} -"),
        20 => format!("tar -cf a.tar -I {quoted} ."),
        21 => format!("ssh -oBatchMode=yes -o ProxyCommand={quoted} h.invalid"),
        22 => format!("make -s --eval=x:\\;{quoted} x"),
        23 => format!("printf %s {quoted} | sh"),
        24 => format!("sh <<'E'\n{command}\nE\n"),
        25 => format!("x={quoted}; eval \"$x\""),
        26 => format!("alias y={quoted}\ny"),
        27 => format!("{{ {command}\n}} 2>&1 | cat"),
        28 => format!("set -- {quoted}; sh -c \"$1\""),
        29 => format!("nohup stdbuf -oL sh -c {quoted}"),
        30 => format!("exec sh -c {quoted}"),
        31 => format!(
            "git bisect start; git submodule foreach {quoted}; GIT_EDITOR={quoted} git var GIT_EDITOR"
        ),
        32 => {
            format!("echo \"`{}`\"", command.replace('\\', "\\\\").replace('`', "\\`").replace('"', "\\\""))
        }
        33 => format!("while :; do {command}\nbreak; done"),
        34 => format!("echo x | xargs env -S {quoted}"),
        _ => format!("A=$({command}) B=`{}`", command.replace('\\', "\\\\").replace('`', "\\`")),
    }
}

/// Number of ways of [`wrapped`].
const WAYS: usize = 36;

/// The marker with each letter quoted in some way.
fn disguised() -> impl Strategy<Value = String> {
    prop::collection::vec(0..8_u8, 2).prop_map(|ways| {
        let letters = "rm".chars().zip(ways).map(|(letter, way)| match way {
            0 => format!("'{letter}'"),
            1 => format!("\"{letter}\""),
            2 => format!("\\{letter}"),
            3 => format!("{letter}\\\n"),
            4 => format!("{letter}''"),
            _ => letter.to_string(),
        });
        format!("{} x", letters.collect::<String>())
    })
}

/// A disguised marker, wrapped a few times and possibly damaged.
fn nested() -> impl Strategy<Value = String> {
    #[rustfmt::skip]
    const DAMAGE: &[&str] = &[
        "", "", "'", "\"", "\\", "`", "$", "(", ")", "{", "}", ";", "|", "&", "\n", "#", "=", " ", "$(", "<", "x", "\\\n", "!", "-", "*", "~",
    ];
    let damage = (any::<prop::sample::Index>(), any::<bool>(), prop::sample::select(DAMAGE));
    (disguised(), prop::collection::vec(0..WAYS, 0..4), prop::collection::vec(damage, 0..3)).prop_map(
        |(command, ways, damage)| {
            let line = ways.into_iter().fold(command, wrapped);
            let mut text: Vec<char> = line.chars().collect();
            for (at, replaces, part) in damage {
                let at = at.index(text.len() + 1);
                let end = (at + usize::from(replaces && !part.is_empty())).min(text.len());
                text.splice(at..end, part.chars());
            }
            text.into_iter().collect()
        },
    )
}

fn no_rm() -> Policy {
    let matcher = Matcher::Argv(ArgvPattern::new(&["rm".to_owned(), "*".to_owned()]).unwrap());
    let rule = Rule::new("no rm", Verdict::Deny, matcher);
    Policy::new(PolicySettings { rules: vec![rule], ..PolicySettings::default() }).unwrap()
}

fn verdict(policy: &Policy, text: &str) -> Verdict {
    let operation = PolicyOperation::Run {
        line: CommandLine::Shell { line: text, login: false },
        cwd: Path::new("/work"),
        env: &[],
    };
    policy.decide(&PolicyQuery { face: "rexd", client: "agent", caller: "uid:1000", operation }).verdict
}

/// The same cases in every run; `POLICY_CASES=N` tries N random ones.
fn runner() -> TestRunner {
    let requested = std::env::var("POLICY_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = requested.unwrap_or(300);
    let config = ProptestConfig { cases, max_global_rejects: 10_000_000, ..ProptestConfig::default() };
    match requested {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    }
}

fn shells() -> Vec<PathBuf> {
    ["/bin/dash", "/bin/bash", "/bin/busybox"].map(PathBuf::from).into_iter().filter(|p| p.exists()).collect()
}

/// Whether the shell ran the marker.
fn runs_marker(shell: &Path, text: &str, directory: &Path) -> bool {
    runs_marker_with(shell, text, directory, directory.join("bin").as_os_str())
}

/// Whether the shell ran the marker, with this `PATH`.
fn runs_marker_with(shell: &Path, text: &str, directory: &Path, path: &OsStr) -> bool {
    // Processes of an earlier text may still run: every text has its own directory and marker.
    let run = tempfile::tempdir_in(directory).unwrap();
    let (marker, work) = (run.path().join("marker"), run.path().join("work"));
    fs::create_dir(&work).unwrap();
    let mut command = Command::new("/usr/bin/timeout");
    command.args(["-s", "KILL", "2"]).arg(shell);
    if shell.ends_with("busybox") {
        command.arg("sh");
    }
    let status = command
        .args(["-c", text])
        .env_clear()
        .env("PATH", path)
        .env("HOME", &work)
        .env("MARKER", &marker)
        .current_dir(&work)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.unwrap();
    marker.exists()
}

fn with_marker() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("bin")).unwrap();
    let rm = directory.path().join("bin/rm");
    fs::write(&rm, "#!/bin/sh\n: > \"$MARKER\"\n").unwrap();
    fs::set_permissions(&rm, fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// ARCHITECTURE.md, invariant 23.
#[test]
fn the_policy_finds_every_command_that_a_shell_runs() {
    let directory = with_marker();
    let (policy, shells) = (no_rm(), shells());
    let mixed = prop::collection::vec(prop::sample::select(PARTS), 1..12).prop_map(|parts| parts.concat());
    let texts = prop_oneof![1 => mixed, 4 => mutated()];
    let mut runner = runner();
    runner
        .run(&texts, |text| {
            prop_assume!(text.contains('r') && text.contains('m'));
            let verdict = verdict(&policy, &text);
            if verdict == Verdict::Allow {
                for shell in &shells {
                    prop_assert!(
                        !runs_marker(shell, &text, directory.path()),
                        "{} runs {text:?}",
                        shell.display()
                    );
                }
            }
            Ok(())
        })
        .unwrap();
}

/// The marker first, then the tools of this machine.
fn with_tools(directory: &Path) -> OsString {
    let mut path = directory.join("bin").into_os_string();
    path.push(":/usr/bin:/bin");
    path
}

#[test]
fn the_policy_finds_every_command_that_the_tools_of_this_machine_run() {
    let directory = with_marker();
    let (policy, shells, path) = (no_rm(), shells(), with_tools(directory.path()));
    let mut runner = runner();
    runner
        .run(&nested(), |text| {
            prop_assume!(verdict(&policy, &text) == Verdict::Allow);
            for shell in &shells {
                prop_assert!(
                    !runs_marker_with(shell, &text, directory.path(), &path),
                    "{} runs {text:?}",
                    shell.display()
                );
            }
            Ok(())
        })
        .unwrap();
}

/// Without this the test above would prove nothing.
#[test]
fn the_tools_of_this_machine_really_run_what_they_are_given() {
    let directory = with_marker();
    let path = with_tools(directory.path());
    let shell = Path::new("/bin/sh");
    let runs =
        |way: usize| runs_marker_with(shell, &wrapped("rm x".to_owned(), way), directory.path(), &path);
    let silent: Vec<usize> = (0..WAYS).filter(|way| !runs(*way)).collect();
    println!("ways that run nothing here: {silent:?}");
    assert!(silent.len() <= 8, "{silent:?}");
    for way in 0..WAYS {
        let text = wrapped("rm x".to_owned(), way);
        assert!(verdict(&no_rm(), &text) != Verdict::Allow, "{text:?}");
    }
}

#[test]
fn the_marker_itself_works() {
    let directory = with_marker();
    for shell in shells() {
        assert!(runs_marker(&shell, "rm x", directory.path()), "{}", shell.display());
        assert!(!runs_marker(&shell, "echo rm", directory.path()), "{}", shell.display());
    }
}

/// Parts of texts that set `PATH`, in the ways of the seeds below and of their mutations.
#[rustfmt::skip]
const PATH_PARTS: &[&str] = &[
    "ls", "ls;", ";", " ", " ", "\n", "PATH=5", "PATH", "=5", "$((", "))", "[[ ", " ]]", " -eq 5", "${a[", "]}", "${a:", "}", "${!", "x",
    "x='PATH=5';", "printf -v ", "read ", " <<< 5", "let ", "declare ", "export ", "-i ", "-n ", "x=", "unset ", "for ", " in 5; do ",
    "; done", "\"", "'", "$", "(", ")", "((", "mapfile -t ", "getopts a ", "a[", "]", "+=", "++", ",", "?", ":", "echo ", ": ", "{", "exec ",
    "set -a;", "test ", "[ ", " ]", "-v ", "local ", "readonly ", "select ", "&&", "|", "$x", "5", "@", "#", "~", "command ", "builtin ",
];

/// Texts that run `ls` from another directory, or almost.
#[rustfmt::skip]
const PATH_SEEDS: &[&str] = &[
    "PATH=5; ls", "PATH=5 ls", "export PATH=5; ls", "echo $((PATH=5)); ls", ": $((PATH=5)); ls", "x='PATH=5'; : $((x)); ls", "printf -v PATH 5; ls",
    "printf -vPATH 5; ls", "[[ PATH=5 -eq 5 ]]; ls", "x='PATH=5'; [[ x -eq 5 ]]; ls", "x='PATH=5'; [[ $x -eq 5 ]]; ls", ": ${a[PATH=5]}; ls",
    ": ${a:PATH=5}; ls", ": ${a:0:PATH=5}; ls", ": ${#a[PATH=5]}; ls", "x='a[PATH=5]'; : ${!x}; ls", "read PATH <<< 5; ls", "read -r PATH <<< 5; ls",
    "let PATH=5; ls", "let x=PATH=5; ls", "declare -i x=PATH=5; ls", "declare -i x; x=PATH=5; ls", "declare -n x=PATH; x=5; ls", "mapfile -t PATH <<< 5; ls",
    "for PATH in 5; do ls; done", "unset PATH; PATH=5; ls", "getopts 5 PATH -5; ls", "[[ -v a[PATH=5] ]]; ls", "[ -v 'a[PATH=5]' ]; ls",
    "test -v 'a[PATH=5]'; ls", "unset PATH; : ${PATH:=5}; ls", "unset PATH; : ${PATH=5}; ls", "env PATH=5 ls", "readonly PATH=5; ls", "unset 'a[PATH=5]'; ls",
    "exec {PATH}>5; ls", "wait -p PATH; ls", "a[PATH=5]=1; ls", "a=([PATH=5]=1); ls", "set -- PATH=5; : $(($1)); ls", "command export PATH=5; ls",
    "builtin export PATH=5; ls", "f() { local PATH=5; ls; }; f", "declare PATH+=5; ls", "PATH+=5; ls", ": $((x=5, PATH=x)); ls", "x=PATH; : $(($x=5)); ls",
    "echo $((1 + 2)); ls", "x=5; ls", "for x in 5; do ls; done", ": ${x:-5} ${x:1:2} ${a[1]}; ls", "[ 1 -eq 5 ]; ls",
];

/// Allows `ls` and the builtins of the texts, and nothing else.
fn only_ls() -> Policy {
    #[rustfmt::skip]
    let names = [
        "ls", "echo", ":", "printf", "[[", "[", "test", "read", "let", "declare", "export", "mapfile", "unset", "getopts", "exec", "wait", "set",
        "command", "builtin", "local", "readonly", "env", "true",
    ];
    let rules = names.map(|name| {
        let pattern = ArgvPattern::new(&[name.to_owned(), "*".to_owned()]).unwrap();
        Rule::new(name, Verdict::Allow, Matcher::Argv(pattern))
    });
    let settings =
        PolicySettings { rules: rules.into(), default: Verdict::Deny, ..PolicySettings::default() };
    Policy::new(settings).unwrap()
}

/// A directory with a harmless `ls` on the `PATH`, and the marker as `ls` in the directory `5` of the working directory.
fn with_two_programs() -> tempfile::TempDir {
    let directory = with_marker();
    fs::write(directory.path().join("bin/ls"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(directory.path().join("bin/ls"), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// Whether the shell ran the `ls` in the directory `5`.
fn runs_other_program(shell: &Path, text: &str, directory: &Path) -> bool {
    // The prelude runs before the text and makes the directory `5`.
    let rm = directory.join("bin/rm");
    let text = format!("/bin/mkdir 5; /bin/cp {} 5/ls\n{text}", rm.display());
    runs_marker(shell, &text, directory)
}

/// ARCHITECTURE.md, invariant 23.
#[test]
fn the_policy_finds_every_text_that_changes_where_programs_are_found() {
    let directory = with_two_programs();
    let (policy, shells) = (only_ls(), shells());
    let change = (any::<prop::sample::Index>(), 0..4_u8, prop::sample::select(PATH_PARTS));
    let texts = (prop::sample::select(PATH_SEEDS), prop::collection::vec(change, 0..3)).prop_map(mutate);
    let mut runner = runner();
    runner
        .run(&texts, |text| {
            if verdict(&policy, &text) == Verdict::Allow {
                for shell in &shells {
                    let ran = runs_other_program(shell, &text, directory.path());
                    prop_assert!(!ran, "{} runs another ls: {text:?}", shell.display());
                }
            }
            Ok(())
        })
        .unwrap();
}

/// Without this the test above would prove nothing.
#[test]
fn most_seeds_really_change_where_programs_are_found() {
    let directory = with_two_programs();
    let runs = |text: &str| shells().iter().any(|shell| runs_other_program(shell, text, directory.path()));
    let (changing, others): (Vec<&str>, Vec<&str>) = PATH_SEEDS.iter().partition(|text| runs(text));
    println!("seeds that run the same ls: {others:#?}");
    assert!(changing.len() >= 30, "{} of {}", changing.len(), PATH_SEEDS.len());
    for text in changing {
        assert_eq!(verdict(&only_ls(), text), Verdict::Deny, "{text:?}");
    }
    assert_eq!(verdict(&only_ls(), "x=5; ls"), Verdict::Allow);
}
