//! Translates output for the parser: line-drawing characters become Unicode, and variation selectors are left out.
//!
//! Programs that use ncurses draw boxes with the letters of the VT100's special graphics (`ESC ( 0`), which vt100 0.18
//! would show as letters.

/// The special graphics for the characters from `` ` `` to `~`.
const GRAPHICS: [char; 31] = [
    '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽', '├',
    '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
];

/// Follows escape sequences far enough to know which characters are text, and in which set.
#[derive(Debug, Clone, Default)]
pub(super) struct CharsetFilter {
    state: EscapeState,
    /// Whether the sets G0 and G1 are special graphics.
    graphics: [bool; 2],
    /// Whether G1 is used instead of G0.
    uses_second: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum EscapeState {
    #[default]
    Text,
    Escape,
    /// The next character selects the set with this index.
    Designation(usize),
    /// Another sequence with an intermediate character.
    Intermediate,
    Control,
    /// A string up to BEL or ESC, such as a title.
    String,
}

impl CharsetFilter {
    /// Appends the translation of `text`.
    pub(super) fn translate(&mut self, text: &str, out: &mut String) {
        let is_plain = self.state == EscapeState::Text && !self.is_graphics();
        let is_special = |symbol: char| symbol < ' ' || is_variation_selector(symbol);
        if is_plain && !text.contains(|symbol| is_special(symbol) && !matches!(symbol, '\r' | '\n' | '\t')) {
            return out.push_str(text);
        }
        for symbol in text.chars().filter(|symbol| !is_variation_selector(*symbol)) {
            out.push(self.translated(symbol));
            self.advance(symbol);
        }
    }

    /// Follows one character without translating it.
    pub(super) fn advance(&mut self, symbol: char) {
        self.state = self.after(symbol);
    }

    /// Whether no escape sequence is incomplete.
    pub(super) fn is_in_text(&self) -> bool {
        self.state == EscapeState::Text
    }

    /// The sequences that select the sets that are in use now.
    pub(super) fn designations(&self) -> String {
        let sets = [(self.graphics[0], "\x1b(0"), (self.graphics[1], "\x1b)0"), (self.uses_second, "\x0e")];
        sets.iter().filter(|(is_used, _)| *is_used).map(|(_, text)| *text).collect()
    }

    fn is_graphics(&self) -> bool {
        self.graphics[usize::from(self.uses_second)]
    }

    fn translated(&self, symbol: char) -> char {
        let index = (symbol as usize).checked_sub('`' as usize);
        match index.and_then(|index| GRAPHICS.get(index)) {
            Some(graphic) if self.state == EscapeState::Text && self.is_graphics() => *graphic,
            _ => symbol,
        }
    }

    fn after(&mut self, symbol: char) -> EscapeState {
        match (self.state, symbol) {
            (_, '\x18' | '\x1a') => EscapeState::Text,
            (_, '\x1b') => EscapeState::Escape,
            (EscapeState::Text, '\x0e' | '\x0f') => {
                self.uses_second = symbol == '\x0e';
                EscapeState::Text
            }
            (EscapeState::Text, _) | (EscapeState::String, '\x07') => EscapeState::Text,
            (EscapeState::Escape, '(') => EscapeState::Designation(0),
            (EscapeState::Escape, ')') => EscapeState::Designation(1),
            (EscapeState::Escape, '[') => EscapeState::Control,
            (EscapeState::Escape, ']' | 'P' | 'X' | '^' | '_') => EscapeState::String,
            (EscapeState::Escape | EscapeState::Intermediate, ' '..='/') => EscapeState::Intermediate,
            (EscapeState::Escape, 'c') => {
                (self.graphics, self.uses_second) = ([false; 2], false);
                EscapeState::Text
            }
            (EscapeState::Escape | EscapeState::Intermediate, _) => EscapeState::Text,
            (EscapeState::Designation(set), _) => {
                self.graphics[set] = symbol == '0';
                EscapeState::Text
            }
            (EscapeState::Control, '@'..='~') => EscapeState::Text,
            (EscapeState::Control | EscapeState::String, _) => self.state,
        }
    }
}

/// Selects the form of the character before it, and so its width. vt100 0.18 panics if that character is at the edge of the
/// screen, so these are left out; the character before them is shown.
fn is_variation_selector(symbol: char) -> bool {
    matches!(symbol, '\u{fe00}'..='\u{fe0f}')
}
