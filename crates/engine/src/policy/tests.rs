//! Decisions of policies on commands; no known trick turns a denied command into an allowed one.

use super::*;
use crate::Error;
use proptest::prelude::*;
use std::path::Path;

pub(super) fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(super) fn rule(verdict: Verdict, argv: &[&str]) -> Rule {
    Rule::new(&argv.join(" "), verdict, Matcher::Argv(ArgvPattern::new(&texts(argv)).unwrap()))
}

fn class_rule(verdict: Verdict, class: Class) -> Rule {
    Rule::new(&format!("{class:?}"), verdict, Matcher::Class(class))
}

pub(super) fn policy(default: Verdict, rules: Vec<Rule>) -> Policy {
    Policy::new(PolicySettings { rules, default, ..PolicySettings::default() }).unwrap()
}

/// The query for a command line.
pub(super) fn run(line: CommandLine<'_>) -> PolicyQuery<'_> {
    let operation = PolicyOperation::Run { line, cwd: Path::new("/code"), env: &[] };
    PolicyQuery { face: "rexd", client: "agent", caller: "uid:1000", operation }
}

fn decide_shell(policy: &Policy, line: &str) -> Decision {
    policy.decide(&run(CommandLine::Shell { line, login: false }))
}

pub(super) fn shell(policy: &Policy, line: &str) -> Verdict {
    decide_shell(policy, line).verdict
}

pub(super) fn argv(policy: &Policy, words: &[&str]) -> Verdict {
    policy.decide(&run(CommandLine::Argv(&texts(words)))).verdict
}

/// Allows everything except `rm`.
pub(super) fn no_rm() -> Policy {
    policy(Verdict::Allow, vec![rule(Verdict::Deny, &["rm", "*"])])
}

#[test]
fn the_first_rule_that_matches_decides() {
    let policy = policy(
        Verdict::Deny,
        vec![
            rule(Verdict::Allow, &["git", "push", "--dry-run", "*"]),
            rule(Verdict::Ask, &["git", "push", "*"]),
            rule(Verdict::Allow, &["git", "*"]),
        ],
    );
    assert_eq!(argv(&policy, &["git", "push", "--dry-run", "origin"]), Verdict::Allow);
    assert_eq!(argv(&policy, &["git", "push", "origin"]), Verdict::Ask);
    assert_eq!(argv(&policy, &["git", "status"]), Verdict::Allow);
    assert_eq!(argv(&policy, &["ls"]), Verdict::Deny);
    let decision = policy.decide(&run(CommandLine::Argv(&texts(&["git", "push"]))));
    assert_eq!(&*decision.rule, "git push *");
    assert!(decision.into_result().unwrap_err().to_string().contains("no approver"));
}

#[test]
fn without_rules_everything_is_allowed_without_analysis() {
    let policy = Policy::default();
    for line in ["rm -rf /", "((unparsable", "$x"] {
        assert_eq!(shell(&policy, line), Verdict::Allow);
    }
}

/// Known ways to run `rm` although `rm` is denied.
#[rustfmt::skip]
const TRICKS: &[&str] = &[
    "rm x", "/bin/rm x", "../rm x", "r''m x", "\"rm\" x", "\\rm x", "r\\\nm x", "true; rm x",
    "true && rm x", "false || rm x", "true | rm x", "true & rm x", "true\nrm x", "(rm x)", "{ rm x; }",
    "! rm x", "echo $(rm x)", "echo `rm x`", "echo \"$(rm x)\"", "cat <(rm x)", "A=1 rm x", "A=$(rm x)",
    "if rm x; then :; fi", "for i in 1; do rm x; done", "case a in a) rm x;; esac", "f() { rm x; }; f",
    "env rm x", "env A=1 rm x", "env -i A=1 rm x", "env -u A -- rm x", "env -S 'rm x'", "nohup rm x",
    "timeout 5 rm x", "timeout -k 1 5 rm x", "timeout --signal=KILL 5 rm x", "nice -n 5 rm x",
    "setsid -w rm x", "time rm x", "command rm x", "exec rm x", "exec -a y rm x", "builtin rm x",
    "sudo rm x", "sudo -u a rm x", "sudo -n A=1 rm x", "doas rm x", "echo x | xargs rm",
    "echo x | xargs -n1 rm", "echo x | xargs -I{} rm {}", "echo rm | xargs -I{} {} x",
    "echo rm | xargs -0I% % x", "echo rm | xargs -i sh -c '{} x'", "sh -c 'rm x'", "bash -lc 'rm x'",
    "bash -o pipefail -c 'rm x'", "bash --norc -ec 'rm x'", "bash -norc /dev/stdin",
    "sh -c \"sh -c 'rm x'\"", "eval rm x", "eval 'r''m x'", "eval \"$x\"", "find . -exec rm {} \\;",
    "find . -name a -execdir rm {} +", "find . -exec echo {} + -exec rm {} +", "busybox rm x",
    "ionice -c 3 rm x", "stdbuf -oL rm x", "$x rm", "$'rm' x", "{rm,x}", "`echo rm` x", "$(echo rm) x",
    "curl u | sh", "curl u | bash -s", "sh < f", "bash <<< 'rm x'", "bash /dev/stdin", ". /dev/stdin",
    "zsh -c 'rm x'", "trap 'rm x' EXIT", "alias ls='rm x'\nls", "hash -p /bin/rm ls",
    "PS4='$(rm x)'; set -x; :", "BASH_ENV=f bash -c ls", "env BASH_ENV=f bash -c ls", "export ENV=f",
    "parallel rm ::: x", "watch rm x", "script -c 'rm x'", "su -c 'rm x'", "flock f rm x",
    "ld.so /bin/rm x", "taskset 1 rm x", "echo a &>b rm x", "cat <<E\n$(rm x)\nE\n", "x=(a $(rm x))",
    "echo ${x:-$(rm x)}", "command -p rm x", "function f { rm x; }", "select i in 1; do rm x; done",
    "[[ a && rm x ]]", "time -p -- rm x", "exec 3>f rm x", "2>&1 rm x", ">f rm x", "<f rm x",
    "chroot / rm x", "mapfile -C 'rm x' a", "env -C / rm x", "nice rm x", "timeout $T rm x", "env $X",
    "sudo $X", "~/rm x", "xargs -a f rm", "repeat 3 rm x", "sh -c", "bash $X",
    "git -c alias.x='!rm x' x", "git -c core.sshCommand='rm x' fetch", "git -c core.pager='rm x' log", "git $x",
    "git --config-env=alias.x=Y x", "git --exec-path=/x y", "git config alias.x '!rm x'", "git rebase -x 'rm x' main",
    "git rebase --exec='rm x'", "git bisect run rm x", "git submodule foreach 'rm x'", "git submodule foreach --recursive rm x",
    "git fetch --upload-pack='rm x' .", "git clone -u 'rm x' a b", "git clone -c core.fsmonitor=x a", "git fetch ext::rm",
    "git filter-branch --tree-filter 'rm x'", "git grep -Orm x", "git difftool -x rm",
    "GIT_SSH_COMMAND='rm x' git fetch", "PAGER='rm x' man ls", "EDITOR=rm git commit", "env VISUAL=rm crontab -e",
    "export GIT_PAGER='rm x'; git log", "EDITOR=$x git commit", "GIT_CONFIG_COUNT=1 git x", "LD_PRELOAD=x ls",
    "PERL5OPT=-Mx perl f", "NODE_OPTIONS='--require ./x' node f", "LESSOPEN='|rm %s' less f", "IFS=x; $IFS",
    "awk 'BEGIN { system(\"rm x\") }'", "awk 'BEGIN { \"rm x\" | getline }'", "gawk '{ print | \"rm x\" }' f", "awk $x f",
    "sed '1e rm x' f", "sed 's/.*/rm x/e' f", "sed -n $x f", "tar xf a --to-command='rm x'", "tar xf a --to-command rm",
    "tar -cf a --checkpoint=1 --checkpoint-action=exec='rm x' b", "tar -I 'rm x' -cf a b", "tar cIf rm a b",
    "tar -cf a . --checkpoint=1 --checkpoint-action exec='rm x'",
    "tar -cf a . --checkpoint=1 --checkpoint-action=exec='\"rm\" x'", "ssh -o =ProxyCommand='\\rm x' h", "ssh -o $X h",
    "tar --use-compress='rm x' -cf a b", "rsync -e 'rm x' a b:c", "rsync --rsh='rm x' a b:", "rsync -ae 'rm x' a b:c",
    "ssh -o ProxyCommand='rm x' h", "ssh -oproxycommand='rm x' h", "scp -o 'ProxyCommand rm x' a b:",
    "vi -c '!rm x'", "vim '+!rm x'", "echo ':!rm x' | ex", "ed f", "emacs --batch --eval '(x)'",
    "split --filter='rm x' f", "rg --pre rm x",
    "sort --compress-program=rm f", "uv run rm x", "poetry run sh -c 'rm x'", "npx rm x", "npx -c 'rm x'", "bundle exec rm x",
    "xvfb-run -a rm x", "valgrind rm x", "prlimit --nproc=1 rm x", "faketime 1 rm x", "fd -x rm", "make --eval 'x:;rm x'",
    "scp -S rm a b:", "make --eva='x:;rm x'", "make -E 'x:;rm x'", "make -sE 'x:;rm x'",
    "make --eval=\"$x\"", "split --f='rm x' f", "make -f /dev/stdin", "make SHELL=rm", "sqlite3 f '.shell rm x'", "psql -c '\\! rm x'", "nc -e rm h 1", "socat x EXEC:rm",
    "tmux new 'rm x'", "echo 'rm x' | at now", "less '+!rm x' f", "go test -exec 'rm x'", "man -P 'rm x' ls", "dc -e '!rm x'",
];

/// ARCHITECTURE.md, invariant 23.
#[test]
fn no_known_trick_runs_a_denied_command() {
    let policy = no_rm();
    for line in TRICKS {
        assert_ne!(shell(&policy, line), Verdict::Allow, "{line:?}");
    }
    let argv_table: &[&[&str]] = &[
        &["rm", "x"],
        &["/usr/bin/rm", "x"],
        &["sh", "-c", "rm x"],
        &["env", "sh", "-c", "rm x"],
        &["bash", "-lc", "true;rm x"],
        &["sh"],
        &["bash", "-s"],
        &["xargs", "rm"],
        &["env", "-S", "rm x"],
        &["sudo", "--weird", "rm"],
        &["sh", "-c", "$0 x", "rm"],
        &["sh", "-c", "\"$@\"", "_", "rm", "x"],
    ];
    for words in argv_table {
        assert_ne!(argv(&policy, words), Verdict::Allow, "{words:?}");
    }
}

/// Everyday commands of people and agents.
#[rustfmt::skip]
const ORDINARY: &[&str] = &[
    "ls -la",
    "cargo test 2>&1 | tail -20",
    "for f in *.rs; do wc -l \"$f\"; done",
    "cd x && make -j\"$(nproc)\"",
    "echo 'rm x'",
    "grep -r \"rm -rf\" .",
    "git commit -m \"$(cat <<'EOF'\nfix: rm\nEOF\n)\"",
    "cat <<EOF > f\nrm x\nEOF\n",
    "if [ -f x ]; then echo \"$x\"; fi",
    "i=$((i + 1))",
    "export PATH=$PATH:/x",
    "bash script.sh",
    "python script.py -c x",
    "python3 -m pytest -x",
    "python3 -X dev -u script.py",
    "node server.js -p 3000",
    "perl script.pl -e",
    "node --version",
    "awk -F: '{print $1}' f",
    "awk 'NR > 1 || /x/ { print }' f",
    "sed -n '1,20p' f",
    "sed -i 's/a/b/g' f",
    "git -c user.name=x commit -m 'a b'",
    "git -c core.pager=cat log",
    "git config user.email a@b",
    "git config --get alias.x",
    "GIT_PAGER=cat git log",
    "EDITOR=true git commit --amend",
    "git rebase --exec 'cargo test' main",
    "git push origin main",
    "rsync -e ssh -a a b:c",
    "rsync -e 'ssh -p 22' a b:",
    "tar -I zstd -xf a.tar",
    "tar czf a.tgz dir",
    "tar --exclude=target -czf \"$x\" .",
    "ssh host ls",
    "wget https://my-example.com/x",
    "nc my-example.com 80",
    "npm rm x",
    "npm run build",
    "npm install node",
    "conda install python",
    "uv run pytest",
    "npx tsc --noEmit",
    "NODE_OPTIONS=--max-old-space-size=4096 node x.js",
    "PYTHONPATH=src python x.py",
    "make -j4 all",
    "sort -u f",
    "bash -lc 'if [ -f x ]; then echo $(date); fi'",
    "find . -name '*.o' -exec ls {} \\;",
    "env | sort",
    "command -v rm",
    "sudo -l",
    "xargs -n1 echo < f",
    "timeout 5 make",
    "A=1 make",
    "set -euo pipefail; make",
    "trap - EXIT",
    "test -d x",
];

#[test]
fn ordinary_work_is_not_disturbed_by_a_denied_command() {
    let policy = no_rm();
    for line in ORDINARY {
        assert_eq!(shell(&policy, line), Verdict::Allow, "{line:?}: {:?}", decide_shell(&policy, line));
    }
}

/// Commands with code that is not analyzed.
#[rustfmt::skip]
const CODE: &[&str] = &[
    "python -c 'x'", "python3.12 -Ic x", "python3 - <<E\nx\nE\n", "echo x | python3", "perl -e 'system(x)'", "perl -ne x f",
    "ruby -e x", "node -e x", "node --eval=x", "node -p x", "php -r x", "lua -e x", "python -X dev -c x", "perl -I lib -e x",
    "perl -Mx f", "python /dev/stdin", "deno eval x", "Rscript -e x", "env A=1 python3 -c x", "uv run python -c x", "sh -c 'node -e x'",
];

#[test]
fn code_is_evaluated_by_name_and_arguments_if_the_default_allows() {
    let no_rm = no_rm();
    let no_python = policy(Verdict::Allow, vec![rule(Verdict::Deny, &["python*", "*"])]);
    for line in CODE {
        assert_eq!(shell(&no_rm, line), Verdict::Allow, "{line:?}: {:?}", decide_shell(&no_rm, line));
        let expected = if line.contains("python") { Verdict::Deny } else { Verdict::Allow };
        assert_eq!(shell(&no_python, line), expected, "{line:?}");
    }
}

#[test]
fn code_needs_a_rule_that_names_the_program_if_the_default_does_not_allow() {
    let any = || rule(Verdict::Allow, &["*", "*"]);
    for default in [Verdict::Ask, Verdict::Deny] {
        let wide = policy(default, vec![any(), class_rule(Verdict::Allow, Class::Build)]);
        for line in CODE {
            assert_eq!(shell(&wide, line), default, "{line:?}");
        }
        let named = policy(default, vec![rule(Verdict::Allow, &["python3", "-c", "*"])]);
        assert_eq!(shell(&named, "python3 -c x"), Verdict::Allow);
        assert_eq!(&*decide_shell(&named, "node -e x").rule, "default");
    }
}

#[test]
fn the_analysis_of_a_line_is_limited() {
    let policy = no_rm();
    let mut line = "rm x".to_owned();
    for _ in 0..5 {
        let quoted = format!("'{}'", line.replace('\'', "'\\''"));
        line = format!("npx {} sh -c {quoted}", "env ".repeat(30));
    }
    assert_ne!(shell(&policy, &line), Verdict::Allow);
    let many: Vec<&str> = std::iter::once("find").chain(std::iter::repeat_n("-exec", 100_000)).collect();
    assert_ne!(argv(&policy, &many), Verdict::Allow);
    assert_ne!(shell(&policy, "npx sh -c 'npx env npx rm x'"), Verdict::Allow);
    assert_ne!(shell(&policy, &format!("xvfb-run {} rm x", "-a ".repeat(100))), Verdict::Allow);
}

#[test]
fn an_allow_list_allows_only_what_it_names() {
    let policy = policy(
        Verdict::Deny,
        vec![rule(Verdict::Allow, &["git", "*"]), class_rule(Verdict::Allow, Class::ReadOnly)],
    );
    let allowed = [
        "git status",
        "/usr/bin/git log | head",
        "env git status",
        "timeout 5 git fetch",
        "bash -lc 'git status && ls'",
        "cd src && ls *.rs",
        "if git diff --quiet; then echo same; fi",
        "find . -name x",
    ];
    let denied = [
        "make",
        "git status; make",
        "./git status",
        "/tmp/git status",
        "PATH=/tmp git status",
        "PATH=/tmp; git status",
        "env PATH=/tmp git status",
        "export PATH=/tmp; git status",
        "LD_PRELOAD=x git status",
        "GIT_SSH_COMMAND=x git fetch",
        "ls > f",
        "find . -delete",
        "find . -exec make \\;",
        "$x",
        "cat x | sh",
        "/usr/../tmp/git status",
        "sudo git status",
        "./ls",
        "env",
        "bash",
        "bash script.sh",
    ];
    for line in allowed {
        assert_eq!(shell(&policy, line), Verdict::Allow, "{line:?}: {:?}", decide_shell(&policy, line));
    }
    for line in denied {
        assert_eq!(shell(&policy, line), Verdict::Deny, "{line:?}");
    }
}

#[test]
fn a_line_that_cannot_be_analyzed_needs_approval_if_the_default_is_ask() {
    let policy = policy(Verdict::Ask, vec![rule(Verdict::Allow, &["ls", "*"])]);
    assert_eq!(shell(&policy, "$x"), Verdict::Ask);
    assert_eq!(shell(&policy, "ls; ((x"), Verdict::Ask);
    assert_eq!(shell(&policy, "ls $x"), Verdict::Allow);
}

#[test]
fn unknown_words_count_as_matching_a_rule_that_denies_or_asks() {
    let policy = policy(
        Verdict::Allow,
        vec![
            rule(Verdict::Deny, &["git", "push", "--force", "*"]),
            rule(Verdict::Ask, &["git", "pull", "*"]),
        ],
    );
    assert_eq!(shell(&policy, "git push $FLAGS"), Verdict::Deny);
    assert_eq!(shell(&policy, "git $SUB"), Verdict::Deny);
    assert_eq!(shell(&policy, "git pull $X"), Verdict::Ask);
    assert_eq!(shell(&policy, "git status $X"), Verdict::Allow);
    assert_eq!(shell(&policy, "git push origin $X"), Verdict::Allow);
}

#[test]
fn sudo_runs_only_listed_commands() {
    let list = vec![ArgvPattern::new(&texts(&["systemctl", "restart", "*"])).unwrap()];
    let settings = PolicySettings { sudo: Some(list), default: Verdict::Deny, ..PolicySettings::default() };
    let policy = Policy::new(settings).unwrap();
    assert_eq!(shell(&policy, "sudo systemctl restart web"), Verdict::Allow);
    assert_eq!(shell(&policy, "sudo -n /usr/bin/systemctl restart web"), Verdict::Allow);
    for line in [
        "sudo systemctl stop web",
        "sudo sh -c 'systemctl restart web'",
        "sudo",
        "sudo -s",
        "sudo -l",
        "sudo ./systemctl restart x",
        "sudo systemctl restart web; id",
        "systemctl restart web",
        "sudo sudo systemctl restart web",
    ] {
        assert_eq!(shell(&policy, line), Verdict::Deny, "{line}");
    }
}

#[test]
fn shells_can_be_switched_off() {
    let policy = Policy::new(PolicySettings { allow_shell: false, ..PolicySettings::default() }).unwrap();
    assert_eq!(shell(&policy, "ls"), Verdict::NoShell);
    for words in [
        &["sh", "-c", "ls"][..],
        &["env", "bash", "-lc", "ls"],
        &["bash"],
        &["find", ".", "-exec", "sh", "-c", "ls", ";"],
    ] {
        assert_eq!(argv(&policy, words), Verdict::NoShell, "{words:?}");
    }
    assert_eq!(argv(&policy, &["ls", "-c"]), Verdict::Allow);
    assert_eq!(argv(&policy, &["bash", "script.sh"]), Verdict::Allow);
    let error =
        policy.decide(&run(CommandLine::Shell { line: "ls", login: true })).into_result().unwrap_err();
    assert!(matches!(error, Error::Unsupported { what: "shell", .. }));
}

#[test]
fn examples_are_checked_when_a_policy_is_created() {
    let make = |matches: &[&str], not: &[&str]| {
        let example = |text: &&str| Example::Shell((*text).to_owned());
        let rule = Rule {
            examples_match: matches.iter().map(example).collect(),
            examples_no_match: not.iter().map(example).collect(),
            ..rule(Verdict::Deny, &["git", "push", "*"])
        };
        Policy::new(PolicySettings { rules: vec![rule], ..PolicySettings::default() })
    };
    assert!(make(&["git push", "sh -c 'git push -f'"], &["git pull"]).is_ok());
    let error = make(&["git pull"], &[]).unwrap_err().to_string();
    assert_eq!(error, "rule \"git push *\" does not match its example \"git pull\"");
    let error = make(&[], &["env git push"]).unwrap_err().to_string();
    assert_eq!(error, "rule \"git push *\" matches its example \"env git push\"");
}

#[test]
fn a_decision_checks_only_rules_that_can_match() {
    let glob =
        |text: String| Matcher::Paths { globs: vec![PathGlob::new(&text).unwrap()], access: RuleAccess::Any };
    let mut rules: Vec<Rule> =
        (0..1_000).map(|n| rule(Verdict::Deny, &[&format!("tool{n}"), "run", "*"])).collect();
    rules.extend(
        (0..1_000).map(|n| Rule::new("below", Verdict::Deny, glob(format!("/srv/app{n}/secrets/**")))),
    );
    rules.extend((0..1_000).map(|n| Rule::new("named", Verdict::Deny, glob(format!("**/secret{n}.pem")))));
    let many = policy(Verdict::Allow, rules);
    assert_eq!(many.candidates("cargo", &[]).count(), 0);
    assert_eq!(many.candidates("/usr/bin/tool7", &[]).count(), 1);
    let looked_at = |path: &str| many.paths.candidates(Path::new(path), false).len();
    assert_eq!(looked_at("/home/me/project/src/main.rs"), 0);
    assert_eq!(looked_at("/srv/app7/secrets/a/b"), 1);
    assert_eq!(looked_at("/srv/app7/secrets/secret9.pem"), 2);
}

/// Spellings of a word that a shell reads as the same word.
fn disguised(word: &'static str) -> impl Strategy<Value = String> {
    prop::collection::vec(0..5_u8, word.len()).prop_map(move |ways| {
        word.chars()
            .zip(ways)
            .map(|(letter, way)| match way {
                0 => format!("'{letter}'"),
                1 => format!("\"{letter}\""),
                2 => format!("\\{letter}"),
                3 => format!("{letter}\\\n"),
                _ => letter.to_string(),
            })
            .collect()
    })
}

/// A larger command that runs this command.
fn wrapped(command: String, way: u8) -> String {
    let quoted = format!("'{}'", command.replace('\'', "'\\''"));
    match way {
        0 => format!("true; {command}"),
        1 => format!("true\n{command}"),
        2 => format!("( {command} )"),
        3 => format!("echo $( {command} )"),
        4 => format!("if true; then {command}\nfi"),
        5 => format!("f() {{ {command}\n}}; f"),
        6 => format!("sh -c {quoted}"),
        7 => format!("env A=1 bash -lc {quoted}"),
        8 => format!("eval {quoted}"),
        9 => format!("X=1 timeout 9 nice -n 1 sh -ec {quoted}"),
        10 => format!("echo x | xargs -I% sh -c {quoted}"),
        11 => format!("find . -exec sh -c {quoted} \\;"),
        12 => format!("cat <<E\n$( {command} )\nE\n"),
        13 => format!("case x in x) {command}\n;; esac"),
        14 => format!("cat <( {command} )"),
        _ => format!("{{ {command}\n}} 2>&1 | cat"),
    }
}

proptest! {
    /// ARCHITECTURE.md, invariant 23.
    #[test]
    fn no_disguise_and_no_nesting_allows_a_denied_command(
        program in disguised("rm"),
        argument in disguised("-rf"),
        ways in prop::collection::vec(0..16_u8, 0..4),
    ) {
        let line = ways.into_iter().fold(format!("{program} {argument} x"), wrapped);
        let policy = policy(Verdict::Allow, vec![rule(Verdict::Deny, &["rm", "-rf", "*"])]);
        prop_assert_ne!(shell(&policy, &line), Verdict::Allow, "{}", line);
    }

    #[test]
    fn an_allow_list_never_allows_text_that_names_another_program(text in "[a-z ;|&$(){}<>'\"`\\\\\n=]{0,40}") {
        let policy = policy(Verdict::Deny, vec![rule(Verdict::Allow, &["git", "*"])]);
        let line = format!("git {text}");
        if shell(&policy, &line) == Verdict::Allow {
            let parsed = analyze::analyze(&CommandLine::Shell { line: &line, login: false }, &[]);
            prop_assert!(parsed.commands.iter().all(|command| command.program() == "git"), "{:?}", line);
        }
    }

    /// ARCHITECTURE.md, invariant 25.
    #[test]
    fn no_argv_makes_the_policy_panic(words in prop::collection::vec("[-a-z=+/{}$ ;]{0,6}", 0..6)) {
        for program in ["", "env", "sudo", "xargs", "bash", "find", "eval", "timeout"] {
            let mut argv = vec![program.to_owned()];
            argv.extend(words.iter().cloned());
            no_rm().decide(&run(CommandLine::Argv(&argv)));
        }
    }
}
