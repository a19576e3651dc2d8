//! How much a confinement costs a short command. Prints figures, asserts none: `cargo test --release -p engine --test
//! sandbox_speed -- --ignored --nocapture`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on should stop where it is"
)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::process::Containment;
use engine::sandbox::{Confinement, Own, Profile};
use support::{argv, engine, gather};

const ROUNDS: usize = 2_000;

#[tokio::test]
#[ignore = "a measurement"]
async fn a_confined_command_is_about_as_quick_as_any() {
    let engine = engine(Containment::Best);
    let mut session = engine.open_session().unwrap();
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join(".git/hooks")).unwrap();
    let own = Own::default();
    let profiles = [
        None,
        Some(Profile::read_only(&own)),
        Some(Profile::workspace_write(&[root.path().to_owned()], None, &own)),
    ];
    let confinements =
        profiles.map(|profile| profile.map(|profile| Arc::new(Confinement::new([Arc::new(profile)]))));
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (confinement, times) in confinements.iter().zip(&mut times) {
            let mut spec = argv(&["/bin/true"]);
            spec.confinement.clone_from(confinement);
            let before = Instant::now();
            let process = session.start(spec).unwrap().running().await.unwrap();
            gather(&process).await;
            times.push(before.elapsed());
        }
    }
    let medians = times.map(|mut times| {
        times.sort();
        times[ROUNDS / 2]
    });
    let ratio = |time: Duration| time.as_secs_f64() / medians[0].as_secs_f64();
    println!("unconfined       {:?}", medians[0]);
    println!("read-only        {:?}  {:.3}x", medians[1], ratio(medians[1]));
    println!("workspace-write  {:?}  {:.3}x", medians[2], ratio(medians[2]));
}
