//! `rex cp` with the real programs: what arrives, where it goes, what is left out, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

#[allow(unreachable_pub, reason = "shared with other tests")]
mod support;
#[path = "support/trees.rs"]
mod trees;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use serde_json::Value;
use support::{rex, run, text};
use testkit::programs::program;
use testkit::proxy::{Direction, Proxy};
use testkit::sandbox::Sandbox;
use testkit::sshd::Sshd;
use trees::{noise, tree};

/// Runs `rex cp` in the root and returns its last word.
fn cp(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let line = text(sandbox, &[&["cp", "--json"], arguments].concat());
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

/// What `rex` said on stderr, and its status.
fn refused(sandbox: &Sandbox, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(sandbox, &[&["cp"], arguments].concat());
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// A tree with everything that may be in one, outside the root.
fn sample(sandbox: &Sandbox) {
    for (name, size) in [
        ("src/plain", 5),
        ("src/empty", 0),
        ("src/a\nnewline", 3),
        ("src/-rf", 4),
        ("src/sp ace/ümlaut 💡", 7),
        ("src/deep/er/and/deeper/file", 1),
        ("src/exactly", 1 << 20),
        ("src/large", (3 << 20) + 17),
        ("src/.hidden", 2),
    ] {
        sandbox.write(name, noise(size));
    }
    sandbox.write(&format!("src/{}", "n".repeat(255)), "long");
    sandbox.write(&format!("src/{}", "l".repeat(250)), noise((1 << 20) + 1));
    fs::create_dir(sandbox.path("src/nothing in it")).unwrap();
    let mode = |name: &str, mode| {
        fs::set_permissions(sandbox.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("src/plain", 0o755);
    mode("src/large", 0o750);
    mode("src/.hidden", 0o600);
}

#[test]
fn a_tree_goes_there_and_comes_back_as_it_was() {
    let sandbox = Sandbox::new();
    sample(&sandbox);
    let there = cp(&sandbox, &["../src", ":there"]);
    assert_eq!((&there["files"], &there["skipped"], &there["failed"]), (&11.into(), &0.into(), &0.into()));
    assert_eq!(tree(&sandbox.path("src")), tree(&sandbox.path("root/there")));
    let back = cp(&sandbox, &[":there", "../back"]);
    assert_eq!((&back["files"], &back["bytes"]), (&11.into(), &there["bytes"]));
    assert_eq!(tree(&sandbox.path("src")), tree(&sandbox.path("back")));
}

#[test]
fn a_second_run_copies_only_what_is_different() {
    let sandbox = Sandbox::new();
    sample(&sandbox);
    cp(&sandbox, &["../src/.", ":there"]);
    sandbox.write("root/there/plain", "other");
    fs::set_permissions(sandbox.path("root/there/large"), fs::Permissions::from_mode(0o644)).unwrap();
    let again = cp(&sandbox, &["../src/.", ":there"]);
    assert_eq!((&again["files"], &again["skipped"]), (&1.into(), &10.into()));
    assert_eq!(tree(&sandbox.path("src")), tree(&sandbox.path("root/there")));
    cp(&sandbox, &[":there/.", "../back"]);
    sandbox.write("back/exactly", noise(1 << 20).iter().map(|byte| !byte).collect::<Vec<_>>());
    let again = cp(&sandbox, &["--no-verify", ":there/.", "../back"]);
    assert_eq!((&again["files"], &again["skipped"]), (&1.into(), &10.into()));
    assert_eq!(tree(&sandbox.path("src")), tree(&sandbox.path("back")));
}

#[test]
fn a_directory_becomes_the_destination_and_a_trailing_slash_means_into_it() {
    for (source, target, goes_to) in [
        ("../file", ":", "file"),
        ("../file", ":.", "file"),
        ("../file", ":dir", "dir/file"),
        ("../file", ":dir/", "dir/file"),
        ("../file", ":new/", "new/file"),
        ("../file", ":new", "new"),
        ("../file", ":old", "old"),
        ("../file", ":no/such/dir/new", "no/such/dir/new"),
        ("../tree", ":new", "new/leaf"),
        ("../tree", ":new/", "new/tree/leaf"),
        ("../tree", ":dir", "dir/leaf"),
        ("../tree/", ":dir", "dir/leaf"),
        ("../tree/", ":dir/", "dir/tree/leaf"),
        ("../tree/.", ":dir", "dir/leaf"),
        ("../tree/.", ":new", "new/leaf"),
        ("../tree", ":", "tree/leaf"),
        ("../link", ":dir", "dir/link"),
        ("../links", ":dir", "dir/leaf"),
        ("../links", ":dir/", "dir/links/leaf"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("file", "text");
        sandbox.write("tree/leaf", "text");
        sandbox.link("link", "file");
        sandbox.link("links", "tree");
        fs::create_dir(sandbox.path("root/dir")).unwrap();
        sandbox.write("root/old", "old");
        cp(&sandbox, &[source, target]);
        let arrived = fs::symlink_metadata(sandbox.root().join(goes_to));
        assert!(arrived.is_ok_and(|found| found.is_file()), "{source} {target} goes to {goes_to}");
        assert_eq!(sandbox.read(&format!("root/{goes_to}")), "text");
    }
    let sandbox = Sandbox::new();
    sandbox.write("file", "text");
    sandbox.write("tree/leaf", "text");
    sandbox.write("root/old", "old");
    for (arguments, says) in [
        (["../file", ":old/"], "old/: not a directory"),
        (["../tree", ":old"], "it is a file"),
        (["../missing", ":new"], "no such file"),
        ([":missing", "../new"], "no such file"),
        (["../file", "../other"], "both paths are local"),
    ] {
        let (status, said) = refused(&sandbox, &arguments);
        assert_eq!(status, Some(255), "{said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

#[test]
fn links_are_copied_or_followed_and_special_files_are_left_out_and_told() {
    let sandbox = Sandbox::new();
    sandbox.write("src/file", "text");
    sandbox.write("elsewhere/leaf", "more");
    const LINKS: [(&str, &str); 4] =
        [("to-file", "file"), ("to-dir", "../elsewhere"), ("broken", "nowhere"), ("loop", ".")];
    for (name, leads) in LINKS {
        symlink(leads, sandbox.path("src").join(name)).unwrap();
    }
    let _socket = UnixListener::bind(sandbox.path("src/socket")).unwrap();
    for (source, target, prefix) in [("../src", ":plain", "root/"), (":plain2", "../plain", "")] {
        if source.starts_with(':') {
            fs::rename(sandbox.path("src"), sandbox.path("root/plain2")).unwrap();
            fs::rename(sandbox.path("elsewhere"), sandbox.path("root/elsewhere")).unwrap();
        }
        let output = run(&sandbox, &["cp", "--json", source, target]);
        let said = String::from_utf8(output.stderr).unwrap();
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (output.status.code(), &summary["files"], &summary["links"], &summary["left_out"]),
            (Some(0), &1.into(), &4.into(), &1.into())
        );
        assert!(said.contains("socket: not a file or directory"), "{said}");
        for (name, leads) in LINKS {
            let copied = fs::read_link(sandbox.path(format!("{prefix}plain/{name}"))).unwrap();
            assert_eq!(copied.to_str(), Some(leads), "{name}");
        }
        let again = cp(&sandbox, &[source, target]);
        assert_eq!((&again["skipped"], &again["links"]), (&5.into(), &0.into()), "{source}");
        let followed = cp(&sandbox, &["--follow", source, &target.replace("plain", "whole")]);
        assert_eq!((&followed["files"], &followed["left_out"]), (&3.into(), &3.into()), "{source}");
        let path = |name: &str| format!("{prefix}whole/{name}");
        assert_eq!(sandbox.read(&path("to-file")), "text");
        assert_eq!(sandbox.read(&path("to-dir/leaf")), "more");
        assert!(!sandbox.path(path("to-dir")).is_symlink() && !sandbox.path(path("loop")).exists());
    }
}

#[test]
fn names_that_are_no_text_are_told_and_the_rest_is_copied() {
    let sandbox = Sandbox::new();
    let odd = OsStr::from_bytes(b"odd\xff");
    for dir in ["src", "root/there"] {
        sandbox.write(&format!("{dir}/fine"), "text");
        fs::write(sandbox.path(dir).join(odd), "text").unwrap();
    }
    for arguments in [["../src", ":copy"], [":there", "../copy"]] {
        let (status, said) = refused(&sandbox, &arguments);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("odd\u{fffd}") && said.contains("not UTF-8"), "{said}");
    }
    assert_eq!((sandbox.read("root/copy/fine"), sandbox.read("copy/fine")), ("text".into(), "text".into()));
}

#[test]
fn an_existing_link_stays_and_what_it_leads_to_is_replaced() {
    let sandbox = Sandbox::new();
    sandbox.write("small", "new");
    sandbox.write("large", noise(2 << 20));
    for name in ["small", "large"] {
        sandbox.write(&format!("root/real-{name}"), "old");
        sandbox.link(&format!("root/{name}"), format!("real-{name}"));
        cp(&sandbox, &[&format!("../{name}"), &format!(":{name}")]);
        assert!(sandbox.path(format!("root/{name}")).is_symlink());
        assert_eq!(
            fs::read(sandbox.path(name)).unwrap(),
            fs::read(sandbox.path(format!("root/real-{name}"))).unwrap()
        );
    }
}

#[test]
fn what_may_not_be_written_is_told_with_the_reason_and_the_rest_is_copied() {
    let sandbox = Sandbox::with_config(
        "[[policy.rules]]\nname = \"keep\"\naction = \"deny\"\naccess = \"write\"\npaths = [\"$ROOT/copy/keep/**\"]\n",
    );
    sandbox.write("src/fine", "text");
    sandbox.write("src/keep/small", "text");
    sandbox.write("src/keep/large", noise(2 << 20));
    let configured = |arguments: &[&str]| {
        let output = rex(&sandbox, arguments).env("REXD_CONFIG", sandbox.config()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, said) = configured(&["cp", "../src", ":copy"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("keep/small") && said.contains("keep/large"), "{said}");
    assert_eq!(sandbox.read("root/copy/fine"), "text");
    assert!(!sandbox.path("root/copy/keep/small").exists() && !sandbox.path("root/copy/keep/large").exists());
    let outside = format!(":{}", sandbox.outside().join("x").display());
    let (status, said) = configured(&["cp", "../src/fine", &outside]);
    assert_eq!(status, Some(255), "{said}");
    assert!(said.contains("hint: allowed roots:"), "{said}");
}

#[test]
fn a_session_that_may_only_read_is_refused_and_can_still_be_copied_from() {
    let sandbox = Sandbox::with_config("[sandbox]\nprofile = \"read-only\"\n");
    sandbox.write("src/large", noise(2 << 20));
    sandbox.write("root/src/large", noise(2 << 20));
    let configured = |arguments: &[&str]| {
        let output = rex(&sandbox, arguments).env("REXD_CONFIG", sandbox.config()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, said) = configured(&["cp", "../src/large", ":copy"]);
    assert!(status == Some(255) && said.contains("read-only"), "{status:?} {said}");
    assert_eq!(fs::read_dir(sandbox.root()).unwrap().count(), 1, "nothing was made");
    let (status, said) = configured(&["cp", ":src", "../back"]);
    assert_eq!((status, said.as_str()), (Some(0), ""));
    assert_eq!(tree(&sandbox.path("root/src")), tree(&sandbox.path("back")));
}

#[test]
fn what_is_on_one_target_is_copied_there_and_between_two_it_passes_through_us() {
    let sandbox = Sandbox::new();
    sandbox.write("root/src/leaf", "text");
    sandbox.write("root/src/large", noise(2 << 20));
    fs::create_dir(sandbox.path("root/dir")).unwrap();
    let summary = cp(&sandbox, &[":src", ":dir/"]);
    assert_eq!((&summary["files"], &summary["bytes"]), (&2.into(), &((2 << 20) + 4).into()));
    assert_eq!(tree(&sandbox.path("root/src")), tree(&sandbox.path("root/dir/src")));
    cp(&sandbox, &[":src", ":again"]);
    assert_eq!(cp(&sandbox, &[":src", ":again"])["skipped"], 2);
    assert_eq!(tree(&sandbox.path("root/src")), tree(&sandbox.path("root/again")));
    assert!(text(&sandbox, &["cp", ":src/leaf", ":named"]).starts_with("copied 1 file (4 B) in "));
    assert_eq!(sandbox.read("root/named"), "text");
    let served = testkit::serve::ServedDaemon::start(&program("rexd"), &sandbox);
    let proxy = Proxy::start(&served.addresses, &sandbox.path("."));
    text(&sandbox, &["target", "add", "far", &format!("unix:{}", proxy.addresses.unix.display())]);
    let far = |name: &str| format!("far:{}/{name}", sandbox.root().display());
    let passed = || proxy.passed(Direction::Daemon) + proxy.passed(Direction::Client);
    cp(&sandbox, &[&far("src"), &far("new/there")]);
    assert!(passed() < 1 << 20, "the large file is not transferred: {} bytes", passed());
    let summary = cp(&sandbox, &[":src", &far("through")]);
    assert_eq!(summary["files"], 2);
    assert!(passed() > 2 << 20);
    for copy in ["root/new/there", "root/through"] {
        assert_eq!(tree(&sandbox.path("root/src")), tree(&sandbox.path(copy)));
    }
}

#[test]
fn a_large_file_and_many_small_ones_go_over_ssh_and_back() {
    let sandbox = Sandbox::new();
    let sshd = Sshd::start(&sandbox);
    sandbox.write("src/large", noise(64 << 20));
    for number in 0..500 {
        sandbox.write(&format!("src/{}/{number}", number % 7), noise(number));
    }
    let client = sshd.client(&sandbox, "");
    let arguments: Vec<&str> = client.get_args().filter_map(|argument| argument.to_str()).collect();
    let (options, place) = (&arguments[..arguments.len() - 2], arguments[arguments.len() - 2]);
    let (user, host) = place.split_once('@').unwrap();
    let config = sandbox.config();
    let command = [program("rexd"), "--stdio".into(), "--config".into(), config.to_str().unwrap().into()];
    let far = serde_json::json!({ "targets": { "far": {
        "transport": "ssh", "host": host, "user": user, "sshOptions": options, "command": command,
    } } });
    sandbox.write("home/config/rexd/targets.json", far.to_string());
    let up = cp(&sandbox, &["../src", "far:copy"]);
    assert_eq!((&up["files"], &up["failed"]), (&501.into(), &0.into()));
    assert_eq!(tree(&sandbox.path("src")), tree(&sandbox.path("root/copy")));
    cp(&sandbox, &["far:copy", "../back"]);
    assert_eq!(tree(&sandbox.path("src")), tree(&sandbox.path("back")));
}

/// Two versions of 2 MiB with one XXH128 and different contents: where the low half of a lane of XXH3 equals its secret, the
/// lane is only added to its sum, so two stripes can exchange a difference.
fn colliding() -> [Vec<u8>; 2] {
    const SECRETS: [[u8; 4]; 2] = [[0xb8, 0xfe, 0x6c, 0x39], [0x7c, 0x01, 0x81, 0x2c]];
    [[7_u32, 9], [8, 8]].map(|high| {
        let mut bytes = noise(2 << 20);
        for (stripe, (secret, high)) in SECRETS.iter().zip(high).enumerate() {
            let lane = [&secret[..], &high.to_le_bytes()].concat();
            bytes[64 * stripe..64 * stripe + 8].copy_from_slice(&lane);
        }
        bytes
    })
}

#[test]
fn a_partial_file_that_collides_with_the_source_is_not_resumed() {
    let [wanted, other] = colliding();
    let part = &other[..3 << 19];
    assert!(wanted != other);
    let hash = xxhash_rust::xxh3::xxh3_128;
    assert_eq!((hash(&wanted), hash(&wanted[..part.len()])), (hash(&other), hash(part)));
    let sandbox = Sandbox::new();
    sandbox.write("large", &wanted);
    sandbox.write("root/large", &wanted);
    for (source, target, copy, left) in [
        ("../large", ":copy", "root/copy", "root/.copy.rex-part"),
        (":large", "../copy", "copy", ".copy.rex-part"),
    ] {
        sandbox.write(left, part);
        cp(&sandbox, &[source, target]);
        assert!(fs::read(sandbox.path(copy)).unwrap() == wanted, "{target}");
    }
}
