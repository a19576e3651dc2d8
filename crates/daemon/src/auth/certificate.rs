//! Certificates: the names a verified client certificate speaks for.

use std::sync::Arc;

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The longest name that is taken; longer ones are no names.
const MAX_NAME: usize = 256;
/// How many names of one certificate are looked at.
const MAX_NAMES: usize = 32;

/// The names in a certificate: its alternative names (host, mail, address), or its common name if it has none.
pub(super) fn names(der: &[u8]) -> Option<Arc<[String]>> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    if !rest.is_empty() {
        return None;
    }
    let alternative = certificate.subject_alternative_name().ok()?;
    let mut names: Vec<String> = alternative
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => {
                Some(*name)
            }
            _ => None,
        })
        .filter(|name| is_name(name))
        .map(str::to_owned)
        .take(MAX_NAMES)
        .collect();
    if names.is_empty() {
        let mut common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        names.extend(common.find(|name| is_name(name)).map(str::to_owned));
    }
    (!names.is_empty()).then(|| names.into())
}

/// Names end up in logs and in the audit: nothing invisible, nothing endless.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control)
}
