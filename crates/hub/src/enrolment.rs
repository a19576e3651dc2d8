//! Codes that are valid once: for the enrolment of a host, and for signing in by link; and QR codes of them.

use qrcode::QrCode;

use crate::auth::{Secret, UserRole, now};
use crate::store::{Store, StoreError, TokenKind, UserId};
use crate::uplink::normal_code;

/// The lifetime of a join code in seconds.
pub(crate) const JOIN_CODE_SECONDS: i64 = 15 * 60;
/// The lifetime of a sign-in link in seconds.
pub(crate) const LINK_SECONDS: i64 = 15 * 60;
/// Characters of a join code that cannot be confused with each other: 32, so that a byte selects one without bias.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const GROUPS: usize = 5;
const GROUP: usize = 4;

/// A new join code, as it is shown.
#[derive(Debug)]
pub(crate) struct JoinCode {
    pub(crate) code: Secret,
}

/// Creates a code for the enrolment of one host, such as `ABCD-EFGH-JKLM-NPQR-STUV`: 100 random bits.
pub(crate) async fn create_join_code(store: &Store, created_by: &str) -> Result<JoinCode, StoreError> {
    let mut bytes = [0; GROUPS * GROUP];
    getrandom::fill(&mut bytes)?;
    let letters: Vec<u8> = bytes.iter().map(|byte| ALPHABET[usize::from(byte % 32)]).collect();
    let groups: Vec<String> =
        letters.chunks(GROUP).map(|group| String::from_utf8_lossy(group).into_owned()).collect();
    let code = Secret::new(groups.join("-"));
    let digest = Secret::new(normal_code(code.expose())).digest();
    store.add_join_code(digest, created_by, (now(), now() + JOIN_CODE_SECONDS)).await?;
    Ok(JoinCode { code })
}

/// Creates a code with which a user signs in once.
pub(crate) async fn create_sign_in_code(store: &Store, user: UserId) -> Result<Secret, StoreError> {
    let code = Secret::random()?;
    store.add_sign_in_link(user, code.digest(), now() + LINK_SECONDS).await?;
    Ok(code)
}

/// The role of a new token: only client tokens have one, and need it.
pub(crate) fn token_role(kind: TokenKind, role: Option<UserRole>) -> Result<Option<UserRole>, String> {
    match (kind, role) {
        (TokenKind::Client, None) => Err("a client token needs a role: viewer, operator or admin".to_owned()),
        (TokenKind::Client, role) => Ok(role),
        (kind, Some(_)) => Err(format!("a token of the kind {kind} has no role")),
        (_, None) => Ok(None),
    }
}

/// A text as a QR code of block characters; `None` if it is too long for one.
pub(crate) fn qr_code(text: &str) -> Option<String> {
    let code = QrCode::new(text).ok()?;
    let width = code.width();
    let colors = code.to_colors();
    let is_dark = |x: isize, y: isize| {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return false };
        x < width && y < width && colors[y * width + x] == qrcode::Color::Dark
    };
    let (from, to) = (-2, isize::try_from(width).ok()? + 2);
    let mut lines = String::new();
    for y in (from..to).step_by(2) {
        for x in from..to {
            // Light modules are drawn, because most terminals have a dark background.
            lines.push(match (is_dark(x, y), is_dark(x, y + 1)) {
                (true, true) => ' ',
                (false, true) => '▀',
                (true, false) => '▄',
                (false, false) => '█',
            });
        }
        lines.push('\n');
    }
    Some(lines)
}
