//! Edits a file: exec-server has no method for it, so the text is read, changed and written back.

use serde_json::json;
use wire::rexd::v1::{self, RpcError, codes};

use super::{Bridge, errors};

impl Bridge {
    pub(super) async fn fs_edit(&self, params: v1::FsEdit) -> Result<v1::FsEditResult, RpcError> {
        let path = self.path(&params.path);
        if params.old_string == params.new_string {
            return Err(invalid("old_string and new_string are identical", "new_string"));
        }
        let before = self.metadata(&path).await?;
        let found = before.as_ref().map(|found| found.modified_at_ms);
        if params.expected_mtime.is_some_and(|expected| found != Some(expected)) {
            return Err(errors::mtime_conflict(&path, params.expected_mtime, found));
        }
        let (text, replacements) = match (params.old_string.is_empty(), found) {
            (true, _) => (params.new_string, 1),
            (false, None) => {
                return Err(invalid("file does not exist; old_string cannot be matched", "path"));
            }
            (false, Some(_)) => {
                let text = self.read_text(&path).await?;
                replace(&text, &params.old_string, &params.new_string, params.replace_all)?
            }
        };
        // Another program may have written the file since it was read.
        let now = self.metadata(&path).await?.map(|found| found.modified_at_ms);
        if now != found {
            return Err(RpcError::new(
                codes::CONCURRENCY_CONFLICT,
                format!("{path} has changed during the edit"),
            ));
        }
        let bytes_written = text.len() as u64;
        self.replace(&path, text.into_bytes().into(), true).await?;
        let mtime = self.metadata(&path).await?.map_or(0, |found| found.modified_at_ms);
        Ok(v1::FsEditResult { path, bytes_written, mtime, created: found.is_none(), replacements })
    }

    async fn read_text(&self, path: &str) -> Result<String, RpcError> {
        let bytes = self.fetch(path).await?;
        String::from_utf8(bytes.into()).map_err(|_| invalid("file is not UTF-8 text", "path"))
    }
}

/// Replaces one occurrence, or all of them. A text with CRLF line ends is matched by an `old` with LF.
fn replace(text: &str, old: &str, new: &str, all: bool) -> Result<(String, u64), RpcError> {
    let is_crlf = text.contains("\r\n") && !old.contains('\r');
    let (old, new) = match is_crlf {
        true => (old.replace('\n', "\r\n"), new.replace("\r\n", "\n").replace('\n', "\r\n")),
        false => (old.to_owned(), new.to_owned()),
    };
    match text.matches(&old).count() {
        0 => Err(invalid("old_string not found", "old_string")),
        1 => Ok((text.replacen(&old, &new, 1), 1)),
        count if all => Ok((text.replace(&old, &new), count as u64)),
        count => Err(RpcError::invalid_params("old_string matched multiple locations; set replace_all=true")
            .with_data(json!({ "field": "old_string", "count": count }))),
    }
}

fn invalid(message: &str, field: &str) -> RpcError {
    let error = errors::invalid_field(field, message);
    RpcError { message: message.to_owned(), ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_replaces_one_occurrence_or_all_and_keeps_line_ends() {
        assert_eq!(replace("a b", "b", "c", false).unwrap(), ("a c".to_owned(), 1));
        assert_eq!(replace("b b", "b", "c", true).unwrap(), ("c c".to_owned(), 2));
        assert_eq!(replace("a\r\nb\r\n", "a\nb", "x\ny", false).unwrap().0, "x\r\ny\r\n");
        assert!(replace("b b", "b", "c", false).unwrap_err().message.contains("replace_all"));
        assert!(replace("a", "b", "c", false).unwrap_err().message.contains("not found"));
    }
}
