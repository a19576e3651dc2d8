//! `/uninstall`: removes a package; its variables stay.

use crate::faces::stringd::commands::CommandContext;
use crate::faces::stringd::documents::packages::{self, PackageKind};
use crate::faces::stringd::documents::{DocumentResult, failed, store};
use crate::faces::stringd::errors::OperationError;

/// Removes an application, or a tool if there is no application of that name.
pub(in super::super) async fn run(context: &CommandContext, args: &str) -> DocumentResult {
    let typed = args.trim();
    let name = typed
        .split_once(':')
        .filter(|(kind, _)| PackageKind::parse(kind).is_some())
        .map_or(typed, |(_, name)| name);
    if name.is_empty() {
        return Err(failed("COMMAND_UNSUPPORTED", "Usage: /uninstall <name>"));
    }
    for kind in [PackageKind::App, PackageKind::Tool] {
        if !store::register(context, kind.key(), name, None).await? {
            continue;
        }
        // Only a name that `/install` could have stored is a directory of packages.
        if packages::clean_name(name).as_deref() == Some(name) {
            match context.remove(&packages::directory(context, name), true).await {
                Ok(()) | Err(OperationError::NotFound(_)) => {}
                Err(error) => return Err(failed(error.code("INTERNAL_ERROR"), error.to_string())),
            }
        }
        return Ok(format!("Uninstalled {}:{name}", kind.name()));
    }
    Err(failed("NOT_FOUND", format!("Package not found: {name}")))
}
