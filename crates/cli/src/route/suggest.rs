//! Suggests the name that a misspelt one probably means.

/// The candidate with the smallest edit distance, if it is close enough.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    let measured = candidates.into_iter().map(|candidate| (strsim::osa_distance(word, candidate), candidate));
    measured
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}
