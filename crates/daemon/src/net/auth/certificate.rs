//! Certificates: the names of a verified client certificate.

use std::sync::Arc;

/// The limit on the length of a name, in bytes; longer ones are ignored.
const MAX_NAME: usize = 256;
/// The limit on names that are read from one certificate.
const MAX_NAMES: usize = 32;

/// The names in a certificate: its alternative names (host, mail, URI), or its common name if it has none. `None` if it
/// cannot be parsed or has no name.
pub(super) fn names(der: &[u8]) -> Option<Arc<[String]>> {
    let (subject, extensions) = parts(der)?;
    let mut names = Vec::new();
    let mut is_found = false;
    for extension in elements(extensions)? {
        let mut members = elements(extension.content_of(tag::SEQUENCE)?)?.into_iter();
        let is_alternative = members.next()?.content_of(tag::OBJECT_ID)? == SUBJECT_ALTERNATIVE_NAME;
        if !is_alternative {
            continue;
        }
        // A certificate has it once.
        if std::mem::replace(&mut is_found, true) {
            return None;
        }
        let value = members.next_back()?.content_of(tag::OCTET_STRING)?;
        names = alternative_names(whole(value)?.content_of(tag::SEQUENCE)?)?;
    }
    if names.is_empty() {
        names.extend(common_name(subject));
    }
    (!names.is_empty()).then(|| names.into())
}

fn alternative_names(general_names: &[u8]) -> Option<Vec<String>> {
    let names = elements(general_names)?.into_iter();
    let names = names.filter(|name| [tag::MAIL, tag::HOST, tag::URI].contains(&name.tag));
    let names = names.filter_map(|name| name.text().filter(|text| text.is_ascii()));
    Some(names.take(MAX_NAMES).collect())
}

/// The first common name that may be used, in a sequence of sets of pairs.
fn common_name(subject: &[u8]) -> Option<String> {
    for set in elements(subject)? {
        for pair in elements(set.content_of(tag::SET)?)? {
            let pair = elements(pair.content_of(tag::SEQUENCE)?)?;
            let [kind, value] = pair.as_slice() else { return None };
            let is_common_name =
                kind.content_of(tag::OBJECT_ID)? == COMMON_NAME && tag::TEXTS.contains(&value.tag);
            if let Some(text) = value.text().filter(|_| is_common_name) {
                return Some(text);
            }
        }
    }
    None
}

/// The subject and the extensions of a certificate (RFC 5280, 4.1).
fn parts(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let certificate = elements(whole(der)?.content_of(tag::SEQUENCE)?)?;
    let [body, _algorithm, _signature] = certificate.as_slice() else { return None };
    let body = elements(body.content_of(tag::SEQUENCE)?)?;
    let has_version = body.first()?.tag == tag::VERSION;
    // Serial number, algorithm, issuer, validity, subject.
    let subject = body.get(usize::from(has_version) + 4)?.content_of(tag::SEQUENCE)?;
    let extensions = match body.iter().find(|element| element.tag == tag::EXTENSIONS) {
        Some(extensions) => whole(extensions.content)?.content_of(tag::SEQUENCE)?,
        None => &[],
    };
    Some((subject, extensions))
}

/// Object identifiers, encoded.
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// Tags of DER, and those of a certificate's own members.
mod tag {
    pub(super) const OCTET_STRING: u8 = 0x04;
    pub(super) const OBJECT_ID: u8 = 0x06;
    pub(super) const SEQUENCE: u8 = 0x30;
    pub(super) const SET: u8 = 0x31;
    /// UTF-8, printable and IA5 text; the others are not in use.
    pub(super) const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
    pub(super) const VERSION: u8 = 0xa0;
    pub(super) const EXTENSIONS: u8 = 0xa3;
    pub(super) const MAIL: u8 = 0x81;
    pub(super) const HOST: u8 = 0x82;
    pub(super) const URI: u8 = 0x86;
}

/// An element of DER.
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
}

impl<'a> Element<'a> {
    /// Its content, if it has this tag.
    fn content_of(&self, tag: u8) -> Option<&'a [u8]> {
        (self.tag == tag).then_some(self.content)
    }

    /// Its content as a name, if it may be one.
    fn text(&self) -> Option<String> {
        std::str::from_utf8(self.content).ok().filter(|text| is_name(text)).map(str::to_owned)
    }
}

/// The only element of an encoding.
fn whole(der: &[u8]) -> Option<Element<'_>> {
    let (element, rest) = split(der)?;
    rest.is_empty().then_some(element)
}

/// All elements of a content.
fn elements(mut content: &[u8]) -> Option<Vec<Element<'_>>> {
    let mut elements = Vec::new();
    while !content.is_empty() {
        let (element, rest) = split(content)?;
        elements.push(element);
        content = rest;
    }
    Some(elements)
}

/// The first element of an encoding, and the rest. Certificates have tags of one byte and lengths of at most three.
fn split(der: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (&[tag, first], rest) = der.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        ..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((Element { tag, content }, rest))
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
