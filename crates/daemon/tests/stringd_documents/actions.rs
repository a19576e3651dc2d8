//! Actions: lists, flags, commands, requests and response templates.

use crate::served::{home, pages};

const PAGE: &str = r#"# Page
[@doc Doc](./doc.md) [Run](act:say?word=linked)

```act.say
CLI echo said {word} $KEY $FROM_DAEMON
  word, -w: string (required) "What to say"
  loud: boolean
```
```act.json
CLI echo '{"n":12,"list":[{"a":"x"},{"a":"y"}]}'
```
```act.json.response
{n} = {Response.body.n}
In stock: {n}
for: item in Response.body.list
- {item.a}
end:
[Site](https://site.test/)
```
```act.fail
CLI echo out; echo err >&2; exit 3
```
```act.args
CLI printf '%s,' {...args}
```
```act.slow
CLI sleep 100 & sleep 100
```
"#;

#[test]
fn actions_are_listed_described_and_run() {
    let mut served = home(&[("page.md", PAGE)]);
    served.main("/open page.md").ok();
    assert!(served.main("/act").ok().starts_with("Actions\n---\n/act.say\n   -w, --word <string> (required) — What to say\n   --loud <boolean> (optional)\n\n/act.json\n   (no flags)"));
    let schema = "Action: say\n---\n/act.say\n   -w, --word <string> (required) — What to say\n   --loud <boolean> (optional)";
    assert_eq!(served.main("/act.say").ok(), schema);
    assert_eq!(served.main("/act say --help").ok(), schema);
    assert_eq!(served.main("/act.say hi").ok(), "said hi inherited", "an unset $KEY is for the shell");
    served.main("/set $KEY = k").ok();
    assert_eq!(served.main("/act.say -w \"a ; b `c`\" --loud").ok(), "said a ; b `c` k inherited");
    assert_eq!(served.main("/act.say --word @doc").ok(), "said ./doc.md k inherited");
    assert_eq!(served.main("/act.args --a 1 --b 'x y'").ok(), "--a,1,--b,x y,");
    assert_eq!(served.main("/act.fail --").failure(), ("EXIT_3".into(), "out\nerr".into()));
    let (code, text) = served.main("/act.say --").failure();
    assert_eq!(
        (code.as_str(), text.as_str()),
        ("INVALID_PAYLOAD", "Missing required flags: word\n\nUsage:\n  --word <string> (required)")
    );
    for args in ["--word", "a b c", "--word '$x'"] {
        assert_eq!(served.main(&format!("/act.say {args}")).code(), "INVALID_PAYLOAD", "{args}");
    }
    let (code, text) = served.main("/act.none").failure();
    assert_eq!(code, "NOT_FOUND");
    assert!(
        text.starts_with("Action not found: \"none\"\nAvailable: say, json, fail, args, slow\n"),
        "{text}"
    );
}

#[test]
fn templates_set_variables_and_links_run_actions() {
    let mut served = home(&[("page.md", PAGE)]);
    served.main("/open page.md").ok();
    assert_eq!(served.main("/act.json --").ok(), "In stock: 12\n- x\n- y\n[Site][@site]");
    assert_eq!(served.main("/set").ok(), "Variables\n---\n{n} = \"12\"");
    assert_eq!(served.main("/info @site").ok(), "@site → https://site.test/");
    for _ in 0..2 {
        let reply = served.main("/open @run");
        assert!(reply.head["meta"]["uri"].as_str().unwrap().ends_with("page.md"));
        assert_eq!(reply.ok().lines().next(), Some("said linked inherited"));
    }
    assert!(served.main("/open act:").failure().1.contains("missing action id"));
    assert_eq!(served.main("/open act:none").code(), "NOT_FOUND");
}

#[test]
fn a_command_that_takes_too_long_ends_with_124() {
    let mut served =
        crate::served::configured("[stringd]\ncommand_timeout_ms = 3000\n", &[("page.md", PAGE)]);
    served.main("/open page.md").ok();
    assert_eq!(served.main("/act.slow --").code(), "EXIT_124");
    assert_eq!(served.main("/exec echo a; sleep 100").code(), "EXIT_124");
    assert_eq!(served.main("/act.args --a 1").ok(), "--a,1,");
}

#[test]
fn a_rule_of_the_operator_denies_a_command() {
    let rule = "[[policy.rules]]\nname = \"no-curl\"\naction = \"deny\"\nargv = [\"curl\", \"*\"]\n";
    let page = "```act.fetch\nCLI curl http://x.test\n```\n";
    let mut served = crate::served::configured(rule, &[("page.md", page)]);
    served.main("/open page.md").ok();
    for command in ["/act.fetch --", "/exec curl http://x.test"] {
        let (code, text) = served.main(command).failure();
        assert_eq!(code, "POLICY_DENIED", "{text}");
        assert!(text.contains("no-curl"), "{text}");
    }
}

#[test]
fn requests_carry_values_and_leave_the_document() {
    let address = pages(&[
        (
            "/json",
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"d\":\"aGVsbG8=\"}",
        ),
        ("/bad", "HTTP/1.1 500 No\r\nContent-Length: 6\r\n\r\nreason"),
    ]);
    let page = format!(
        "```act.get\nGET http://{address}/echo/{{id}}?a=1 -H \"X-Key: $KEY\"\n  id: string\n```\n```act.post\nPOST http://{address}/echo\n```\n\
         ```act.save\nGET http://{address}/json\n```\n```act.save.response\nsave: d\ndecode: base64\nto: {{out}}/x.bin\nsaved\n```\n\
         ```act.bad\nGET http://{address}/bad\n```\n```act.none\nGET http://{address}/none\n```\n```act.file\nGET ./x\n```\n"
    );
    let mut served = home(&[("page.md", &page)]);
    served.main("/open page.md").ok();
    let (code, text) = served.main("/act.get --id x").failure();
    assert_eq!(code, "INVALID_PAYLOAD");
    assert!(text.starts_with("Unresolved environment variable(s):"), "{text}");
    served.main("/set $KEY = secret").ok();
    let reply = served.main("/act.get --id 'a/b' --q 'x y'");
    assert!(reply.head["meta"]["uri"].as_str().unwrap().ends_with("page.md"), "the document stays");
    let asked = reply.ok().to_lowercase();
    assert!(
        asked.starts_with("get /echo/a%2fb?a=1&q=x+y http/1.1") && asked.contains("x-key: secret"),
        "{asked}"
    );
    let asked = served.main("/act.post --a '\"' --b 2").ok();
    assert!(
        asked.ends_with(r#"{"a":"\"","b":"2"}"#)
            && asked.to_lowercase().contains("content-type: application/json"),
        "{asked}"
    );
    let (code, text) = served.main("/act.bad --").failure();
    assert_eq!((code.as_str(), text), ("LOAD_ERROR", format!("HTTP 500 at http://{address}/bad\nreason")));
    assert_eq!(
        served.main("/act.none --").failure(),
        ("NOT_FOUND".into(), format!("Not found: http://{address}/none"))
    );
    assert!(
        served
            .main("/act.file --")
            .failure()
            .1
            .starts_with("Actions can only topic HTTP endpoints (got: file:///")
    );
    let out = served.path("out");
    served.main(&format!("/set out = \"{out}\"")).ok();
    assert_eq!(served.main("/act.save --").ok(), "saved");
    assert_eq!(served.text("out/x.bin"), "hello");
}
