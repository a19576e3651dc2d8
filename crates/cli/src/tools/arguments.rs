//! Extracts the arguments of a call by name; errors name the argument.

use serde_json::{Map, Value};

use super::catalog::Tool;

/// Why the arguments of a call are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tool}: {problem}; it takes {takes}")]
pub struct BadArguments {
    tool: &'static str,
    problem: String,
    takes: String,
}

/// Names of other agents' tools for our arguments. They are accepted, but not advertised.
const ALIASES: &[(&str, &str)] = &[
    ("timeout", "timeout_ms"),
    ("timeout", "wait_ms"),
    ("run_in_background", "background"),
    ("file_path", "path"),
    ("glob", "include"),
    ("-C", "context"),
];
/// Arguments of `grep` in other agents' tools. They are accepted, but not advertised.
const GREP_ONLY: &[&str] = &["-i", "-A", "-B", "head_limit"];
/// Arguments of other agents' tools without a meaning here, by tool; an empty name is any tool.
const IGNORED: &[(&str, &str)] = &[("", "description"), ("grep", "-n")];

/// The arguments of one call. `null` counts as absent.
#[derive(Debug)]
pub struct Arguments<'a> {
    tool: &'static Tool,
    given: &'a Map<String, Value>,
}

impl<'a> Arguments<'a> {
    /// Checks that the tool takes every given argument.
    pub fn of(tool: &'static Tool, given: &'a Map<String, Value>) -> Result<Arguments<'a>, BadArguments> {
        let arguments = Arguments { tool, given };
        let schema = tool.schema();
        let takes = |name: &str| schema["properties"].get(name).is_some();
        let is_accepted = |name: &str| {
            takes(name)
                || ALIASES.iter().any(|(alias, of)| *alias == name && takes(of))
                || (tool.name == "grep" && GREP_ONLY.contains(&name))
                || IGNORED.iter().any(|(of, ignored)| *ignored == name && (of.is_empty() || *of == tool.name))
        };
        match given.keys().find(|name| !is_accepted(name)) {
            Some(name) => Err(arguments.bad(format!("unknown argument `{name}`"))),
            None => Ok(arguments),
        }
    }

    /// A string argument that is required.
    pub fn text(&self, name: &str) -> Result<&'a str, BadArguments> {
        self.maybe_text(name)?.ok_or_else(|| self.bad(format!("missing argument `{name}`")))
    }

    /// A string argument that may be absent.
    pub fn maybe_text(&self, name: &str) -> Result<Option<&'a str>, BadArguments> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a string", other)),
        }
    }

    /// An optional integer. Models sometimes write numbers as strings.
    pub fn maybe_number(&self, name: &str, minimum: u64) -> Result<Option<u64>, BadArguments> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = match value {
            Value::String(text) => text.parse().ok(),
            // 5.0 is accepted as 5.
            other => other.as_u64().or_else(|| other.as_f64().filter(|n| n.fract() == 0.0).and_then(whole)),
        };
        match number {
            Some(number) if number >= minimum => Ok(Some(number)),
            _ => Err(self.wrong(name, &format!("an integer of at least {minimum}"), value)),
        }
    }

    /// An optional boolean; absent means false.
    pub fn flag(&self, name: &str) -> Result<bool, BadArguments> {
        match self.value(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(other) => Err(self.wrong(name, "true or false", other)),
        }
    }

    fn value(&self, name: &str) -> Option<&'a Value> {
        let aliases = ALIASES.iter().filter(|(_, of)| *of == name).map(|(alias, _)| *alias);
        let values = std::iter::once(name).chain(aliases).filter_map(|name| self.given.get(name));
        values.into_iter().find(|value| !value.is_null())
    }

    fn wrong(&self, name: &str, expected: &str, got: &Value) -> BadArguments {
        let shown: String = got.to_string().chars().take(80).collect();
        self.bad(format!("`{name}` must be {expected}, not {shown}"))
    }

    fn bad(&self, problem: String) -> BadArguments {
        let schema = self.tool.schema();
        let names = schema["properties"].as_object().into_iter().flat_map(Map::keys);
        let takes = names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        BadArguments { tool: self.tool.name, problem, takes }
    }
}

/// Converts a float without a fraction to an integer.
fn whole(number: f64) -> Option<u64> {
    format!("{number:.0}").parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::catalog::find;
    use super::*;

    fn problem(
        tool: &str,
        given: Value,
        take: impl Fn(&Arguments<'_>) -> Result<(), BadArguments>,
    ) -> String {
        let Value::Object(given) = given else { panic!("no object") };
        let tool = find(tool).unwrap();
        let taken = Arguments::of(tool, &given).and_then(|arguments| take(&arguments));
        taken.map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn an_error_names_the_argument() {
        let command = |arguments: &Arguments<'_>| arguments.text("command").map(drop);
        assert_eq!(
            problem("bash", json!({}), command),
            "bash: missing argument `command`; it takes `background`, `command`, `cwd`, `detach`, `timeout_ms`"
        );
        assert!(
            problem("bash", json!({ "command": 5 }), command).contains("`command` must be a string, not 5")
        );
        assert!(problem("bash", json!({ "cmd": "x" }), command).contains("unknown argument `cmd`"));
        let timeout = |arguments: &Arguments<'_>| arguments.maybe_number("timeout_ms", 1).map(drop);
        for odd in [json!(0), json!(-1), json!(1.5), json!("soon"), json!([])] {
            assert!(problem("bash", json!({ "timeout_ms": odd }), timeout).contains("`timeout_ms`"), "{odd}");
        }
        for fine in [json!(1), json!(5.0), json!("20"), json!(null)] {
            assert_eq!(problem("bash", json!({ "timeout_ms": fine }), timeout), "", "{fine}");
        }
        let background = |arguments: &Arguments<'_>| arguments.flag("background").map(drop);
        assert!(problem("bash", json!({ "background": 1 }), background).contains("`background`"));
    }

    #[test]
    fn names_of_other_agents_are_accepted_where_they_have_a_meaning() {
        let given = |given: Value| given.as_object().unwrap().clone();
        let call = given(json!({ "timeout": 5, "run_in_background": true, "description": "Build" }));
        let arguments = Arguments::of(find("bash").unwrap(), &call).unwrap();
        assert_eq!(arguments.maybe_number("timeout_ms", 1).unwrap(), Some(5));
        assert!(arguments.flag("background").unwrap());
        let call = given(json!({ "file_path": "/a", "path": null }));
        assert_eq!(Arguments::of(find("read").unwrap(), &call).unwrap().text("path").unwrap(), "/a");
        let call = given(json!({ "path": "/b", "file_path": "/a" }));
        assert_eq!(Arguments::of(find("read").unwrap(), &call).unwrap().text("path").unwrap(), "/b");
        let call = given(json!({ "timeout": 5 }));
        let arguments = Arguments::of(find("bash_output").unwrap(), &call).unwrap();
        assert_eq!(arguments.maybe_number("wait_ms", 0).unwrap(), Some(5));
        let call = given(json!({ "-n": true, "-i": true, "-A": 1, "-B": 2, "-C": 3, "head_limit": 4 }));
        let arguments = Arguments::of(find("grep").unwrap(), &call).unwrap();
        assert_eq!(arguments.maybe_number("context", 0).unwrap(), Some(3));
        let problem = |tool, call: &Map<String, Value>| Arguments::of(find(tool).unwrap(), call).unwrap_err();
        assert!(problem("read", &given(json!({ "timeout": 5 }))).to_string().contains("`timeout`"));
        assert!(problem("bash", &given(json!({ "file_path": "/a" }))).to_string().contains("`file_path`"));
        assert!(problem("glob", &given(json!({ "-n": true }))).to_string().contains("`-n`"));
        assert!(problem("grep", &given(json!({ "type": "rust" }))).to_string().contains("`type`"));
    }
}
