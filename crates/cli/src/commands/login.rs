//! `rex login`: signs in to a hub and stores the sign-in.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write as _};

use client::hub::{HubClient, HubError};
use client::target::{BearerToken, Tls, UrlTarget};
use http::StatusCode;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::json;

use crate::args::LoginArgs;
use crate::failure::{CommandStatus, Failure};
use crate::hub::logins::{Login, Logins, logins_file, parse_hub};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::output;
use crate::route::Paths;

/// The longest password or token that is read.
const MAX_SECRET_BYTES: u64 = 16 * 1024;

/// Signs in with a password or a token.
pub(super) async fn run(json: bool, args: LoginArgs) -> Result<CommandStatus, Failure> {
    let file = logins_file(&Paths::from_environment())?;
    let ca_file = args.ca_file.as_deref().map(std::path::absolute).transpose()?;
    let address = parse_hub(&args.url)?;
    let url = UrlTarget { tls: Tls { ca_file: ca_file.clone(), ..Tls::default() }, ..address };
    warn_of_clear_text(&url);
    let login = match args.token_stdin {
        true => with_token(&url, first_line(&mut std::io::stdin())?).await?,
        false => {
            let user = match args.user {
                Some(user) => user,
                None => prompt("User name: ", Echo::On).await?,
            };
            let password = match args.password_stdin {
                true => first_line(&mut std::io::stdin())?,
                false => prompt(&format!("Password of {user} at {url}: "), Echo::Off).await?,
            };
            with_password(&url, user, &password).await?
        }
    };
    let login = Login { ca_file, ..login };
    let (user, hub) = (login.user.clone(), login.url.clone());
    Logins::change(&file, |logins| logins.add(login))?;
    match (json, &user) {
        (true, _) => output::json_line(&json!({ "url": hub, "user": user }))?,
        (false, Some(user)) => {
            output::line(format_args!("signed in to {hub} as {user}   (`rex hosts` lists its hosts)"))?
        }
        (false, None) => output::line(format_args!("signed in to {hub}   (`rex hosts` lists its hosts)"))?,
    }
    Ok(CommandStatus::OK)
}

/// Prints a note if others on the network can read the password.
fn warn_of_clear_text(url: &UrlTarget) {
    let (host, _) = url.address();
    let is_local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if !url.scheme.is_encrypted() && !is_local {
        output::note(format_args!(
            "{url} is not encrypted: others on the network can read your password and commands"
        ));
    }
}

async fn with_password(url: &UrlTarget, user: String, password: &str) -> Result<Login, Failure> {
    let signed_in = HubClient::anonymous(url.clone()).sign_in(&user, password).await;
    signed_in.map(|tokens| Login::new(url.to_text(), user, tokens)).map_err(|error| refusal(url, error))
}

/// Checks a client token with a request that every role permits.
async fn with_token(url: &UrlTarget, token: String) -> Result<Login, Failure> {
    let client = HubClient::anonymous(UrlTarget { token: Some(BearerToken(token.clone())), ..url.clone() });
    client.hosts().await.map_err(|error| match error {
        HubError::Refused { status, message, .. }
            if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status) =>
        {
            Failure::new(format!("{url} does not accept the token: {message}"))
                .hint("`rexhub token add NAME --kind client --role ROLE` creates one")
        }
        error => refusal(url, error),
    })?;
    Ok(Login {
        url: url.to_text(),
        user: None,
        access_token: token,
        expires_at: None,
        refresh_token: None,
        ca_file: None,
    })
}

fn refusal(url: &UrlTarget, error: HubError) -> Failure {
    match error {
        HubError::Refused { status, .. } if status == StatusCode::UNAUTHORIZED => {
            Failure::new(format!("cannot sign in to {url}: wrong user name or password"))
                .hint("`rexhub user list` on the machine of the hub shows the users")
        }
        HubError::Refused { status, retry_after, .. } if status == StatusCode::TOO_MANY_REQUESTS => {
            let wait = retry_after.map_or("a few minutes".to_owned(), |seconds| format!("{seconds} s"));
            Failure::new(format!("cannot sign in to {url}: too many attempts"))
                .hint(format!("try again in {wait}"))
        }
        HubError::Decode { .. } => not_a_hub(url),
        HubError::Refused { status, .. }
            if [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED].contains(&status) =>
        {
            not_a_hub(url)
        }
        error => error.into(),
    }
}

fn not_a_hub(url: &UrlTarget) -> Failure {
    Failure::new(format!("cannot sign in: {url} is not a hub"))
        .hint("use the address that `rexhub serve` prints")
}

/// The first line of a stream, without its end.
fn first_line(input: &mut impl Read) -> Result<String, Failure> {
    let mut line = String::new();
    BufReader::new(input.take(MAX_SECRET_BYTES)).read_line(&mut line)?;
    let secret = line.trim_end_matches(['\n', '\r']);
    match secret.is_empty() {
        true => Err(Failure::new("cannot sign in: the input is empty")),
        false => Ok(secret.to_owned()),
    }
}

/// Whether typed characters are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Echo {
    On,
    Off,
}

/// Reads a line from the terminal. Ctrl-C ends `rex`, with the terminal as it was.
async fn prompt(text: &str, echo: Echo) -> Result<String, Failure> {
    let no_terminal = |error: std::io::Error| {
        Failure::new(format!("cannot prompt for the sign-in: {error}"))
            .hint("use --user NAME --password-stdin, or --token-stdin")
    };
    let mut terminal = File::options().read(true).write(true).open("/dev/tty").map_err(no_terminal)?;
    let mut interrupt = Interrupt::listen()?;
    let hidden = match echo {
        Echo::On => None,
        Echo::Off => Some(HiddenInput::start(terminal.try_clone()?)?),
    };
    write!(terminal, "{}", crate::escape::line(text))?;
    let mut input = terminal.try_clone()?;
    let reading = tokio::task::spawn_blocking(move || first_line(&mut input));
    let line = tokio::select! {
        line = reading => line.map_err(|error| Failure::new(format!("cannot read the terminal: {error}")))?,
        () = interrupt.received() => Err(Failure::new("interrupted").status(INTERRUPTED)),
    };
    if hidden.is_some() {
        writeln!(terminal)?;
    }
    line
}

/// A terminal that does not show what is typed; dropping this restores it.
struct HiddenInput {
    terminal: File,
    before: Termios,
}

impl HiddenInput {
    fn start(terminal: File) -> Result<HiddenInput, Failure> {
        let before = tcgetattr(&terminal).map_err(std::io::Error::from)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Flush, &hidden).map_err(std::io::Error::from)?;
        Ok(HiddenInput { terminal, before })
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        // A closed terminal needs no restoring.
        tcsetattr(&self.terminal, OptionalActions::Now, &self.before).ok();
    }
}
