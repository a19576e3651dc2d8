//! Redacts secrets in addresses for messages and logs.

/// Words in the name of a query parameter whose value is a secret.
const SECRETS: [&str; 8] = ["token", "ticket", "secret", "key", "pass", "auth", "sig", "credential"];

/// An address, or text that was meant to be one, with `…` in place of every secret: user information before the host,
/// and query parameters.
pub(crate) fn redacted(address: &str) -> String {
    let is_separator = |c: char| "?&#;".contains(c);
    let mut text = String::with_capacity(address.len());
    for (number, part) in address.split_inclusive(is_separator).enumerate() {
        match (number, part.split_once('=')) {
            (0, _) => text.push_str(&without_user(part)),
            (_, Some((name, value))) if is_secret(name) => {
                text.push_str(name);
                text.push_str("=…");
                text.push_str(value.matches(is_separator).next_back().unwrap_or_default());
            }
            _ => text.push_str(part),
        }
    }
    text
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

/// Redacts `NAME:PASSWORD` in `https://NAME:PASSWORD@HOST`. The user in an ssh address has no password and stays.
fn without_user(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://").filter(|(scheme, _)| !scheme.ends_with("ssh"))
    else {
        return address.to_owned();
    };
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}"),
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_redacted_wherever_they_occur() {
        for (address, expected) in [
            ("codex:https://hub/x?token=SECRET", "codex:https://hub/x?token=…"),
            ("wss://h/x?role=harness&access_token=SECRET&x=1", "wss://h/x?role=harness&access_token=…&x=1"),
            ("ws://h/x?ticket=SECRET#top", "ws://h/x?ticket=…#top"),
            ("ws://h/#token=SECRET", "ws://h/#token=…"),
            ("ws://h/?Api-Key=SECRET=&y", "ws://h/?Api-Key=…&y"),
            ("https://SECRET@host/", "https://…@host/"),
            ("https://me:SEC@RET@host/?a=1", "https://…@host/?a=1"),
            ("ssh://me@host", "ssh://me@host"),
            ("ssh:me@host", "ssh:me@host"),
            ("wss://h/rexd/ws?x=1", "wss://h/rexd/ws?x=1"),
            ("unix:/run/rexd.sock", "unix:/run/rexd.sock"),
            ("", ""),
        ] {
            assert_eq!(redacted(address), expected);
        }
    }
}
