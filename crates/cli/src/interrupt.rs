//! Ctrl-C where no command hears of it: `rex` ends, and the ssh that carries its link with it.
//!
//! At a terminal that ssh does not hear keys itself, so that the link lives on when a command gets them.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// 128 and SIGINT, as a shell says it.
pub(crate) const INTERRUPTED: u8 = 130;
/// Whether whoever runs decides what an interrupt means.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// From now on an interrupt is for somebody else to hear.
pub(crate) fn take() {
    IS_TAKEN.store(true, Ordering::Relaxed);
}

/// Somebody who waits for an interrupt.
#[derive(Debug)]
pub(crate) struct Interrupt(Signal);

impl Interrupt {
    /// Begins to listen; an interrupt no longer ends us by itself then.
    pub(crate) fn listen() -> Result<Interrupt, Failure> {
        Ok(Interrupt(signal(SignalKind::interrupt())?))
    }

    /// Comes true with an interrupt that nobody has taken.
    pub(crate) async fn came(&mut self) {
        while self.0.recv().await.is_some() && IS_TAKEN.load(Ordering::Relaxed) {}
    }

    /// Ends us as soon as one comes, with a last word to the sessions that are open.
    pub(crate) async fn end_with_it(mut self) {
        self.came().await;
        crate::app::leave_all().await;
        std::process::exit(INTERRUPTED.into());
    }
}
