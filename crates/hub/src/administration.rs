//! The commands of `rexhub` that manage users, tokens and hosts.

use std::io::Read as _;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::args::{
    DataArgs, HostCommand, JoinCodeArgs, ListArgs, RemoveArgs, TokenAdd, TokenCommand, UserAdd, UserCommand,
    UserLink,
};
use crate::auth::{Secret, now, now_ms};
use crate::commands::{print_line, storage};
use crate::enrolment::{create_join_code, create_sign_in_code, qr_code, token_role};
use crate::passwords;
use crate::serve::open;
use crate::store::{AuditEntry, NewToken, Store};

/// The actor of these commands in the audit.
const ACTOR: &str = "cli";
/// The longest password that is read, in bytes, with its newline.
const MAX_INPUT: u64 = 4096;

async fn store(data: DataArgs) -> anyhow::Result<Store> {
    Ok(open(&storage(data)?).await?)
}

/// Runs a subcommand of `rexhub token`.
pub(crate) async fn token(command: TokenCommand) -> anyhow::Result<()> {
    match command {
        TokenCommand::Add(add) => add_token(add).await,
        TokenCommand::List(list) => list_tokens(list).await,
        TokenCommand::Remove(RemoveArgs { name, data }) => {
            let store = store(data).await?;
            if !store.remove_token(&name).await? {
                bail!("no token {name:?}; list them with `rexhub token list`");
            }
            Ok(store.audit(AuditEntry::new(ACTOR, "token.remove", name)).await?)
        }
    }
}

async fn add_token(add: TokenAdd) -> anyhow::Result<()> {
    let role = token_role(add.kind, add.role).map_err(anyhow::Error::msg)?;
    let store = store(add.data).await?;
    let secret = Secret::random().context("no random bytes for a token")?;
    let digest = secret.digest();
    store
        .add_token(NewToken { name: add.name.clone(), kind: add.kind, role, digest, created: now() })
        .await?;
    store.audit(AuditEntry::new(ACTOR, "token.add", add.name).with_detail(add.kind.word())).await?;
    print_line(secret.expose())
}

async fn list_tokens(list: ListArgs) -> anyhow::Result<()> {
    let tokens = store(list.data).await?.tokens().await?;
    let rows = tokens.into_iter().map(|token| {
        vec![
            ("name", json!(token.name)),
            ("kind", json!(token.kind)),
            ("role", json!(token.role)),
            ("created", json!(time(Some(token.created)))),
            ("last_used", json!(time(token.last_used))),
        ]
    });
    print_rows(list.json, rows.collect())
}

/// Runs a subcommand of `rexhub user`.
pub(crate) async fn user(command: UserCommand) -> anyhow::Result<()> {
    match command {
        UserCommand::Add(add) => add_user(add).await,
        UserCommand::Link(link) => link_user(link).await,
        UserCommand::List(list) => {
            let users = store(list.data).await?.users().await?;
            let rows = users.into_iter().map(|user| {
                let created = json!(time(Some(user.created)));
                vec![("name", json!(user.name)), ("role", json!(user.role)), ("created", created)]
            });
            print_rows(list.json, rows.collect())
        }
        UserCommand::Remove(RemoveArgs { name, data }) => {
            let store = store(data).await?;
            if !store.remove_user(&name).await? {
                bail!("no user {name:?}; list them with `rexhub user list`");
            }
            Ok(store.audit(AuditEntry::new(ACTOR, "user.remove", name)).await?)
        }
    }
}

async fn add_user(add: UserAdd) -> anyhow::Result<()> {
    let password = match add.password_stdin {
        true => {
            let mut text = String::new();
            let mut stdin = std::io::stdin().lock().take(MAX_INPUT);
            stdin.read_to_string(&mut text).context("cannot read the password from standard input")?;
            let text = text.strip_suffix('\n').unwrap_or(&text);
            Some(passwords::hash(text.strip_suffix('\r').unwrap_or(text))?)
        }
        false => None,
    };
    let store = store(add.data).await?;
    store.add_user(&add.name, add.role, password.as_deref(), now()).await?;
    Ok(store.audit(AuditEntry::new(ACTOR, "user.add", add.name).with_detail(add.role.word())).await?)
}

async fn link_user(link: UserLink) -> anyhow::Result<()> {
    let store = store(link.data).await?;
    let Some(user) = store.user(&link.name).await? else {
        bail!("no user {:?}; list them with `rexhub user list`", link.name);
    };
    let code = create_sign_in_code(&store, user.id).await?;
    store.audit(AuditEntry::new(ACTOR, "user.link", user.name)).await?;
    let url = format!("{}/login#{}", link.url.trim_end_matches('/'), code.expose());
    print_qr(link.qr, &url);
    print_line(&url)
}

/// Runs the command `rexhub join-code`.
pub(crate) async fn join_code(args: JoinCodeArgs) -> anyhow::Result<()> {
    let store = store(args.data).await?;
    let code = create_join_code(&store, ACTOR).await?.code;
    store.audit(AuditEntry::new(ACTOR, "join_code.add", "")).await?;
    print_qr(args.qr, code.expose());
    print_line(code.expose())
}

/// Runs a subcommand of `rexhub host`.
pub(crate) async fn host(command: HostCommand) -> anyhow::Result<()> {
    match command {
        HostCommand::List(list) => {
            let hosts = store(list.data).await?.hosts(i64::MAX, now_ms()).await?;
            let rows = hosts.into_iter().map(|host| {
                let state = if host.node.is_some() { "online" } else { "offline" };
                let last_seen = json!(time(Some(host.last_seen_ms / 1000)));
                vec![
                    ("id", json!(host.id)),
                    ("name", json!(host.name)),
                    ("version", json!(host.version)),
                    ("state", json!(state)),
                    ("last_seen", last_seen),
                ]
            });
            print_rows(list.json, rows.collect())
        }
        HostCommand::Remove(RemoveArgs { name, data }) => {
            let store = store(data).await?;
            if !store.remove_host(&name).await? {
                bail!("no host {name:?}; list them with `rexhub host list`");
            }
            Ok(store.audit(AuditEntry::new(ACTOR, "host.remove", name)).await?)
        }
    }
}

/// Prints a QR code on stderr, so that the text alone is on stdout.
fn print_qr(is_wanted: bool, text: &str) {
    if let Some(code) = is_wanted.then(|| qr_code(text)).flatten() {
        // Ignored: stderr may be closed.
        std::io::Write::write_all(&mut std::io::stderr(), code.as_bytes()).ok();
    }
}

/// Prints rows as a table, or as JSON with one object per line.
fn print_rows(is_json: bool, rows: Vec<Vec<(&'static str, Value)>>) -> anyhow::Result<()> {
    if is_json {
        for row in rows {
            print_line(
                &Value::Object(row.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
                    .to_string(),
            )?;
        }
        return Ok(());
    }
    let Some(first) = rows.first() else { return Ok(()) };
    let mut lines: Vec<Vec<String>> =
        vec![first.iter().map(|(name, _)| name.replace('_', " ").to_uppercase()).collect()];
    lines.extend(rows.iter().map(|row| row.iter().map(cell).collect()));
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..first.len()).map(width).collect();
    for line in &lines {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}", width = *width)).collect();
        print_line(cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn cell((name, value): &(&'static str, Value)) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null if *name == "last_used" => "never".to_owned(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

fn time(seconds: Option<i64>) -> Option<String> {
    jiff::Timestamp::from_second(seconds?).ok().map(|time| time.to_string())
}
