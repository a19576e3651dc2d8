//! Names in the template of an action: session variables, shortcuts, persistent variables and the environment.

use std::collections::HashMap;

use sfmd::invoke::Bindings;

use super::paths;
use super::state::DocumentState;
use super::store;
use crate::faces::stringd::commands::CommandContext;

/// What the template of one invocation can name.
pub(super) struct ActionBindings<'a> {
    state: &'a DocumentState,
    context: &'a CommandContext,
    /// Variables of a tool's caller, before all others.
    caller: &'a [(String, String)],
    persistent: Vec<(String, String)>,
    files: HashMap<String, Result<Vec<u8>, String>>,
}

impl<'a> ActionBindings<'a> {
    /// Reads the persistent variables.
    pub(super) async fn new(
        state: &'a DocumentState,
        context: &'a CommandContext,
        caller: &'a [(String, String)],
    ) -> ActionBindings<'a> {
        let persistent = store::variables(context).await;
        ActionBindings { state, context, caller, persistent, files: HashMap::new() }
    }

    /// Reads the files that a request contains.
    pub(super) async fn load(&mut self, names: Vec<String>) {
        for name in names {
            let path = paths::absolute(self.state, self.context, &name);
            let content = self.context.read_bytes(&path).await.map_err(|error| error.to_string());
            self.files.insert(name, content);
        }
    }
}

impl Bindings for ActionBindings<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.state.variable(name)
    }

    fn shortcut(&self, id: &str) -> Option<String> {
        self.state.shortcut(id)
    }

    fn environment(&self, name: &str) -> Option<String> {
        let find = |pairs: &[(String, String)]| {
            pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        find(self.caller).or_else(|| find(&self.persistent)).or_else(|| self.context.variable(name))
    }

    fn file(&self, path: &str) -> Result<Vec<u8>, String> {
        self.files.get(path).cloned().unwrap_or_else(|| Err("not loaded".to_owned()))
    }
}
