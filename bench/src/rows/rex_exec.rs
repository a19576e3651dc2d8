//! `rex exec` compared with a shell and ssh, and a second command on an open connection.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use client::{Session, SessionOptions, Target, v1};

use super::{median, table};
use crate::peers::floor::{Floor, drain};
use crate::peers::rex::{Rex, whole};
use crate::peers::sshd::Sshd;
use crate::peers::{Commands, ignore};
use crate::report::{Bound, Findings, compare};
use crate::stats::{interleave, time, timed};
use crate::world::World;

/// Output of one command over ssh.
const BULK_BYTES: u64 = 512 << 20;

/// Runs one operation and returns the seconds.
type Once<'a> = Box<dyn FnMut() -> Result<f64> + 'a>;

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let sshd = Sshd::start()?;
    let rex = Rex::new(world, Some(&sshd))?;
    let mut findings = Findings::new("`rex exec`");
    commands(world, &sshd, &rex, &mut findings)?;
    repeated(world, &sshd, &rex, &mut findings)?;
    bulk(world, &sshd, &rex, &mut findings)?;
    kept(world, &sshd, &mut findings)?;
    Ok(findings)
}

/// Complete commands, from start to exit.
fn commands(world: &World, sshd: &Sshd, rex: &Rex, findings: &mut Findings) -> Result<()> {
    let shell = || {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "true"]).stdin(Stdio::null());
        command
    };
    let ssh = || {
        let mut command = Command::new("ssh");
        command
            .args(sshd.options())
            .arg("-S")
            .arg(sshd.control())
            .args(["127.0.0.1", "true"])
            .stdin(Stdio::null());
        command
    };
    // rex opens its shared connection, and the next commands use it.
    whole(&mut rex.command(&["exec", "-t", "far", "--", "true"]))?;
    let mut peers: Vec<(&str, Once<'_>)> = vec![
        ("sh -c true", Box::new(|| whole(&mut shell()))),
        ("ssh -S", Box::new(|| whole(&mut ssh()))),
        ("rex exec -t local", Box::new(|| whole(&mut rex.command(&["exec", "-t", "local", "--", "true"])))),
        ("rex exec over ssh", Box::new(|| whole(&mut rex.command(&["exec", "-t", "far", "--", "true"])))),
        ("rex exec over ssh -S", Box::new(|| whole(&mut rex.command(&["exec", "-t", "mux", "--", "true"])))),
    ];
    let names: Vec<String> = peers.iter().map(|(name, _)| (*name).to_owned()).collect();
    let each = world.amount(20, 3);
    let samples =
        interleave(&mut peers, world.amount(10, 2), |(_, once)| (0..each).map(|_| once()).collect())?;
    table(findings, "true", &names, &samples, time);
    let (local, far) =
        (median(&names, &samples, "rex exec -t local")?, median(&names, &samples, "rex exec over ssh")?);
    let shell = ("sh -c true", median(&names, &samples, "sh -c true")?);
    let ssh = ("ssh -S", median(&names, &samples, "ssh -S")?);
    findings.targets.push(compare("rex exec -t local -- true", local, shell, Bound::AtMost(3.0), time));
    findings.targets.push(compare("rex exec -t local -- true", local, ssh, Bound::AtMost(1.0), time));
    findings.targets.push(compare(
        "rex exec over ssh on a warm connection",
        far,
        ssh,
        Bound::AtMost(1.15),
        time,
    ));
    Ok(())
}

/// Commands over ssh without a master connection of the user: rex shares one after the first.
fn repeated(world: &World, sshd: &Sshd, rex: &Rex, findings: &mut Findings) -> Result<()> {
    let ssh = || {
        let mut command = Command::new("ssh");
        command.args(sshd.options()).args(["127.0.0.1", "true"]).stdin(Stdio::null());
        command
    };
    let far = || rex.command(&["exec", "-t", "far", "--", "true"]);
    for _ in 0..9 {
        whole(&mut far())?;
    }
    let mut peers: Vec<(&str, Once<'_>)> = vec![
        ("ssh", Box::new(|| whole(&mut ssh()))),
        ("rex exec, the tenth and later", Box::new(|| whole(&mut far()))),
    ];
    let names: Vec<String> = peers.iter().map(|(name, _)| (*name).to_owned()).collect();
    let samples = interleave(&mut peers, world.amount(10, 2), |(_, once)| Ok(vec![once()?]))?;
    drop(peers);
    whole(&mut rex.command(&["target", "close", "far"]))?;
    table(findings, "true, no master connection configured", &names, &samples, time);
    let ours = median(&names, &samples, "rex exec, the tenth and later")?;
    let ssh = ("ssh", median(&names, &samples, "ssh")?);
    findings.targets.push(compare("the tenth rex exec over ssh", ours, ssh, Bound::AtMost(0.15), time));
    Ok(())
}

/// Much output over ssh into a pipe, on open connections: that of the user for ssh, its own for rex.
fn bulk(world: &World, sshd: &Sshd, rex: &Rex, findings: &mut Findings) -> Result<()> {
    let size = world.amount(BULK_BYTES, BULK_BYTES / 64);
    let path = world.text(size)?.display().to_string();
    let ssh = || {
        let mut command = Command::new("ssh");
        let control = ["-S".to_owned(), sshd.control().display().to_string()];
        command.args(sshd.options()).args(control).args(["127.0.0.1", "cat", &path]).stdin(Stdio::null());
        command
    };
    whole(&mut rex.command(&["exec", "-t", "far", "--", "true"]))?;
    let far = || rex.command(&["exec", "-t", "far", "--", "cat", &path]);
    let mut peers: Vec<(&str, Once<'_>)> = vec![
        ("ssh -S", Box::new(|| piped(&mut ssh(), size))),
        ("rex exec", Box::new(|| piped(&mut far(), size))),
    ];
    let names: Vec<String> = peers.iter().map(|(name, _)| (*name).to_owned()).collect();
    let samples = interleave(&mut peers, world.amount(5, 1), |(_, once)| Ok(vec![once()?]))?;
    table(findings, "512 MiB to a pipe", &names, &samples, time);
    let ours = median(&names, &samples, "rex exec")?;
    let ssh = ("ssh -S", median(&names, &samples, "ssh -S")?);
    findings.targets.push(compare("512 MiB through rex exec over ssh", ours, ssh, Bound::AtMost(1.0), time));
    Ok(())
}

/// Reads the output of a command, which must have this size; returns its time in seconds.
fn piped(command: &mut Command, size: u64) -> Result<f64> {
    let (seconds, read) = timed(|| {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut read = 0;
        let mut count = |bytes: &[u8]| {
            read += bytes.len() as u64;
            Ok(())
        };
        drain(child.stdout.as_mut().context("no stdout")?, &mut vec![0; 1 << 20], &mut count)?;
        ensure!(child.wait()?.success(), "{:?} failed", command.get_program());
        Ok(read)
    })?;
    ensure!(read == size, "{read} bytes of {size} arrived");
    Ok(seconds)
}

/// Commands on an open session of the client library.
fn kept(world: &World, sshd: &Sshd, findings: &mut Findings) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let session = runtime.block_on(open(world, sshd))?;
    let mut floor = Floor::default();
    let mut peers: Vec<(&str, Once<'_>)> = vec![
        ("floor", Box::new(|| timed(|| floor.run(&["/bin/true"], &mut ignore)).map(|(seconds, _)| seconds))),
        ("server.ping", Box::new(|| timed(|| runtime.block_on(ping(&session))).map(|(seconds, ())| seconds))),
        (
            "a second command",
            Box::new(|| timed(|| runtime.block_on(once(&session))).map(|(seconds, ())| seconds)),
        ),
    ];
    let names: Vec<String> = peers.iter().map(|(name, _)| (*name).to_owned()).collect();
    let each = world.amount(50, 5);
    let samples =
        interleave(&mut peers, world.amount(10, 2), |(_, once)| (0..each).map(|_| once()).collect())?;
    drop(peers);
    runtime.block_on(session.close())?;
    table(findings, "on a kept connection over ssh", &names, &samples, time);
    let bound = median(&names, &samples, "floor")? + median(&names, &samples, "server.ping")?;
    let ours = median(&names, &samples, "a second command")?;
    let held = ("floor and the round trip", bound);
    findings.targets.push(compare("a second command over ssh", ours, held, Bound::AtMost(1.5), time));
    Ok(())
}

async fn open(world: &World, sshd: &Sshd) -> Result<Session> {
    let config = world.setup().configured()?.display().to_string();
    let argv = [world.rexd.display().to_string(), "--stdio".to_owned(), "--config".to_owned(), config];
    let target = Target::Ssh(client::target::SshTarget {
        host: "127.0.0.1".to_owned(),
        options: sshd.options(),
        command: Some(client::target::RemoteCommand::Argv(argv.to_vec())),
        ..client::target::SshTarget::default()
    });
    Session::open(target, SessionOptions::default()).await.context("no session over ssh")
}

async fn ping(session: &Session) -> Result<()> {
    session.call(&v1::ServerPing::default()).await?;
    Ok(())
}

async fn once(session: &Session) -> Result<()> {
    let mut process = session.start(client::Command::argv(["/bin/true"])).await?;
    while let Some(event) = process.next().await? {
        if let client::ProcessEventKind::Exit(exit) = event.kind {
            ensure!(exit.status() == 0, "/bin/true ended with {}", exit.status());
            return Ok(());
        }
    }
    bail!("no exit")
}
