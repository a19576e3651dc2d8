//! Character references of HTML.

use std::borrow::Cow;

/// The references that pages use most.
const NAMED: &[(&str, &str)] = &[
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("copy", "©"),
    ("reg", "®"),
    ("trade", "™"),
    ("hellip", "…"),
    ("mdash", "—"),
    ("ndash", "–"),
    ("lsquo", "‘"),
    ("rsquo", "’"),
    ("ldquo", "“"),
    ("rdquo", "”"),
    ("laquo", "«"),
    ("raquo", "»"),
    ("bull", "•"),
    ("middot", "·"),
    ("times", "×"),
    ("euro", "€"),
    ("pound", "£"),
    ("deg", "°"),
    ("larr", "←"),
    ("rarr", "→"),
    ("uarr", "↑"),
    ("darr", "↓"),
    ("para", "¶"),
    ("sect", "§"),
    ("auml", "ä"),
    ("ouml", "ö"),
    ("uuml", "ü"),
    ("Auml", "Ä"),
    ("Ouml", "Ö"),
    ("Uuml", "Ü"),
    ("szlig", "ß"),
    ("eacute", "é"),
    ("egrave", "è"),
    ("agrave", "à"),
    ("ccedil", "ç"),
    ("ntilde", "ñ"),
    ("zwnj", ""),
    ("shy", ""),
];
/// No reference is longer.
const LONGEST: usize = 10;

/// A text with its references replaced; unknown ones stay.
pub(super) fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        output.push_str(&rest[..start]);
        rest = &rest[start..];
        let length = rest.bytes().take(LONGEST + 2).position(|byte| byte == b';');
        match length.and_then(|length| Some((length, reference(rest.get(1..length)?)?))) {
            Some((length, value)) => {
                output.push_str(&value);
                rest = &rest[length + 1..];
            }
            None => {
                output.push('&');
                rest = &rest[1..];
            }
        }
    }
    output.push_str(rest);
    Cow::Owned(output)
}

fn reference(name: &str) -> Option<Cow<'static, str>> {
    let Some(number) = name.strip_prefix('#') else {
        return NAMED.iter().find(|(known, _)| *known == name).map(|(_, value)| Cow::Borrowed(*value));
    };
    let code = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => number.parse().ok()?,
    };
    let c = char::from_u32(code).filter(|c| !c.is_control() || matches!(c, '\n' | '\t'));
    Some(Cow::Owned(c.unwrap_or(char::REPLACEMENT_CHARACTER).to_string()))
}
