//! What every face asks before it does something: the operator's rules where paths are opened, and people where the
//! rules say so.

mod ask;
mod rules;

pub(crate) use ask::{Waits, settle};
pub(crate) use rules::Rules;
