//! Through a hub: an executor that uses this crate registers, and clients connect to it through the rendezvous.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod through_hub;

use testkit::programs::program;
use testkit::proxy::{CutKind, Direction, Proxy};
use through_hub::{Executor, HubWorld, gather};

#[tokio::test]
async fn commands_run_and_files_are_read_through_a_hub() {
    let world = HubWorld::new(Executor::Example);
    let client = world.connect(&world.addresses).await;
    let mut process = client.start(world.shell("p", "seq 1 100000; exit 3", &[])).await.unwrap();
    let (said, code) = gather(&mut process).await;
    let expected: Vec<u8> = (1..=100_000).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    assert!(said == expected, "{} bytes", said.len());
    assert_eq!(code, Some(3));
    client.close().await.unwrap();
    world.sandbox.write("root/greeting", "hi");
    let file = world.sandbox.root().join("greeting");
    let mut example = world.sandbox.command(program("examples/connect_relay"));
    example.args([&world.rendezvous(&world.addresses), &world.token, file.to_str().unwrap()]);
    let output = example.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "aGk=\n", "{output:?}");
    let mut rex = world.sandbox.command(program("rex"));
    rex.env("REX_TOKEN", &world.token).arg("-t");
    rex.arg(format!("codex:{}?role=harness", world.rendezvous(&world.addresses)))
        .args(["exec", "--", "echo", "hello"]);
    let output = rex.output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(0), b"hello\n".to_vec()));
}

#[tokio::test]
async fn a_cut_on_the_way_to_the_hub_is_not_noticed() {
    let world = HubWorld::new(Executor::Example);
    let proxy = Proxy::start(&world.addresses, &world.sandbox.path("."));
    let client = world.connect(&proxy.addresses).await;
    let expected: Vec<u8> = (1..=50_000).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    for (at, how) in [
        (200, CutKind::Reset),
        (5_000, CutKind::Closed),
        (80_000, CutKind::Reset),
        (250_000, CutKind::Closed),
    ] {
        proxy.cut_after(Direction::Client, at, how);
        let mut process = client.start(world.shell(&format!("p-{at}"), "seq 1 50000", &[])).await.unwrap();
        let (said, code) = gather(&mut process).await;
        assert!(said == expected, "cut after {at}: {} bytes", said.len());
        assert_eq!(code, Some(0));
        assert!(!proxy.call_off(), "the connection was not cut after {at}");
    }
}
