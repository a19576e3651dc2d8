//! `/help`: the commands, and the actions of the current document.

use crate::faces::stringd::documents::state::DocumentState;

const COMMANDS: &str = "## String Commands

Every command starts with /; some take a body on the lines after the first.

### Navigation
/open <target>          Open a file, directory, page, #block, @shortcut or app:<name>
/nav [menu]             Show menus; /nav page lists the shortcuts of this page
/back                   Return to the previous document
/refresh                Load the current document again
/close                  Close the current document

### Actions
/act                    List the actions of this page
/act.<id> [flags]       Run an action; --help shows its flags

### State
/info [@id]             Describe this topic, or a shortcut
/source                 Show the text of the current document
/ls [path]              List a directory
/set {x} = \"v\"          Set a variable of this topic
/set $X = \"v\"           Set a variable that is kept

### Editing
/write <path>           Write the body to a file
/append <path>          Append the body to a file
/edit <path>[#block]    Show with line numbers, or replace with the body
/verify <path>#<block>  Show the start of a block
/undo                   Revert the last change

### Sessions
/session [list]         List the topics
/session close [topic]  Close a topic

### Tools
/tool:<name>[.<action>] Run an action of a tool

### Shell
/exec <command>         Run a shell command

### Packages
/install [--app|--tool] [source]
/uninstall <name>";

/// The list of commands.
pub(in super::super) fn run(state: &DocumentState) -> String {
    let mut text = format!("String Commands\n---\n{COMMANDS}");
    let actions = state.current.iter().flat_map(|open| open.document.actions());
    let actions: Vec<String> = actions.map(|action| action.invocation()).collect();
    if !actions.is_empty() {
        text.push_str("\n\n## Actions on this page\n");
        text.push_str(&actions.join("\n"));
    }
    text
}
