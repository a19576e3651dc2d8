//! The commands of document topics, one file each.

pub(super) mod act;
pub(super) mod append;
pub(super) mod back;
mod changes;
pub(super) mod close;
pub(super) mod edit;
pub(super) mod exec;
pub(super) mod help;
pub(super) mod info;
pub(super) mod install;
pub(super) mod ls;
pub(super) mod nav;
pub(super) mod open;
pub(super) mod refresh;
pub(super) mod set;
pub(super) mod source;
pub(super) mod tool;
pub(super) mod undo;
pub(super) mod uninstall;
pub(super) mod verify;
pub(super) mod write;
