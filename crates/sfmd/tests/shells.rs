//! No value leaves its slot of a command: real shells run commands with values that would show it.
#![allow(clippy::expect_used, reason = "a failed step ends the test")]

use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use sfmd::action::Action;
use sfmd::invoke::{Bindings, PreparedAction};

/// Knows the text that a template cannot contain itself.
struct Lines;

impl Bindings for Lines {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }
    fn shortcut(&self, _: &str) -> Option<String> {
        None
    }
    fn environment(&self, name: &str) -> Option<String> {
        match name {
            "NEWLINE" => Some("\n".to_owned()),
            "CONTINUED" => Some("\\\n".to_owned()),
            _ => None,
        }
    }
    fn file(&self, _: &str) -> Result<Vec<u8>, String> {
        Err("no files".to_owned())
    }
}

/// What a shell prints for a value.
type Becomes = fn(&str) -> String;

/// Templates that print their slots, each with what the value becomes there.
const PLACES: &[(&str, Becomes)] = &[
    ("printf '%s\\0' {v}", |value| value.to_owned()),
    ("printf '%s\\0' 'a {v} b'", |value| format!("a {value} b")),
    ("printf '%s\\0' \"$(printf %s {v}; printf x)\"", |value| format!("{value}x")),
    ("(printf '%s\\0' {v})", |value| value.to_owned()),
    ("printf '%s\\0' {v} # {v}", |value| value.to_owned()),
];

/// What a shell prints for each value, in one run.
fn shell_output(shell: &str, command: &str) -> Option<Vec<u8>> {
    let output = Command::new(shell).args(["-c", command]).stdin(Stdio::null()).output().ok()?;
    assert!(output.status.success(), "{shell}: {command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

/// The command of a template with a value; `None` if the template is empty or the value is refused.
fn command(template: &str, value: &str) -> Option<String> {
    let action = Action::parse("x", &format!("CLI {template}"))?;
    match sfmd::invoke::prepare(&action, &vec![("v".to_owned(), value.to_owned())], &Lines) {
        Ok(PreparedAction::Cli { command }) => Some(command),
        Ok(other) => panic!("{template} {value:?}: {other:?}"),
        Err(_) => None,
    }
}

fn prepared(template: &str, value: &str) -> String {
    command(template, value).expect(template)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_value_in_a_command_stays_one_word(
        values in prop::collection::vec("([^\u{0}]|[$`'\"\\\\(){};&|<>#*?! \n-]){0,12}", 1..40),
    ) {
        for shell in ["bash", "dash"] {
            let mut script = String::new();
            let mut expected = Vec::new();
            for value in &values {
                for (template, becomes) in PLACES {
                    script.push_str(&prepared(template, value));
                    script.push('\n');
                    expected.push(becomes(value));
                }
            }
            let Some(output) = shell_output(shell, &script) else { continue };
            let found: Vec<&[u8]> = output.split(|byte| *byte == 0).collect();
            prop_assert_eq!(found.len(), expected.len() + 1, "{}", shell);
            for (found, expected) in found.iter().zip(&expected) {
                prop_assert_eq!(String::from_utf8_lossy(found), expected.as_str(), "{}", shell);
            }
        }
    }

    #[test]
    fn a_value_in_double_quotes_is_not_interpreted(value in "[$`'\"\\\\(){};&|<>#*?! a-z\n-]{0,20}") {
        let command = prepared("printf '%s\\0' \"a {v} b\"; printf end", &value);
        let Some(output) = shell_output("bash", &command) else { return Ok(()) };
        let output = String::from_utf8_lossy(&output).into_owned();
        let is_bare = sfmd::quote::shell(&value) == value && !value.is_empty();
        let shown = if is_bare { value } else { format!("'{value}'") };
        prop_assert_eq!(output, format!("a {shown} b\0end"));
    }
}

/// Values that create the file `hit` if a shell interprets any part of them.
const CANARIES: &[&str] = &[
    "$(>hit)",
    "`>hit`",
    ">hit",
    "\n>hit\n",
    ";>hit;",
    "';>hit;'",
    "\";>hit;\"",
    "\\';>hit;#",
    "\\\";>hit;#",
    "');>hit;#",
    "\");>hit;#",
    "};>hit;#",
    "'};>hit;#",
    "];>hit;#",
    "a[$(>hit)]",
    "0]+a[$(>hit)",
    "$(>hit)'$(>hit)'\"$(>hit)\"",
];

/// Constructs that nest, with their ends.
const PAIRS: &[(&str, &str)] = &[
    ("\"", "\""),
    ("'", "'"),
    ("$'", "'"),
    ("$\"", "\""),
    ("`", "`"),
    ("(", ")"),
    ("$(", ")"),
    ("$(echo ", ")"),
    ("((", "))"),
    ("$((", "))"),
    ("( (", ") )"),
    ("$[", "]"),
    ("c[", "]=1 "),
    ("b=([", "]=1)"),
    ("[[ ", " -eq 1 ]]"),
    ("[ ", " = x ]"),
    ("${x:-", "}"),
    ("${x#", "}"),
    ("${PWD:", "}"),
    ("${c[", "]}"),
    ("\"${x:-'", "'}\""),
    ("{ ", "; }"),
    ("${ ", "; }"),
    ("case x in x) ", " ;; esac"),
    ("cat <<E$NEWLINE", "$NEWLINE"),
    ("cat <<< ", " "),
    ("\\$(", ")"),
    ("$$(", ")"),
    ("\\$'", "'"),
    ("$$'", "'"),
    ("@(", ")"),
];

const ATOMS: &[&str] = &[
    "{v}",
    "{v}",
    "{v}",
    "echo ",
    "x",
    "1",
    " ",
    ";",
    "&&",
    "|",
    "#",
    " # ",
    "$NEWLINE",
    "$CONTINUED",
    "\\",
    "$",
    "$$",
    "'",
    "\"",
    "`",
    "(",
    ")",
    "((",
    "[",
    "]",
    "}",
    "<<",
    "<<E",
    "<(",
    "$x",
    "case ",
    "esac",
    "E$NEWLINE",
    "=~ ",
];

/// Templates in which constructs nest, also wrongly.
fn template(
    atoms: &'static [&'static str],
    pairs: &'static [(&'static str, &'static str)],
) -> impl Strategy<Value = String> {
    let atom = prop::sample::select(atoms).prop_map(str::to_owned);
    let body = atom.prop_recursive(4, 24, 4, move |inner| {
        let inner = prop::collection::vec(inner, 1..4).prop_map(|parts| parts.concat());
        (prop::sample::select(pairs), inner)
            .prop_map(|((open, close), inner)| format!("{open}{inner}{close}"))
    });
    (prop::sample::select(vec!["echo ", ": ", "", "y="]), prop::collection::vec(body, 1..6))
        .prop_map(|(start, parts)| format!("{start}{}", parts.concat()))
}

/// Whether a shell interprets a part of the value.
fn is_hit(shell: &str, command: &str, directory: &Path) -> bool {
    let hit = directory.join("hit");
    let status = Command::new(shell)
        .args(["-c", command])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok() && std::fs::remove_file(hit).is_ok()
}

fn check(shell: &str, template: &str, canary: &str) -> Result<(), TestCaseError> {
    let directory = tempfile::tempdir().expect("a directory");
    if let Some(command) = command(template, canary) {
        prop_assert!(
            !is_hit(shell, &command, directory.path()),
            "{} ran {:?} as {:?}",
            shell,
            template,
            command
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_template_lets_bash_interpret_a_value(template in template(ATOMS, PAIRS), canary in prop::sample::select(CANARIES)) {
        check("bash", &template, canary)?;
    }
}

/// Every construct with every value, and every construct in every other one.
#[test]
fn no_construct_lets_bash_interpret_a_value() {
    for (open, close) in PAIRS {
        for canary in CANARIES {
            check("bash", &format!("echo {open}{{v}}{close}"), canary).expect(open);
        }
        for (outer, end) in PAIRS {
            for canary in ["$(>hit)", "';>hit;'"] {
                check("bash", &format!("{outer}{open}{{v}}{close}{end}"), canary).expect(open);
            }
        }
    }
}
