//! Large output: slow readers, kills during output, and process trees that resist their end.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::daemon::{Rexd, data};
use testkit::proc::{self, held_bytes};
use testkit::sandbox::Sandbox;

const REXD: &str = env!("CARGO_BIN_EXE_rexd");
/// How long to wait for what must happen soon: a busy machine may take its time, and nothing here ends by itself.
const PATIENCE: Duration = Duration::from_secs(60);
const MIB: u64 = 1024 * 1024;
/// What one process's log may hold in memory, as the daemon is configured here.
const LOG_BYTES: u64 = MIB;
/// What the daemon may take beyond its idle size and one log while a client does not read: messages under way, and what
/// the allocator keeps for each thread. The smaller flood has four times as much left to come when its reader stops.
const SLACK: u64 = 8 * MIB;
/// Ways to hold a tree together; the second is for machines without cgroups.
const CONTAINMENTS: [Option<&str>; 2] = [None, Some("marks")];

fn start(sandbox: &Sandbox, containment: Option<&str>) -> Rexd {
    let mut command = sandbox.command(REXD);
    command.arg("--stdio").arg("--root").arg(sandbox.root());
    command.envs(containment.map(|value| ("REXD_CONTAINMENT", value)));
    Rexd::spawn(command)
}

/// Bytes that look random and are the same each time.
#[derive(Clone)]
struct Noise(u64);

impl Noise {
    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            chunk.copy_from_slice(&self.0.to_le_bytes()[..chunk.len()]);
        }
    }
}

/// What is expected next, in pieces of any size.
struct Expected<F> {
    more: F,
    ready: Vec<u8>,
    taken: usize,
}

impl<F: FnMut() -> Vec<u8>> Expected<F> {
    fn check(&mut self, mut got: &[u8], at: u64) {
        while !got.is_empty() {
            if self.taken == self.ready.len() {
                self.ready = (self.more)();
                self.taken = 0;
                assert!(!self.ready.is_empty(), "more than was written, at byte {at}");
            }
            let count = got.len().min(self.ready.len() - self.taken);
            assert!(got[..count] == self.ready[self.taken..self.taken + count], "wrong bytes near {at}");
            got = &got[count..];
            self.taken += count;
        }
    }
}

/// Other commands run to their end while nobody reads, and the daemon does not grow.
fn others_run_meanwhile(rexd: &mut Rexd, sandbox: &Sandbox, session: &str, idle: u64) {
    for round in 0..20 {
        let name = format!("side-effect-{round}");
        rexd.request("exec.start", json!({ "session_id": session, "argv": ["touch", name] }));
        sandbox.appears(&format!("root/{name}"), Instant::now() + PATIENCE);
        let now = held_bytes(rexd.pid());
        let allowed = idle + LOG_BYTES + SLACK;
        assert!(now <= allowed, "{now} bytes held in round {round}; idle {idle}, allowed {allowed}");
    }
}

/// Floods a reader that stops in the middle; all bytes arrive in the end.
fn flood<F: FnMut() -> Vec<u8>>(sandbox: &Sandbox, argv: Value, length: u64, more: F) {
    let mut rexd = start(sandbox, None);
    let session = rexd.open();
    // One command first, so that what is needed once is there.
    rexd.run(json!({ "session_id": session, "argv": ["true"] }));
    let idle = held_bytes(rexd.pid());
    let flood = rexd.begin(json!({ "session_id": session, "argv": argv }));
    let mut expected = Expected { more, ready: Vec::new(), taken: 0 };
    let mut received = 0;
    let mut has_stopped = false;
    let mut touches = 0;
    let exit = loop {
        if !has_stopped && received > length / 8 {
            has_stopped = true;
            others_run_meanwhile(&mut rexd, sandbox, &session, idle);
        }
        let message = rexd.receive().expect("more");
        if message["params"]["process_id"] != flood.as_str() {
            touches += usize::from(message["method"] == "exec.exit");
            continue;
        }
        match message["method"].as_str() {
            Some("exec.stdout") => {
                let bytes = data(&message["params"]);
                expected.check(&bytes, received);
                received += bytes.len() as u64;
            }
            Some("exec.exit") => break message["params"].clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(received, length, "every byte arrives");
    assert_eq!(exit["bytes_stdout"], length);
    assert_eq!((&exit["exit_code"], &exit["timed_out"]), (&json!(0), &json!(false)));
    assert_eq!(touches, 20, "the others are told about too, and not behind the flood");
}

#[test]
fn five_million_lines_reach_a_reader_that_stops_in_the_middle() {
    let sandbox = Sandbox::new();
    let mut next = 1_u64;
    let more = move || {
        let mut text = Vec::new();
        let last = (next + 10_000).min(5_000_001);
        for number in next..last {
            writeln!(text, "{number}").unwrap();
        }
        next = last;
        text
    };
    flood(&sandbox, json!(["seq", "1", "5000000"]), 38_888_896, more);
}

#[test]
fn a_quarter_gibibyte_of_noise_reaches_a_reader_that_stops_in_the_middle() {
    let sandbox = Sandbox::new();
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut again = noise.clone();
    let mut file = std::fs::File::create(sandbox.root().join("noise.bin")).unwrap();
    let mut block = vec![0; MIB as usize];
    for _ in 0..256 {
        noise.fill(&mut block);
        file.write_all(&block).unwrap();
    }
    drop(file);
    let more = move || {
        let mut block = vec![0; MIB as usize];
        again.fill(&mut block);
        block
    };
    flood(&sandbox, json!(["cat", "noise.bin"]), 256 * MIB, more);
}

#[test]
fn a_kill_is_answered_before_the_output_that_waits() {
    for containment in CONTAINMENTS {
        let sandbox = Sandbox::new();
        let mut rexd = start(&sandbox, containment);
        let session = rexd.open();
        // Nobody reads; what does not fit into memory waits on disk, so the first 32 MiB go through.
        let line = "echo $$ > pid; head -c 33554432 /dev/zero; touch flooded; exec cat /dev/zero";
        let flood = rexd.begin(json!({ "session_id": session, "shell": true, "command": line }));
        sandbox.appears("root/flooded", Instant::now() + PATIENCE);
        let leader = proc::watch(sandbox.read("root/pid").trim().parse().unwrap());
        let kill = rexd
            .request("exec.kill", json!({ "session_id": session, "process_id": flood, "signal": "KILL" }));
        assert!(leader.ends_before(Instant::now() + PATIENCE), "killed although nobody reads");
        // The audit tells that it was answered.
        sandbox.gains("home/state/rexd/audit.log", "exec.kill", Instant::now() + PATIENCE);
        let mut before = 0;
        let answer = loop {
            let message = rexd.receive().expect("more");
            if message["id"] == kill {
                break message;
            }
            if message["method"] == "exec.stdout" {
                before += data(&message["params"]).len() as u64;
            }
            // What the pipe and the lane hold, however small the pieces; eight times as much waits.
            assert!(before <= 4 * MIB, "the answer waits behind output ({containment:?})");
        };
        assert_eq!(answer["result"]["ok"], true, "{answer}");
        let mut after = 0;
        let exit = loop {
            let message = rexd.receive().expect("more");
            if message["params"]["process_id"] == flood.as_str() {
                match message["method"].as_str() {
                    Some("exec.stdout") => after += data(&message["params"]).len(),
                    _ => break message,
                }
            }
        };
        assert!(
            after > 0,
            "the answer overtook nothing; {before:?} came before it ({containment:?}): {exit}"
        );
        assert_eq!(exit["params"]["exit_code"], -1, "{exit}");
        assert_eq!(exit["params"]["signal"], "KILL", "{exit}");
    }
}

/// Ignores TERM, forks twice, leaves its session and its group, and holds nothing open.
const RUNAWAY: &str = "trap '' TERM; \
    (setsid sh -c 'echo away $$; exec sleep 1000 >/dev/null 2>&1 </dev/null' &) ; \
    (setsid sh -c 'setsid sh -c \"echo further \\$\\$; exec sleep 1000\" & echo middle $$; wait' &) ; \
    echo leader $$; exec sleep 1000";

fn number(text: &str, word: &str) -> Option<i32> {
    let rest = text.split(&format!("{word} ")).nth(1)?;
    rest.split_once('\n')?.0.parse().ok()
}

/// Starts the runaway and returns its id, when it was answered, and everybody who belongs to it.
fn start_runaway(rexd: &mut Rexd, params: &Value) -> (String, Vec<proc::ProcessWatch>) {
    let mut start = json!({ "shell": true, "command": RUNAWAY });
    start.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
    let process = rexd.begin(start);
    let words = ["leader", "away", "middle", "further"];
    let mut text = String::new();
    while !words.iter().all(|word| number(&text, word).is_some()) {
        let output = rexd.event("exec.stdout", &process);
        text.push_str(output["data"].as_str().unwrap());
    }
    let watched = words.iter().map(|word| proc::watch(number(&text, word).unwrap())).collect();
    (process, watched)
}

#[test]
fn a_growing_tree_has_ended_when_its_kill_is_answered_and_all_members_are_listed() {
    for containment in CONTAINMENTS {
        for signal in [json!(null), json!("TERM"), json!("SIGKILL"), json!(9)] {
            let sandbox = Sandbox::new();
            let mut rexd = start(&sandbox, containment);
            let session = rexd.open();
            let (process, watched) = start_runaway(&mut rexd, &json!({ "session_id": session }));
            let params = json!({ "session_id": session, "process_id": process, "signal": signal });
            let answer = rexd.call("exec.kill", params);
            let killed: Vec<i64> =
                answer["killed"].as_array().unwrap().iter().map(|one| one["pid"].as_i64().unwrap()).collect();
            for one in &watched {
                assert!(one.has_ended(), "{} lives on ({containment:?} {signal})", one.pid);
                assert!(killed.contains(&i64::from(one.pid)), "{} is not named in {answer}", one.pid);
            }
            assert_eq!((&answer["ok"], &answer["left"]), (&json!(true), &json!([])), "{answer}");
            let names = answer["killed"].as_array().unwrap();
            assert!(names.iter().any(|one| one["name"] == "sleep"), "{answer}");
            let exit = rexd.event("exec.exit", &process);
            assert_eq!((&exit["exit_code"], &exit["signal"]), (&json!(-1), &json!("KILL")), "{exit}");
            assert_eq!(exit["timed_out"], false, "{exit}");
        }
    }
}

/// Leaves session and group, loses its parents and clears its environment; `done` follows when it has.
const UNMARKED: &str = "env -i setsid -f sh -c 'echo unmarked $$; exec sleep 1000 >/dev/null 2>&1'; echo done 1; exec sleep 1000";

#[test]
fn a_kill_without_cgroups_reports_that_processes_may_remain() {
    for containment in CONTAINMENTS {
        let sandbox = Sandbox::new();
        let mut rexd = start(&sandbox, containment);
        let session = rexd.open();
        let process = rexd.begin(json!({ "session_id": session, "shell": true, "command": UNMARKED }));
        let mut text = String::new();
        while number(&text, "unmarked").is_none() || number(&text, "done").is_none() {
            text.push_str(rexd.event("exec.stdout", &process)["data"].as_str().unwrap());
        }
        let unmarked = proc::watch(number(&text, "unmarked").unwrap());
        for is_repeated in [false, true] {
            let answer = rexd.call("exec.kill", json!({ "session_id": session, "process_id": process }));
            assert_eq!((&answer["ok"], &answer["left"]), (&json!(!is_repeated), &json!([])), "{answer}");
            let is_known_to_end = answer.get("incomplete").is_none();
            assert_eq!(is_known_to_end, containment.is_none(), "{answer}");
            assert_eq!(unmarked.has_ended(), is_known_to_end, "{answer} ({containment:?})");
            if !is_repeated {
                // The kill is answered before the exit, and until then another one is carried out as well.
                rexd.event("exec.exit", &process);
            }
        }
        // Otherwise it would outlive this test.
        let pid = rustix::process::Pid::from_raw(unmarked.pid).unwrap();
        let _gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        assert!(unmarked.ends_before(Instant::now() + PATIENCE));
    }
}

#[test]
fn a_growing_tree_has_ended_when_its_timeout_is_reported() {
    for containment in CONTAINMENTS {
        let sandbox = Sandbox::new();
        let mut rexd = start(&sandbox, containment);
        let session = rexd.open();
        let params = json!({ "session_id": session, "timeout_ms": 5000 });
        let (process, watched) = start_runaway(&mut rexd, &params);
        let exit = rexd.event("exec.exit", &process);
        assert_eq!(exit["timed_out"], true, "{exit}");
        assert_eq!((&exit["exit_code"], &exit["signal"]), (&json!(-1), &json!("KILL")), "{exit}");
        let alive = proc::survivors(&watched, Duration::ZERO);
        assert!(alive.is_empty(), "{alive:?} outlived the exit event ({containment:?})");
        let waited = rexd.call("exec.wait", json!({ "session_id": session, "process_id": process }));
        assert_eq!(waited["status"], "timed_out", "{waited}");
    }
}

#[test]
fn a_session_that_closes_takes_its_trees_along() {
    for containment in CONTAINMENTS {
        let sandbox = Sandbox::new();
        let mut rexd = start(&sandbox, containment);
        let session = rexd.open();
        let (_, watched) = start_runaway(&mut rexd, &json!({ "session_id": session }));
        assert_eq!(rexd.call("session.close", json!({ "session_id": session }))["ok"], true);
        let alive = proc::survivors(&watched, PATIENCE);
        assert!(alive.is_empty(), "{alive:?} outlived their session ({containment:?})");
    }
}

#[test]
fn a_grandchild_that_holds_the_output_does_not_delay_the_exit_and_lives_until_its_session_ends() {
    for containment in CONTAINMENTS {
        let sandbox = Sandbox::new();
        let mut rexd = start(&sandbox, containment);
        let session = rexd.open();
        let ran =
            rexd.run(json!({ "session_id": session, "shell": true, "command": "sleep 1000 & echo $!" }));
        let pid: i32 = ran.text().trim().parse().unwrap();
        assert_eq!(ran.exit["exit_code"], 0, "{}", ran.exit);
        assert_eq!(ran.exit["held_by"], json!([pid]), "{}", ran.exit);
        let grandchild = proc::watch(pid);
        assert!(!grandchild.has_ended(), "a background job of a command that ended well lives on");
        rexd.call("session.close", json!({ "session_id": session }));
        assert!(grandchild.ends_before(Instant::now() + PATIENCE), "until its session ends");
    }
}

#[test]
fn characters_are_never_torn_however_they_are_written() {
    let sandbox = Sandbox::new();
    let mut rexd = start(&sandbox, None);
    let session = rexd.open();
    // One byte at a time, with a flush each: every character is torn on its way into the pipe.
    let line = r"for i in 1 2 3 4 5 6 7 8; do printf '\303'; printf '\244'; printf '\360\237'; printf '\230\200'; done";
    // Half a character is sent after some milliseconds. A busy machine may pause the shell for longer than that.
    let is_whole = (0..20).any(|_| {
        rexd.begin(json!({ "session_id": session, "shell": true, "command": line }));
        let (mut text, mut is_whole) = (Vec::new(), true);
        loop {
            let message = rexd.receive().expect("more");
            match message["method"].as_str() {
                Some("exec.stdout") => {
                    is_whole &= message["params"]["encoding"] == "utf8";
                    text.extend(data(&message["params"]));
                }
                _ => break,
            }
        }
        assert_eq!(text, "ä😀".repeat(8).as_bytes());
        is_whole
    });
    assert!(is_whole, "torn each time");
}
