//! Half-open connections: both sides stay connected to the proxy, which forwards nothing any more. New connections work.

use testkit::proxy::{CutKind, Proxy};

pub(super) fn inject(proxy: &Proxy) {
    proxy.cut(CutKind::Stalled);
}
