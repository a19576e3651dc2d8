//! Certificates: the names a verified client certificate speaks for.

use std::sync::Arc;

use super::der::{Der, OBJECT, OCTETS, SEQUENCE, SET};

/// The longest name that is taken; longer ones are no names.
const MAX_NAME: usize = 256;
/// How many names of one certificate are looked at.
const MAX_NAMES: usize = 32;

/// Tags of a certificate's own numbering: its version, and what was added to it with version 3.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// The two numbers that were added with version 2.
const UNIQUE_IDS: [u8; 2] = [0x81, 0x82];
const INTEGER: u8 = 0x02;
const BOOLEAN: u8 = 0x01;
/// 2.5.29.17.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
/// 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// Alternative names that are text: mail, host, URI.
const TEXT_NAMES: [u8; 3] = [0x81, 0x82, 0x86];
/// Kinds of string that are UTF-8 or less: UTF8String, PrintableString, IA5String.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];

/// The names in a certificate: its alternative names (host, mail, address), or its common name if it has none.
pub(super) fn names(der: &[u8]) -> Option<Arc<[String]>> {
    let mut whole = Der::new(der);
    let mut certificate = whole.take(SEQUENCE)?;
    if !whole.is_empty() {
        return None;
    }
    let mut signed = certificate.take(SEQUENCE)?;
    signed.take_if(VERSION);
    signed.take(INTEGER)?;
    // The algorithm, the issuer and the time it is valid for.
    for _ in 0..3 {
        signed.take(SEQUENCE)?;
    }
    let subject = signed.take(SEQUENCE)?;
    let _key = signed.take(SEQUENCE)?;
    for id in UNIQUE_IDS {
        signed.take_if(id);
    }
    let mut names = match signed.take_if(EXTENSIONS) {
        Some(mut extensions) => alternative_names(extensions.take(SEQUENCE)?)?,
        None => Vec::new(),
    };
    if names.is_empty() {
        names.extend(common_name(subject));
    }
    (!names.is_empty()).then(|| names.into())
}

/// Names in the extension for them; nothing at all where extensions are broken or there are two of these.
fn alternative_names(mut extensions: Der<'_>) -> Option<Vec<String>> {
    let mut found = None;
    while !extensions.is_empty() {
        let mut extension = extensions.take(SEQUENCE)?;
        let id = extension.take(OBJECT)?;
        extension.take_if(BOOLEAN);
        let content = extension.take(OCTETS)?;
        if id.bytes() == ALTERNATIVE_NAMES && found.replace(content).is_some() {
            return None;
        }
    }
    let Some(mut found) = found else { return Some(Vec::new()) };
    let (mut listed, mut names) = (found.take(SEQUENCE)?, Vec::new());
    while !listed.is_empty() {
        let (tag, content) = listed.next()?;
        let text = std::str::from_utf8(content.bytes()).ok().filter(|text| text.is_ascii() && is_name(text));
        if let Some(text) = text.filter(|_| TEXT_NAMES.contains(&tag) && names.len() < MAX_NAMES) {
            names.push(text.to_owned());
        }
    }
    Some(names)
}

/// The first common name that is one.
fn common_name(mut subject: Der<'_>) -> Option<String> {
    while let Some(mut set) = subject.take(SET) {
        while let Some(mut attribute) = set.take(SEQUENCE) {
            let is_common_name = attribute.take(OBJECT)?.bytes() == COMMON_NAME;
            let (tag, value) = attribute.next()?;
            let text = std::str::from_utf8(value.bytes()).ok().filter(|text| is_name(text));
            if let Some(text) = text.filter(|_| is_common_name && TEXTS.contains(&tag)) {
                return Some(text.to_owned());
            }
        }
    }
    None
}

/// Names end up in logs and in the audit: nothing invisible, nothing endless.
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
    fn what_is_cut_short_or_changed_is_no_reason_to_panic() {
        let whole = certificate(Some("cn"), &["a.example"]);
        for end in 0..whole.len() {
            assert_eq!(names(&whole[..end]), None);
        }
        assert_eq!(names(&[&whole[..], &[0]].concat()), None, "nothing may follow");
        for place in 0..whole.len() {
            let mut changed = whole.clone();
            changed[place] ^= 0xff;
            // Whatever comes of it.
            let _names = names(&changed);
        }
    }
}
