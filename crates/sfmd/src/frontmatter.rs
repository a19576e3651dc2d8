//! Frontmatter: the subset of YAML that a document may start with.

use crate::scan::is_name;

/// The keys and values between the first two lines of `---`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Frontmatter {
    entries: Vec<(String, FrontmatterValue)>,
}

/// A value of the frontmatter.
#[derive(Debug, Clone, PartialEq)]
pub enum FrontmatterValue {
    /// A text, without its outer quotes.
    Text(String),
    /// A number, as written.
    Number(String),
    /// `true` or `false`.
    Bool(bool),
    /// `[a, b]` on one line.
    List(Vec<String>),
    /// Indented items, each with its keys.
    Items(Vec<FrontmatterItem>),
}

/// The keys and texts of one item of a list.
pub type FrontmatterItem = Vec<(String, String)>;

/// A variable that a tool needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredVariable {
    /// The name without `$`.
    pub name: String,
    /// What the document says about it.
    pub description: String,
    /// The value without a setting; a variable with one is optional.
    pub default: Option<String>,
}

/// The frontmatter of a text and the offset of the first byte after it.
pub fn parse(text: &str) -> (Frontmatter, usize) {
    let nothing = (Frontmatter::default(), 0);
    let Some(first) = text.split_inclusive('\n').next().filter(|line| line.trim_end() == "---") else {
        return nothing;
    };
    if !first.ends_with('\n') {
        return nothing;
    }
    let mut reader = Reader::default();
    let mut at = first.len();
    for line in text[at..].split_inclusive('\n') {
        at += line.len();
        if line.starts_with("---") {
            return (reader.finish(), at);
        }
        reader.line(line.trim_end_matches(['\n', '\r']));
    }
    nothing
}

#[derive(Debug, Default)]
struct Reader {
    entries: Vec<(String, FrontmatterValue)>,
    /// A key without a value; the items of its list follow.
    list: Option<(String, Vec<FrontmatterItem>)>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let indent = line.len() - line.trim_start().len();
        let text = line.trim();
        if indent > 0 {
            self.indented(indent, text);
            return;
        }
        let Some((key, value)) = text.split_once(':') else { return };
        self.end_list();
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() {
            return;
        }
        match value.is_empty() {
            true => self.list = Some((key.to_owned(), Vec::new())),
            false => self.entries.push((key.to_owned(), scalar(value))),
        }
    }

    fn indented(&mut self, indent: usize, text: &str) {
        let Some((_, items)) = &mut self.list else { return };
        if let Some(item) = text.strip_prefix("- ") {
            items.push(vec![
                pair(item.trim()).unwrap_or_else(|| ("value".to_owned(), unquoted(item).to_owned())),
            ]);
        } else if indent >= 4
            && let (Some(item), Some(pair)) = (items.last_mut(), pair(text))
        {
            item.push(pair);
        }
    }

    fn end_list(&mut self) {
        let Some((key, items)) = self.list.take() else { return };
        let value = match items.is_empty() {
            true => FrontmatterValue::Text(String::new()),
            false => FrontmatterValue::Items(items),
        };
        self.entries.push((key, value));
    }

    fn finish(mut self) -> Frontmatter {
        self.end_list();
        Frontmatter { entries: self.entries }
    }
}

fn pair(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once(':')?;
    Some((key.trim().to_owned(), unquoted(value).to_owned()))
}

fn scalar(value: &str) -> FrontmatterValue {
    if let Some(inside) = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let items = inside.split(',').map(|item| unquoted(item).to_owned()).filter(|item| !item.is_empty());
        return FrontmatterValue::List(items.collect());
    }
    match value {
        "true" => FrontmatterValue::Bool(true),
        "false" => FrontmatterValue::Bool(false),
        value if is_number(value) => FrontmatterValue::Number(value.to_owned()),
        value => FrontmatterValue::Text(unquoted(value).to_owned()),
    }
}

/// Whether a text is a decimal number with at most one point.
fn is_number(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match digits.split_once('.') {
        Some((whole, part)) => is_digits(whole) && is_digits(part),
        None => is_digits(digits),
    }
}

/// A text without one pair of outer quotes.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inside = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}

impl Frontmatter {
    /// The first value of a key.
    pub fn get(&self, key: &str) -> Option<&FrontmatterValue> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// A scalar as text; numbers and booleans are converted.
    pub fn text(&self, key: &str) -> Option<String> {
        match self.get(key)? {
            FrontmatterValue::Text(text) | FrontmatterValue::Number(text) => Some(text.clone()),
            FrontmatterValue::Bool(value) => Some(value.to_string()),
            FrontmatterValue::List(_) | FrontmatterValue::Items(_) => None,
        }
        .filter(|text| !text.is_empty())
    }

    /// A scalar that is not a number or boolean.
    pub fn textual(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            FrontmatterValue::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The names in `requires`.
    pub fn requires(&self) -> Vec<String> {
        let names: Vec<String> = match self.get("requires") {
            Some(FrontmatterValue::List(names)) => names.clone(),
            Some(FrontmatterValue::Items(items)) => items.iter().filter_map(|item| item_name(item)).collect(),
            Some(FrontmatterValue::Text(name)) => vec![name.clone()],
            _ => Vec::new(),
        };
        let names = names.into_iter().map(|name| name.trim_start_matches('$').to_owned());
        names.filter(|name| is_name(name)).collect()
    }

    /// The variables in `env`.
    pub fn variables(&self) -> Vec<RequiredVariable> {
        let Some(FrontmatterValue::Items(items)) = self.get("env") else { return Vec::new() };
        let variable = |item: &Vec<(String, String)>| {
            let name = item_name(item)?;
            let description = item.first().filter(|(key, _)| key != "value").map(|(_, text)| text.clone());
            let default = item.iter().skip(1).find(|(key, _)| key == "default").map(|(_, text)| text.clone());
            Some(RequiredVariable { name, description: description.unwrap_or_default(), default })
        };
        items.iter().filter_map(variable).collect()
    }
}

/// The name in an item, `- NAME: text` or `- NAME`.
fn item_name(item: &[(String, String)]) -> Option<String> {
    let (key, value) = item.first()?;
    Some(if key == "value" { value } else { key }.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_types() {
        let text =
            "---\r\ntitle: \"A: b\"\ntags: [x, 'y']\nok: true\nn: -1.5\nversion: 1.2.0\nignored\n---\nbody";
        let (front, end) = parse(text);
        assert_eq!(&text[end..], "body");
        assert_eq!(front.text("title").as_deref(), Some("A: b"));
        assert_eq!(front.get("tags"), Some(&FrontmatterValue::List(vec!["x".to_owned(), "y".to_owned()])));
        assert_eq!(front.get("ok"), Some(&FrontmatterValue::Bool(true)));
        assert_eq!(front.text("n").as_deref(), Some("-1.5"));
        assert_eq!(front.textual("version"), Some("1.2.0"));
        assert_eq!(front.textual("n"), None);
        assert_eq!(front.get("ignored"), None);
    }

    #[test]
    fn lists_of_variables_are_read() {
        let text = "---\nenv:\n  - KEY: The key\n  - CITY: Where\n    default: Seoul\nrequires:\n  - A\n  - $B\nlast: x\n---\n";
        let (front, _) = parse(text);
        let variables = front.variables();
        assert_eq!((variables[0].name.as_str(), variables[0].description.as_str()), ("KEY", "The key"));
        assert_eq!(variables[1].default.as_deref(), Some("Seoul"));
        assert_eq!(front.requires(), ["A", "B"]);
        assert_eq!(front.text("last").as_deref(), Some("x"));
    }

    #[test]
    fn only_complete_frontmatter_at_the_start_counts() {
        for text in ["---\na: 1", "\n---\na: 1\n---\n", " ---\n---\n", "---", "----\na: 1\n---\n", ""] {
            assert_eq!(parse(text), (Frontmatter::default(), 0), "{text:?}");
        }
        assert_eq!(parse("---\n---\nx").1, 8);
    }
}
