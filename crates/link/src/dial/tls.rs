//! TLS to a server: the system's or configured authorities, and a client certificate.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Duplex;

/// Certificates that replace or extend the system's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// The trusted authorities, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The client certificate.
    pub cert_file: Option<PathBuf>,
    /// The key of the client certificate.
    pub key_file: Option<PathBuf>,
}

/// Performs the handshake with `host`. A plain-text response is an error of the kind `Unsupported`.
pub(super) async fn wrap<S: Duplex>(stream: S, host: &str, tls: &Tls) -> io::Result<TlsStream<S>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config(tls)?)).connect(name, stream).await.map_err(|error| {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            Some(rustls::Error::InvalidMessage(_)) => {
                io::Error::new(io::ErrorKind::Unsupported, "the server does not use TLS")
            }
            _ => error,
        }
    })
}

fn config(tls: &Tls) -> io::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(authorities(tls.ca_file.as_deref())?);
    match (&tls.cert_file, &tls.key_file) {
        (Some(cert), Some(key)) => {
            let chain = certificates(cert)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?;
            builder.with_client_auth_cert(chain, key).map_err(io::Error::other)
        }
        (None, None) => Ok(builder.with_no_client_auth()),
        _ => Err(io::Error::other("a client certificate needs both certFile and keyFile")),
    }
}

fn authorities(file: Option<&Path>) -> io::Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    match file {
        Some(file) => {
            for certificate in certificates(file)? {
                store.add(certificate).map_err(io::Error::other)?;
            }
        }
        None => {
            // Some systems have certificates that cannot be parsed; the others are used.
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(store)
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match found {
        Ok(certificates) if certificates.is_empty() => {
            Err(io::Error::other(format!("{}: no certificate in it", file.display())))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(unreadable(file, &error)),
    }
}

fn unreadable(file: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", file.display()))
}
