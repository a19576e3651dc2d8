//! Certificates: the names of a verified client certificate.

use std::sync::Arc;

use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// The limit on the length of a name, in bytes; longer ones are ignored.
const MAX_NAME: usize = 256;
/// The limit on names that are read from one certificate.
const MAX_NAMES: usize = 32;

/// The names in a certificate: its alternative names (host, mail, URI), or its common name if it has none. `None` if it
/// cannot be parsed or has no name.
pub(super) fn names(der: &[u8]) -> Option<Arc<[String]>> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    if !rest.is_empty() {
        return None;
    }
    // An error means that the extension occurs twice or is malformed.
    let alternative = certificate.subject_alternative_name().ok()?;
    let alternative = alternative.iter().flat_map(|extension| &extension.value.general_names);
    let mut names: Vec<String> = alternative
        .filter_map(|name| match name {
            GeneralName::RFC822Name(name) | GeneralName::DNSName(name) | GeneralName::URI(name) => {
                Some(*name)
            }
            _ => None,
        })
        .filter(|name| name.is_ascii() && is_name(name))
        .take(MAX_NAMES)
        .map(str::to_owned)
        .collect();
    if names.is_empty() {
        let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        names.extend(common.filter(|name| is_name(name)).map(str::to_owned).take(1));
    }
    (!names.is_empty()).then(|| names.into())
}

/// True if a name may appear in logs and in the audit: of bounded length and without control characters.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(common: Option<&str>, alternative: &[&str]) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Example");
        if let Some(common) = common {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        for name in alternative {
            params.subject_alt_names.push(SanType::DnsName((*name).try_into().unwrap()));
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn alternative_names_come_before_the_common_name() {
        let names_of = |common, alternative: &[&str]| names(&certificate(common, alternative));
        assert_eq!(&*names_of(Some("cn"), &["a.example", "b.example"]).unwrap(), ["a.example", "b.example"]);
        assert_eq!(&*names_of(Some("Käfer"), &[]).unwrap(), ["Käfer"], "an address is no name");
        assert_eq!(names_of(None, &[]), None);
    }

    #[test]
    fn truncated_and_changed_certificates_do_not_panic() {
        let whole = certificate(Some("cn"), &["a.example"]);
        for end in 0..whole.len() {
            assert_eq!(names(&whole[..end]), None);
        }
        assert_eq!(names(&[&whole[..], &[0]].concat()), None, "nothing may follow");
        for position in 0..whole.len() {
            let mut changed = whole.clone();
            changed[position] ^= 0xff;
            // Any result is fine.
            let _names = names(&changed);
        }
    }
}
