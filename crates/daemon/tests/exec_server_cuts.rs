//! The current Codex client over a connection that is interrupted repeatedly: it resumes, and no output is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod codex;

use std::time::Duration;

use codex::script::{ENDED, feed, prepare, run};
use codex::{CarrierKind, Conversation, Place, Release, Server, Serving};
use serde_json::json;
use testkit::model::{Model, Turn};
use testkit::proxy::{CutKind, Direction, Proxy};
use testkit::serve::Addresses;
use testkit::tries::Tries;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until a file is there.
fn appears(place: &Place, name: &str) {
    let mut tries = Tries::within(PATIENCE, name);
    while !place.path(name).exists() {
        tries.again();
    }
}

/// Holds a conversation through a proxy, while `meanwhile` does something to it.
fn through_a_bad_link(script: Vec<Turn>, meanwhile: impl FnOnce(&Place, &Proxy)) -> Model {
    let place = Place::new();
    prepare(&place);
    let serving = Serving::start(&place, Server::under_test(Release::V0_166));
    let addresses = Addresses { unix: place.path("none"), http: serving.address(), token: None };
    let proxy = Proxy::start(&addresses, &place.path("outside"));
    let way = CarrierKind::Url(format!("ws://{}", proxy.addresses.http));
    let talk = Conversation { place: &place, client: Release::V0_166, way, sandbox: "danger-full-access" };
    let model = std::thread::scope(|scope| {
        let held = scope.spawn(|| talk.hold(script));
        meanwhile(&place, &proxy);
        held.join().unwrap()
    });
    drop(proxy);
    serving.stop();
    place.nothing_is_left();
    model
}

/// ARCHITECTURE.md, invariant 56.
#[test]
fn a_client_whose_link_is_cut_every_two_seconds_loses_no_line() {
    let counts = "touch started; i=10000; while [ ! -e enough ]; do echo line$i; i=$((i+1)); sleep 0.05; done; echo last$i";
    let terminal = json!({ "tty": true, "yield_time_ms": 250 });
    let script = vec![
        vec![run("reads", "echo ready; read a; echo got:$a; read a", terminal).until("ready")],
        vec![run("counts", counts, json!({ "yield_time_ms": 30_000 })).until(ENDED)],
        vec![feed("reads-more", "reads", "hello\n").until("got:hello")],
        vec![feed("reads-end", "reads", "\u{4}").until(ENDED)],
        vec![run("after", "echo after", json!({})).until(ENDED)],
    ];
    let model = through_a_bad_link(script, |place, proxy| {
        appears(place, "work/started");
        // The answer to the start is through when its output is.
        flows(proxy);
        let cutter = proxy.cut_every(Duration::from_secs(2), CutKind::Reset);
        let mut tries = Tries::within(PATIENCE, "four cuts");
        while proxy.cuts() < 4 {
            tries.again();
        }
        drop(cutter);
        flows(proxy);
        place.write("work/enough", "");
    });
    let heard: String =
        model.parts("counts").iter().map(|part| part.split_once("Output:\n").unwrap().1).collect();
    let lines: Vec<&str> = heard.lines().collect();
    let (last, counted) = lines.split_last().expect("lines");
    let expected: Vec<String> =
        (10_000..).take(counted.len()).map(|number| format!("line{number}")).collect();
    assert_eq!(counted, expected, "a line is missing or doubled");
    assert_eq!(*last, format!("last{}", 10_000 + counted.len()), "{heard}");
    assert!(model.output("reads-more").contains("got:hello"), "{}", model.output("reads-more"));
    assert!(model.output("after").contains("after\n"), "{}", model.output("after"));
}

/// Waits until output comes through again.
fn flows(proxy: &Proxy) {
    let (before, mut tries) =
        (proxy.passed(Direction::Client), Tries::within(PATIENCE, "output comes through"));
    while proxy.passed(Direction::Client) < before + 2_000 {
        tries.again();
    }
}

#[test]
fn a_cut_in_the_middle_of_300_kb_loses_nothing() {
    let large = "touch started; n=0; while [ ! -e go ]; do echo waits; n=$((n+1)); sleep 0.05; done; echo $n >waited; for i in $(seq 10000 39999); do echo line$i; done";
    let script = vec![vec![run("large", large, json!({ "yield_time_ms": 30_000 })).until(ENDED)]];
    let mut waited = 0;
    let model = through_a_bad_link(script, |place, proxy| {
        appears(place, "work/started");
        flows(proxy);
        proxy.cut_after(Direction::Client, 100_000, CutKind::Reset);
        place.write("work/go", "");
        let mut tries = Tries::within(PATIENCE, "a cut");
        while proxy.cuts() == 0 {
            tries.again();
        }
        waited = place.read("work/waited").trim().parse().unwrap();
    });
    let output = model.output("large");
    let bytes: usize = 300_000 + waited * "waits\n".len();
    // A token is four bytes: the client tells how much it was before it cut out the middle.
    let tokens = format!("Original token count: {}\n", bytes.div_ceil(4));
    assert!(output.contains(&tokens), "not {tokens}{output}");
    assert!(output.contains("waits\n") && output.trim_end().ends_with("line39998\nline39999"), "{output}");
}
