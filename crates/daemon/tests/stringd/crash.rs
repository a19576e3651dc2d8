//! Ends of the daemon: what was confirmed is kept, no file is torn, and no shell is left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::http::Http;
use testkit::proc::watch;
use testkit::sandbox::Sandbox;

use crate::support::{PATIENCE, Served, StringdClient, start};

/// Kinds of writes that are interrupted, in turn.
const KINDS: usize = 6;
/// How often the daemon is killed: several times during each kind of write.
const KILLS: usize = 8 * KINDS;
/// Packages that are installed and removed.
const PACKAGES: usize = 3;
/// Lines of the document that is written again and again.
const LINES: usize = 20_000;

/// What the steps before a number have left behind.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kept {
    users: BTreeSet<String>,
    variables: BTreeMap<String, String>,
    configuration: BTreeMap<String, String>,
    packages: BTreeSet<String>,
    document: Option<usize>,
}

impl Kept {
    fn after(steps: usize) -> Kept {
        let mut kept = Kept::default();
        for step in 0..steps {
            let (round, package) = (step / KINDS, format!("package{}", step / KINDS % PACKAGES));
            match (step % KINDS, round % 2) {
                (0, _) => drop(kept.users.insert(format!("user{step}"))),
                (1, 0) => drop(kept.users.remove(&format!("user{}", step - 1))),
                (2, _) => drop(kept.variables.insert(format!("G{step}"), format!("value {step}"))),
                (3, _) => drop(kept.configuration.insert(format!("C{step}"), format!("value {step}"))),
                (4, _) => drop(kept.packages.insert(package)),
                (5, 0) => drop(kept.packages.remove(&package)),
                (_, _) => kept.document = Some(step),
            }
        }
        kept
    }

    /// What a daemon and the files of its user's home have.
    fn found(client: &mut StringdClient, home: &Path) -> Kept {
        let object = |name: &str| -> Value {
            let text = std::fs::read_to_string(home.join(name)).unwrap_or("{}".to_owned());
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
        };
        let texts = |value: &Value| -> BTreeMap<String, String> {
            let pairs = value.as_object().into_iter().flatten();
            pairs.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
        };
        let config = object("config.json");
        let packages: BTreeSet<String> = texts(&config["apps"]).into_keys().collect();
        for name in &packages {
            let stored = std::fs::read_to_string(home.join(format!("packages/{name}/string.md"))).unwrap();
            assert_eq!(stored, package(name), "a registered package is complete");
        }
        let users = client.get("/users");
        let ids = users["users"].as_array().unwrap().iter().map(|user| user["id"].as_str().unwrap());
        let document = std::fs::read_to_string(home.join("document.md")).ok().map(|text| {
            let step = text.lines().next().unwrap().parse().unwrap();
            assert_eq!(text, content(step), "the document is not torn");
            step
        });
        Kept {
            users: ids.filter(|id| *id != "u").map(str::to_owned).collect(),
            variables: texts(&config["env"]),
            configuration: texts(&object("apps/shop/eu/env.json")),
            packages,
            document,
        }
    }
}

fn package(name: &str) -> String {
    format!("---\nname: {name}\ntype: app\n---\n{}\n", format!("# {name}\n").repeat(2_000))
}

fn content(step: usize) -> String {
    vec![step.to_string(); LINES].join("\n")
}

/// Makes one write; an error means that the daemon was killed before its answer was complete.
fn attempt(http: &mut Http, home: &Path, step: usize) -> io::Result<()> {
    let (round, package) = (step / KINDS, step / KINDS % PACKAGES);
    let exec = |topic: &str, cmd: String| ("POST", "/exec".to_owned(), json!({ "topic": topic, "cmd": cmd }));
    let (method, target, body) = match (step % KINDS, round % 2) {
        (0, _) => ("POST", "/users".to_owned(), json!({ "id": format!("user{step}"), "home": home })),
        (1, 0) => ("DELETE", format!("/users/user{}", step - 1), json!({})),
        (2, _) => exec("file:main", format!("/set $G{step} = \"value {step}\"")),
        (3, _) => exec("app:shop:eu", format!("/set $C{step} = \"value {step}\"")),
        (4, _) => exec("file:main", format!("/install ~/sources/package{package}.md")),
        (5, 0) => exec("file:main", format!("/uninstall package{package}")),
        (_, _) => exec("file:main", format!("/write ~/document.md\n{}", content(step))),
    };
    let body = body.to_string();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nX-User-Id: u\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    http.stream().write_all(format!("{head}{body}").as_bytes())?;
    let head = http.head()?;
    http.body(&head)?;
    assert_eq!(head.status, 200);
    Ok(())
}

fn signal(served: &Served, signal: Signal) {
    kill_process(Pid::from_raw(served.pid()).unwrap(), signal).unwrap();
}

/// ARCHITECTURE.md, invariant 19.
#[test]
fn a_kill_during_any_write_loses_nothing_that_was_confirmed() {
    let sandbox = Sandbox::new();
    let home = sandbox.root();
    for number in 0..PACKAGES {
        let name = format!("package{number}");
        sandbox.write(&format!("root/sources/{name}.md"), package(&name));
    }
    let mut confirmed = 0;
    for kill in 0..KILLS {
        let mut served = start(&sandbox);
        served.user(&home);
        let mut http = Http::connect(served.address).unwrap();
        let (sender, receiver) = mpsc::channel();
        let (first, own_home) = (confirmed, home.clone());
        let writer = std::thread::spawn(move || {
            (first..).find(|step| attempt(&mut http, &own_home, *step).is_err() || sender.send(()).is_err())
        });
        // The next kill interrupts the next kind of write, at another point of it.
        for _ in 0..=kill % 2 {
            receiver.recv_timeout(PATIENCE).unwrap();
        }
        for _ in 0..kill * 3_000 {
            std::hint::spin_loop();
        }
        signal(&served, Signal::KILL);
        served.wait();
        let interrupted = writer.join().unwrap().unwrap();
        let next = start(&sandbox);
        let found = Kept::found(&mut next.user(&home), &home);
        let (before, after) = (Kept::after(interrupted), Kept::after(interrupted + 1));
        assert!(found == before || found == after, "step {interrupted}: {found:?} instead of {before:?}");
        confirmed = interrupted;
    }
    assert!(confirmed >= KILLS, "{confirmed}");
    assert!(!sandbox.path(".stringd/users.json.corrupt").exists());
}

#[test]
fn concurrent_changes_from_several_topics_lose_nothing() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    served.user(&sandbox.root());
    sandbox.write("root/app.md", "---\nname: kept\ntype: app\n---\n");
    std::thread::scope(|scope| {
        for topic in ["file:a", "file:b", "web:c", "file:d"] {
            let mut client = served.client_of("u");
            scope.spawn(move || {
                for number in 0..20 {
                    let name = topic.replace(':', "_");
                    let reply = client.exec(topic, &format!("/set ${name}_{number} = \"{number}\""));
                    assert_eq!(reply.head["ok"], true, "{reply:?}");
                }
            });
        }
        let mut client = served.client_of("u");
        scope.spawn(move || {
            for _ in 0..10 {
                assert_eq!(client.exec("file:e", "/install app.md").head["ok"], true);
                assert_eq!(client.exec("file:e", "/uninstall kept").head["ok"], true);
            }
            assert_eq!(client.exec("file:e", "/install app.md").head["ok"], true);
        });
    });
    let config: Value = serde_json::from_str(&sandbox.read("root/config.json")).unwrap();
    assert_eq!(config["env"].as_object().unwrap().len(), 80, "{config}");
    assert!(config["apps"]["kept"].is_string(), "{config}");
}

/// ARCHITECTURE.md, invariant 7.
#[test]
fn no_shell_and_no_job_is_left_however_the_daemon_ends() {
    for end in ["shutdown", "term", "kill"] {
        let sandbox = Sandbox::new();
        let mut served = start(&sandbox);
        let mut client = served.user(&sandbox.root());
        let jobs = "trap '' TERM HUP; (setsid sh -c 'echo $$ > session; exec sleep 1000' &); \
                    sleep 1000 & echo $! > job; echo $$ > shell";
        assert_eq!(client.exec("bash:a", jobs).head["ok"], true);
        let mut running = served.client_of("u");
        running.begin("file:b", "/exec echo $$ > command; exec sleep 1000");
        let left = ["session", "job", "shell", "command"].map(|name| {
            let name = format!("root/{name}");
            sandbox.gains(&name, "\n", Instant::now() + PATIENCE);
            watch(sandbox.read(&name).trim().parse().unwrap())
        });
        assert!(!left.iter().any(|process| process.has_ended()), "{end}: {left:?}");
        match end {
            "shutdown" => assert_eq!(client.request("POST", "/shutdown", b"").0, 200),
            "term" => signal(&served, Signal::TERM),
            _ => signal(&served, Signal::KILL),
        }
        assert_eq!(served.wait().success(), end != "kill", "{end}");
        for process in &left {
            let is_gone = process.ends_before(Instant::now() + PATIENCE);
            assert!(is_gone, "{end}: {} is left behind", process.pid);
        }
    }
}
