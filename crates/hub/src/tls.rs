//! TLS: the certificate of the hub.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::server::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::TlsFiles;

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds nothing of use.
    #[error("cannot use {} for TLS: {reason}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificate and the key do not fit.
    #[error("the certificate and the key cannot be used together")]
    Unusable(#[from] rustls::Error),
}

/// What TLS connections are accepted with, from these files.
pub(crate) fn config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| bad(&files.key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(file).map_err(|error| bad(file, error))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|error| bad(file, error))?;
    match found.is_empty() {
        true => Err(bad(file, "there is no certificate in it")),
        false => Ok(found),
    }
}

fn bad(file: &Path, reason: impl std::fmt::Display) -> TlsError {
    TlsError::File { file: file.to_owned(), reason: reason.to_string() }
}
