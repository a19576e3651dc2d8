//! Commands found in shell texts, and texts that are rejected.

use super::*;
use proptest::prelude::*;

/// The commands of a text, words joined by spaces, unknown words as `$`.
fn commands(text: &str) -> Vec<String> {
    let script = parse(text).unwrap_or_else(|error| panic!("{text:?}: {}", error.0));
    let word = |word: &Word| word.literal().unwrap_or("$").to_owned();
    script.commands.iter().map(|c| c.words.iter().map(word).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn every_simple_command_is_found() {
    let table: &[(&str, &[&str])] = &[
        ("", &[]),
        ("ls -la", &["ls -la"]),
        ("a; b & c && d || e | f |& g\nh", &["a", "b", "c", "d", "e", "f", "g", "h"]),
        ("echo 'a b' \"c d\" e\\ f", &["echo a b c d e f"]),
        ("r''m -r\"f\" x", &["rm -rf x"]),
        ("\\rm x", &["rm x"]),
        ("r\\\nm x", &["rm x"]),
        ("A=1 B=$(c) d e", &["c", "d e"]),
        ("A=1", &[]),
        ("echo $(a; b `c`) \"$(d)\" `e`", &["c", "a", "b $", "d", "e", "echo $ $ $"]),
        ("diff <(a) >(b)", &["a", "b", "diff $ $"]),
        ("(a; b)", &["a", "b"]),
        ("{ a; b; }", &["a", "b"]),
        ("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
        ("for x in $(a) b; do c $x; done", &["a", "c $"]),
        ("for x do a; done", &["a"]),
        ("while a; do b; done; until c\ndo d\ndone", &["a", "b", "c", "d"]),
        ("case $(a) in x|y) b;; (z) c;; *) d; esac; e", &["a", "b", "c", "d", "e"]),
        ("case x in esac", &[]),
        ("f() { a; }; function g { b; }; function h() { c; }", &["a", "b", "c"]),
        ("! a | time -p b", &["a", "b"]),
        ("a > out 2>&1 < in >> more &> all", &["a"]),
        ("> out", &[":"]),
        ("a >$(b)", &["b", "a"]),
        ("cat <<EOF\n$(a) `b` $x\nEOF\nc", &["cat", "a", "b", "c"]),
        ("cat <<'EOF'\n$(a)\nEOF\nc", &["cat", "c"]),
        ("cat <<-EOF; b\n\tx\n\tEOF\nc", &["cat", "b", "c"]),
        ("cat <<A <<B\nx\nA\n$(y)\nB\n", &["cat", "y"]),
        ("cat <<< \"$(a)\"", &["a", "cat"]),
        ("a # b; c\nd", &["a", "d"]),
        ("echo a#b", &["echo a#b"]),
        ("echo $((1 + $(a) * 2)) $x ${y:-$(b)} \"${z}\"", &["a", "b", "echo $ $ $ $"]),
        ("ls *.rs ~ {a,b} [x] {} $'x'", &["ls $ $ $ $ {} $"]),
        ("x=(a $(b) c); d", &["b", "d"]),
        ("$x y", &["$ y"]),
    ];
    for (text, expected) in table {
        let mut found = commands(text);
        let mut expected: Vec<String> = expected.iter().map(|text| (*text).to_owned()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{text:?}");
    }
}

/// ARCHITECTURE.md, invariant 23.
#[test]
fn text_that_shells_read_differently_is_refused() {
    let table = [
        "echo 'a",
        "echo \"a",
        "echo `a",
        "echo \"`r\\\\\\\n\n\\\"m\\\" x`\"",
        "echo `a \\\n b`",
        "echo x | sh\\",
        "cat <<E\n`\\\"a\\\"`\nE\n",
        "echo $(a",
        "(a",
        "a)",
        "{ a",
        "if a; then b",
        "a;;b",
        "fi",
        "done",
        "((x<<2))\nrm -rf x\n2",
        "for ((;;)); do a; done",
        "echo $((rm -rf x))",
        "echo $((a) ; b)",
        "echo $[1]",
        "cat <<EOF\na",
        "cat <<EOF",
        "cat <<$x\n",
        "cat <<EOF \"\n\"\nEOF\n",
        "cat <<E\na\\\nE\nrm\nE\n",
        "echo a &>b rm -rf x",
        "echo $'a\\'; rm -rf x; '",
        "echo \"${x:-'}\"",
        "x='a[$(rm)]'",
        "echo ${x@P}",
        "${ rm; }",
        "coproc a",
        "ls @(a|b)",
        "echo > ",
        "case x in a",
        "a\0b",
        "case x y in a) b;; esac",
    ];
    for text in table {
        assert!(parse(text).is_err(), "{text:?} was split into {:?}", parse(text));
    }
}

#[test]
fn writing_redirections_are_noticed() {
    let writes = |text: &str| parse(text).unwrap().commands.iter().any(|command| command.writes);
    for text in ["a > b", "a >> b", "a >| b", "a <> b", "a &> b", "a 2> $x", "a >& b", "> b"] {
        assert!(writes(text), "{text}");
    }
    for text in ["a < b", "a 2>&1", "a >/dev/null", "a 2>/dev/null >&2", "a <<< b", "a >&-"] {
        assert!(!writes(text), "{text}");
    }
}

#[test]
fn assigned_variables_are_known() {
    let script = parse("A=1 B+=2 c; for D in x; do E=3; done; \"F\"=4 g").unwrap();
    let names: Vec<_> = script.assigned.iter().map(|assignment| assignment.name.as_str()).collect();
    assert_eq!(names, ["A", "B", "D", "E"]);
    let exported: Vec<_> = script.assigned.iter().map(|assignment| assignment.is_exported).collect();
    assert_eq!(exported, [true, true, false, false]);
    assert_eq!(script.assigned[0].value.as_deref(), Some("1"));
}

#[test]
fn deep_nesting_ends_in_a_refusal_and_not_in_a_crash() {
    for (open, close) in [("$(", ")"), ("(", ")"), ("${x:-", "}"), ("{ ", ";}"), ("\"$(", ")\""), ("if ", "")]
    {
        let text = format!("{}a{}", open.repeat(100_000), close.repeat(100_000));
        assert!(parse(&text).is_err(), "{open}");
    }
    assert!(parse(&"`".repeat(100_001)).is_err());
    assert!(parse(&"\\`".repeat(10_000)).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// ARCHITECTURE.md, invariant 25.
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC*") {
        parse(&text).map(drop).unwrap_or_default();
    }

    #[test]
    fn no_mixture_of_shell_syntax_makes_the_parser_panic(
        parts in prop::collection::vec(prop::sample::select(vec![
            "a", "rm", " ", "\n", ";", "&", "|", "(", ")", "{", "}", "<", ">", "<<", "<<-", "<<<", "EOF", "'", "\"",
            "`", "$", "$(", "$((", "${", "\\", "#", "=", "A=", "if", "then", "fi", "for", "in", "do", "done", "case",
            "esac", ";;", "!", "~", "*", "é", "\t", "1", "[", "]", "time", "function", "))", "$'",
        ]), 0..40)
    ) {
        parse(&parts.concat()).map(drop).unwrap_or_default();
    }
}
