//! A call's arguments, taken out by name; what is wrong with them names the argument.

use serde_json::{Map, Value};

use super::catalog::Tool;

/// What is wrong with a call's arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tool}: {problem}; it takes {takes}")]
pub struct BadArguments {
    tool: &'static str,
    problem: String,
    takes: String,
}

/// The arguments of one call. What is absent and what is `null` are the same.
#[derive(Debug)]
pub struct Arguments<'a> {
    tool: &'static Tool,
    given: &'a Map<String, Value>,
}

impl<'a> Arguments<'a> {
    /// Checks that nothing is given that the tool does not take.
    pub fn of(tool: &'static Tool, given: &'a Map<String, Value>) -> Result<Arguments<'a>, BadArguments> {
        let arguments = Arguments { tool, given };
        let schema = tool.schema();
        match given.keys().find(|name| schema["properties"].get(name.as_str()).is_none()) {
            Some(name) => Err(arguments.bad(format!("there is no argument `{name}`"))),
            None => Ok(arguments),
        }
    }

    /// Text that must be there.
    pub fn text(&self, name: &str) -> Result<&'a str, BadArguments> {
        self.maybe_text(name)?.ok_or_else(|| self.bad(format!("`{name}` is missing")))
    }

    /// Text that may be there.
    pub fn maybe_text(&self, name: &str) -> Result<Option<&'a str>, BadArguments> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a string", other)),
        }
    }

    /// A whole number that may be there. Models write numbers as text at times.
    pub fn maybe_number(&self, name: &str, minimum: u64) -> Result<Option<u64>, BadArguments> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = match value {
            Value::String(text) => text.parse().ok(),
            // 5.0 is five.
            other => other.as_u64().or_else(|| other.as_f64().filter(|n| n.fract() == 0.0).and_then(whole)),
        };
        match number {
            Some(number) if number >= minimum => Ok(Some(number)),
            _ => Err(self.wrong(name, &format!("a whole number from {minimum}"), value)),
        }
    }

    /// A flag; absent it is false.
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
        self.given.get(name).filter(|value| !value.is_null())
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

/// A number without a fraction as an integer.
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
    fn what_is_wrong_names_the_argument() {
        let command = |arguments: &Arguments<'_>| arguments.text("command").map(drop);
        assert_eq!(
            problem("bash", json!({}), command),
            "bash: `command` is missing; it takes `background`, `command`, `cwd`, `timeout_ms`"
        );
        assert!(
            problem("bash", json!({ "command": 5 }), command).contains("`command` must be a string, not 5")
        );
        assert!(problem("bash", json!({ "cmd": "x" }), command).contains("no argument `cmd`"));
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
}
