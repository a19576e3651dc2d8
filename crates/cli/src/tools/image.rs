//! Detects images by their first bytes.

/// The number of bytes that detection needs.
pub const ENOUGH: usize = 12;

/// The media type of an image that starts with these bytes.
pub fn kind(start: &[u8]) -> Option<&'static str> {
    let is_webp = start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP");
    match start {
        _ if start.starts_with(b"\x89PNG\r\n\x1a\n") => Some("image/png"),
        _ if start.starts_with(b"\xff\xd8\xff") => Some("image/jpeg"),
        _ if start.starts_with(b"GIF87a") || start.starts_with(b"GIF89a") => Some("image/gif"),
        _ if is_webp => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_detected_by_their_first_bytes() {
        for (start, expected) in [
            (&b"\x89PNG\r\n\x1a\nIHDR"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\x00\x00\x00\x00WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x00\x00\x00\x00WAVE", None),
            (b"RIFF", None),
            (b"\x89PN", None),
            (b"", None),
        ] {
            assert_eq!(kind(start), expected, "{start:?}");
        }
    }
}
