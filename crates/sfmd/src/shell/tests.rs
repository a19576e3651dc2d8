//! The quoting of values at each place of a command.

use super::*;

fn insert(before: &str, value: &str, after: &str) -> Result<String, &'static str> {
    let mut text = ShellText::default();
    text.literal(before);
    text.value(value)?;
    text.literal(after);
    Ok(text.finish())
}

#[test]
fn a_value_is_quoted_for_its_place() {
    let table = [
        ("echo ", "a b", "", "echo 'a b'"),
        ("echo ", "", "", "echo ''"),
        ("echo '", "it's $x", "'", r"echo 'it'\''s $x'"),
        ("echo \"", "$(id)`\"\\", "\"", "echo \"'\\$(id)\\`\\\"\\\\'\""),
        ("echo \"$(echo ", "a b", ")\"", "echo \"$(echo 'a b')\""),
        ("echo $'", "a'\\n", "'", "echo $'a\\'\\\\n'"),
        ("echo # ", "\nid", "", "echo # "),
        ("echo a#", "b c", "", "echo a#'b c'"),
        ("echo $(( ", "5", " + 1 ))", "echo $(( 5 + 1 ))"),
        ("echo `echo ", "plain", "`", "echo `echo plain`"),
        ("(cd /; ls ", "a b", ")", "(cd /; ls 'a b')"),
        ("awk '{print $1}' ", "a b", "", "awk '{print $1}' 'a b'"),
        ("echo \"\\$(", "$(id)", ")\"", "echo \"\\$('\\$(id)')\""),
        ("echo \"$$(", "$(id)", ")\"", "echo \"$$('\\$(id)')\""),
        ("echo \\$'", "'; id #", "'", r"echo \$''\''; id #'"),
        ("echo $$'", "'; id #", "'", r"echo $$''\''; id #'"),
        ("cat <<< ", "a b", "", "cat <<< 'a b'"),
        ("[ ", "a b", " = x ]", "[ 'a b' = x ]"),
        ("echo [", "a b", "]", "echo ['a b']"),
        ("jq .items[0] ", "a b", "", "jq .items[0] 'a b'"),
        ("case x in x) echo ", "a b", ";; esac", "case x in x) echo 'a b';; esac"),
        ("echo $x", "y", "", "echo $x''y"),
        ("echo \"$x", "y", "\"", "echo \"$x\"\"y\""),
        ("echo ", "2", ">f", "echo 2''>f"),
        ("echo x{", "a,b", ",c}", "echo x{'a,b',c}"),
        ("echo {1..", "5", "}", "echo {1..5}"),
    ];
    for (before, value, after, expected) in table {
        assert_eq!(insert(before, value, after).as_deref(), Ok(expected), "{before}");
    }
}

#[test]
fn places_that_cannot_be_quoted_are_refused() {
    for (before, after) in [
        ("echo `echo ", "`"),
        ("echo ${x:-", "}"),
        ("echo $((", "))"),
        ("echo \\", ""),
        ("echo \"$(case x in x) echo ", ";; esac)\""),
        ("echo \"$(case x in x) echo \"", "\";; esac)\""),
        ("echo $[ ", " ]"),
        ("(( ", " > 3 ))"),
        ("echo $(( '", "' ))"),
        ("echo \"${x:-'", "'}\""),
        ("echo ${x:'", "'}"),
        ("a[", "]=1"),
        ("a=([", "]=1)"),
        ("a=(x <<< ", ")"),
        ("echo ${c[{ x; }", "]}"),
        ("[[ ", " -eq 1 ]]"),
        ("echo $", ""),
        ("cat <<EOF\n", "\nEOF"),
        ("cat <<", ""),
        ("echo $(x)#'\n", "'"),
        ("echo $\\\n(", ")"),
        ("echo ${ echo ", "; }"),
    ] {
        assert!(insert(before, "$(id)", after).is_err(), "{before}");
    }
    assert!(insert("echo $((", "a", "))").is_err());
    assert!(insert("echo ", "a\0b", "").is_err());
}
