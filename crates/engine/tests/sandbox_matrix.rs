//! Runs attacks and permitted actions in confined processes, on pipes and on terminals, as the current user and, if that is
//! root, also as an ordinary user. Prints the results as a table.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failed test panics")]

mod sandbox_support;
mod support;

use std::process::Command;

use engine::Session;
use engine::process::{Containment, ExitStatus, TerminalSize};
use sandbox_support::{Case, ESCAPES, Must, Place, WORKS};

/// Names of the columns.
const COLUMNS: [(&str, bool); 4] =
    [("read-only", false), ("read-only", true), ("workspace-write", false), ("workspace-write", true)];

#[tokio::test]
async fn the_matrix_holds() {
    let place = Place::new();
    let engine = support::engine(Containment::Best);
    let mut session = engine.open_session().unwrap();
    let (mut wrong, mut rows) = (Vec::new(), Vec::new());
    for case in ESCAPES.iter().chain(WORKS) {
        let mut row = format!("{:<44} {:<12}", case.name, unconfined(&mut session, case).await);
        for (profile, is_terminal) in COLUMNS {
            let outcome = run(&mut session, &place, case, (profile, is_terminal)).await;
            row += &format!(" {:<12}", outcome.word);
            if !outcome.is_right {
                wrong.push(format!("{}: {profile}, terminal {is_terminal}: {}", case.name, outcome.output));
            }
        }
        rows.push(row);
    }
    println!(
        "{:<44} unconfined   ro pipes     ro terminal  ww pipes     ww terminal",
        format!("uid {}", user())
    );
    println!("{}", rows.join("\n"));
    place.assert_untouched();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The result of the same script without a confinement, which shows that the attack is real.
async fn unconfined(session: &mut Session, case: &Case) -> &'static str {
    if case.harms {
        return "-";
    }
    let place = Place::new();
    let mut spec = place.spec(case.script, "read-only");
    spec.confinement = None;
    match support::run(session, spec).await.closed.exit {
        ExitStatus::Code(0) => "possible",
        _ => "impossible",
    }
}

#[test]
fn the_matrix_holds_for_an_ordinary_user() {
    if user() != 0 {
        // The current user is an ordinary user already.
        return;
    }
    let own = std::env::current_exe().unwrap();
    let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let home = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(home.path(), Some(65534), Some(65534)).unwrap();
    let output = Command::new("setpriv")
        .args(user)
        .arg(own)
        .args(["--exact", "the_matrix_holds", "--nocapture"])
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .output()
        .unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

struct Outcome {
    word: &'static str,
    is_right: bool,
    output: String,
}

async fn run(
    session: &mut Session,
    place: &Place,
    case: &Case,
    (profile, is_terminal): (&str, bool),
) -> Outcome {
    let writes = profile == "workspace-write";
    let mut spec = place.spec(case.script, profile);
    if is_terminal {
        spec.terminal = Some(TerminalSize { cols: 80, rows: 24 });
    }
    let got = support::run(session, spec).await;
    let output = format!(
        "{:?} {} {}",
        got.closed.exit,
        String::from_utf8_lossy(&got.stdout),
        String::from_utf8_lossy(&got.stderr)
    );
    let has_succeeded = got.closed.exit == ExitStatus::Code(0);
    let leaked = output.contains(sandbox_support::SECRET);
    let must = if case.must == Must::WorkWhereItMayWrite && !writes { Must::Fail } else { case.must };
    let (word, is_right) = match (must, has_succeeded) {
        (Must::Fail, false) => ("refused", !leaked),
        (Must::Fail, true) => ("POSSIBLE", false),
        (Must::Work | Must::WorkWhereItMayWrite, true) => ("works", true),
        (Must::Work | Must::WorkWhereItMayWrite, false) => ("BROKEN", false),
    };
    Outcome { word, is_right, output }
}

fn user() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid()
}
