//! TLS for the local network: an authority of the demonstration's own, and a certificate for the addresses of this machine.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use sha2::{Digest as _, Sha256};

use super::workspace::Workspace;
use crate::failure::Failure;

/// An address that is reserved for documentation: choosing the route to it sends nothing.
const ANYWHERE: &str = "192.0.2.1:9";
/// Days for which browsers accept a certificate at most.
const DAYS: i64 = 90;

/// The files of the hub's TLS. The key of the authority is stored nowhere.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) authority: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    /// SHA-256 of the authority's certificate.
    pub(super) fingerprint: String,
    /// The address of this machine in the local network.
    pub(super) address: IpAddr,
}

impl Certificates {
    /// Creates the certificates and the key as files of the workspace.
    pub(super) fn create(workspace: &Workspace) -> Result<Certificates, Failure> {
        let address = local_address()?;
        let failed = |error: rcgen::Error| Failure::new(format!("cannot create a certificate: {error}"));
        let days = std::time::Duration::from_secs(DAYS.unsigned_abs() * 24 * 3600);
        let (before, after) = (std::time::SystemTime::now() - days / 90, std::time::SystemTime::now() + days);

        let authority_key = KeyPair::generate().map_err(failed)?;
        let mut authority = CertificateParams::new(Vec::new()).map_err(failed)?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        authority.distinguished_name.push(DnType::CommonName, format!("rex up on {address}"));
        (authority.not_before, authority.not_after) = (before.into(), after.into());
        let authority_certificate = authority.self_signed(&authority_key).map_err(failed)?;
        let fingerprint = fingerprint(authority_certificate.der());

        let key = KeyPair::generate().map_err(failed)?;
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), address.to_string()];
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, address.to_string());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        (params.not_before, params.not_after) = (before.into(), after.into());
        let issuer = Issuer::new(authority, authority_key);
        let certificate = params.signed_by(&key, &issuer).map_err(failed)?;

        let file = |name: &str| workspace.own(name);
        let files = Certificates {
            authority: file("ca.crt"),
            certificate: file("hub.crt"),
            key: file("hub.key"),
            fingerprint,
            address,
        };
        fs::write(&files.authority, authority_certificate.pem())?;
        fs::write(&files.certificate, certificate.pem())?;
        write_private(&files.key, &key.serialize_pem())?;
        Ok(files)
    }
}

fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}

/// `AB:CD:…`, as browsers and phones show it.
fn fingerprint(certificate: &[u8]) -> String {
    let bytes: Vec<String> = Sha256::digest(certificate).iter().map(|byte| format!("{byte:02X}")).collect();
    bytes.join(":")
}

/// The address of this machine from which other networks are reached.
fn local_address() -> Result<IpAddr, Failure> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let found = socket.connect(ANYWHERE).and_then(|()| socket.local_addr());
    let found = found.ok().map(|address| address.ip()).filter(|address| !address.is_unspecified());
    found.ok_or_else(|| {
        Failure::new("this machine has no address in a network").hint("connect it to one, or leave out --lan")
    })
}
