//! Options of TCP connections, accepted or dialled.

use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// A connection is cut when the peer acknowledges nothing, or reads nothing, for this long.
const USER_TIMEOUT: Duration = Duration::from_secs(60);

/// Small messages are sent at once, and a dead peer is noticed.
pub(crate) fn set_options(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, USER_TIMEOUT / 2)?;
    sockopt::set_tcp_keepintvl(stream, USER_TIMEOUT / 6)?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    sockopt::set_tcp_user_timeout(stream, u32::try_from(USER_TIMEOUT.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}
