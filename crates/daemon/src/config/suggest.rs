//! Suggestions for misspelled words.

/// The most similar candidate, if it is similar enough to be the intended word.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    let measured = candidates.into_iter().map(|name| (strsim::osa_distance(word, name), name));
    let (_, name) =
        measured.filter(|(distance, _)| *distance <= allowed).min_by_key(|(distance, _)| *distance)?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_word_is_found_and_another_word_is_not() {
        let keys = ["default_timeout_ms", "hard_timeout_ms", "max_output_bytes"];
        assert_eq!(nearest("defualt_timeout_ms", keys), Some("default_timeout_ms"));
        assert_eq!(nearest("max_output_byte", keys), Some("max_output_bytes"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("", keys), None);
    }
}
