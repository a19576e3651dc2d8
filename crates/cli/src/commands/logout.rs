//! `rex logout`: signs out of a hub.

use client::ConnectStep;
use client::hub::{HubClient, HubError};
use client::target::HubTarget;
use serde_json::json;

use crate::args::LogoutArgs;
use crate::failure::{CommandStatus, Failure};
use crate::hub::logins::{HubToken, Login, Logins, add_sign_in, hub_address, logins_file};
use crate::output;
use crate::route::Paths;

/// Ends the sign-in at the hub and removes it from this machine.
pub(super) async fn run(json: bool, args: LogoutArgs) -> Result<CommandStatus, Failure> {
    let paths = Paths::from_environment();
    let file = logins_file(&paths)?;
    let wanted = args.url.as_deref().map(hub_address).transpose()?;
    let Some(login) = Logins::load(&file)?.find(wanted.as_deref()).cloned() else {
        let place = wanted.as_deref().unwrap_or("a hub");
        return Err(Failure::new(format!("not signed in to {place}")));
    };
    let ended = end(&login, args.everywhere, &paths).await;
    // The tokens leave this machine even if the hub cannot be reached.
    Logins::change(&file, |logins| logins.remove(&login.url))?;
    ended?;
    match json {
        true => output::json_line(&json!({ "url": login.url }))?,
        false => output::line(format_args!("signed out of {}", login.url))?,
    }
    Ok(CommandStatus::OK)
}

async fn end(login: &Login, everywhere: bool, paths: &Paths) -> Result<(), Failure> {
    if login.user.is_none() {
        output::note("the client token itself is still valid: `rexhub token remove NAME` revokes it");
        return Ok(());
    }
    let mut target = HubTarget { host: None, hub: Some(login.address()?), sign_in: None };
    add_sign_in(&mut target, HubToken::SignIn(None), paths)?;
    let client = HubClient::new(&target).map_err(HubError::from)?;
    match client.sign_out(everywhere).await {
        Ok(()) => Ok(()),
        // A sign-in that has ended already needs no end.
        Err(HubError::Connect(error)) if error.step == ConnectStep::Authenticate && !error.is_transient => {
            Ok(())
        }
        Err(HubError::Refused { status, .. }) if status == http::StatusCode::UNAUTHORIZED => Ok(()),
        Err(error) => {
            let failure = Failure::from(error);
            let message = format!("signed out on this machine, but not at the hub: {}", failure.message);
            Err(Failure { message, ..failure }
                .hint("the sign-in ends there when it expires; an administrator can end it now"))
        }
    }
}
