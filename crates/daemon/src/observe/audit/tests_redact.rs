//! Redaction: passwords after short options, in JSON, in variables, and private keys; and what stays readable.

use super::{redact_argv, redact_text};

const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nSECRETa\nSECRETb\n-----END OPENSSH PRIVATE KEY-----";

#[test]
fn secrets_are_hidden_in_options_json_variables_and_keys() {
    let table: &[(&str, &str)] = &[
        ("mysql -uroot -pSECRET db", "mysql -uroot -p[hidden] db"),
        ("sudo /usr/bin/mysqldump -p'SECRET b' db", "sudo /usr/bin/mysqldump -p[hidden] db"),
        ("sh -c \"mariadb -p\\\"SECRET b\\\" db\"", "sh -c \"mariadb -p[hidden] db\""),
        ("sshpass -p SECRET ssh -p 22 host", "sshpass -p [hidden] ssh -p 22 host"),
        ("sshpass -p 'SECRET SECRET' ssh -p 22 h", "sshpass -p '[hidden]' ssh -p 22 h"),
        ("sshpass -pSECRET scp -p a h:b", "sshpass -p[hidden] scp -p a h:b"),
        ("x; docker login -u me -p SECRET r", "x; docker login -u me -p [hidden] r"),
        ("redis-cli -a SECRET get k", "redis-cli -a [hidden] get k"),
        ("tool --password \"SECRET SECRET\" x", "tool --password \"[hidden]\" x"),
        ("sh -c \"tool --password \\\"SECRET SECRET\\\" x\"", "sh -c \"tool --password [hidden] x\""),
        ("DB_PASS=SECRET MYSQL_PWD=SECRET run", "DB_PASS=[hidden] MYSQL_PWD=[hidden] run"),
        ("export dbpass=SECRET; ADMIN_PW='SECRET b' x", "export dbpass=[hidden]; ADMIN_PW=[hidden] x"),
        ("X_PASSWD=SECRET y", "X_PASSWD=[hidden] y"),
        ("{\"password\": \"SECRET b\", \"user\": \"me\"}", "{\"password\": \"[hidden]\", \"user\": \"me\"}"),
        ("{\"a\":\"b\",\"api_key\":\"SECRET\\\" c\"}", "{\"a\":\"b\",\"api_key\":\"[hidden]\"}"),
        ("{'db_pass': 'SECRET', 'n': 1}", "{'db_pass': '[hidden]', 'n': 1}"),
        ("{\"token\":12345,\"n\":1}", "{\"token\":[hidden],\"n\":1}"),
        ("{\"secrets\":[\"SECRET\",\"SECRET\"],\"n\":1}", "{\"secrets\":[hidden],\"n\":1}"),
        ("{\"auth\":{\"pass\":\"SECRET\"}}", "{\"auth\":{\"pass\":\"[hidden]\"}}"),
        ("curl -d '{\"password\":\"SECRET\"}' h", "curl -d '{\"password\":\"[hidden]\"}' h"),
        (
            "sh -c \"curl -d '{\\\"pwd\\\": \\\"SECRET b\\\"}' h\"",
            "sh -c \"curl -d '{\\\"pwd\\\": \\\"[hidden]\\\"}' h\"",
        ),
        ("{\"password\":\"SECRET and no end", "{\"password\":\"[hidden]"),
        (
            "cat > k <<E\n-----BEGIN RSA PRIVATE KEY-----\nSECRET\n-----END RSA PRIVATE KEY-----\nE",
            "cat > k <<E\n-----BEGIN RSA PRIVATE KEY-----[hidden]-----END RSA PRIVATE KEY-----\nE",
        ),
        (
            "-----BEGIN CERTIFICATE-----\nx\n-----BEGIN PRIVATE KEY-----\nSECRET",
            "-----BEGIN CERTIFICATE-----\nx\n-----BEGIN PRIVATE KEY-----[hidden]",
        ),
    ];
    for (line, expected) in table {
        assert_eq!(redact_text(line), *expected, "{line}");
        // A second pass over a stored line finds nothing more.
        assert_eq!(redact_text(expected), *expected, "{line}");
    }
    let argv = |words: &[&str]| redact_argv(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    assert_eq!(argv(&["mysql", "-pSECRET b", "db"]), ["mysql", "-p[hidden]", "db"]);
    assert_eq!(
        argv(&["env", "A=b", "sshpass", "-p", "-SECRET", "ssh", "-p", "22", "h"]),
        ["env", "A=b", "sshpass", "-p", "[hidden]", "ssh", "-p", "22", "h"]
    );
    assert_eq!(
        argv(&["curl", "-d", "{\"password\": \"SECRET=b c\"}", "h"]),
        ["curl", "-d", "{\"password\": \"[hidden]\"}", "h"]
    );
    assert_eq!(
        argv(&["sh", "-c", "DB_PASS=SECRET mysql -pSECRET"]),
        ["sh", "-c", "DB_PASS=[hidden] mysql -p[hidden]"]
    );
    assert_eq!(argv(&["add", KEY])[1].matches("SECRET").count(), 0);
}

#[test]
fn harmless_text_stays_readable() {
    for line in [
        "mkdir -p dir/sub",
        "ls -pX",
        "ssh -p 22 host",
        "ssh login -p 22",
        "PWD=/x OLDPWD=/y make",
        "mysql -p db",
        "sh -c \"mysql -p\" && ls \"x y\"",
        "mysql -u root db; mkdir -pv a; ls -pX",
        "mysqldump db | tar -pzc",
        "sshpass -e ssh -p 22 h",
        "docker run -p 80:80 nginx",
        "cp -p mysql /x",
        "tool --bypass=x --compass=n",
        "{\"name\": \"x\", \"max_tokens\": 5, \"path\": \"/y\"}",
        "echo '{\"a\": \"b\"}' | jq .a:",
        "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----",
    ] {
        assert_eq!(redact_text(line), line);
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        if !line.contains(['"', ';', '|']) {
            assert_eq!(redact_argv(&argv), argv);
        }
    }
}

/// Text that would take minutes if each secret were searched for from the start.
#[test]
fn a_long_text_is_read_once() {
    for piece in [
        "{\"password\":\"x\"},",
        "\"password\":\"\",",
        "-----BEGIN X-----",
        "--password \"a b\" ",
        "mysql -p'x' ",
    ] {
        let text = piece.repeat((2 << 20) / piece.len());
        assert!(redact_text(&text).len() > 1 << 20, "{piece}");
    }
}
