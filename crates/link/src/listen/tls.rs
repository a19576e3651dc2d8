//! TLS of a listener: its certificate, the CA of its clients, and reloading both while it runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::RootCertStore;
use rustls::server::{NoClientAuth, ServerConfig, WebPkiClientVerifier};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The first byte of a TLS connection.
const HANDSHAKE: u8 = 0x16;
/// The response to plain HTTP on a TLS port.
const PLAIN_RESPONSE: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 52\r\nConnection: close\r\n\r\nThis port uses TLS: connect with https:// or wss://\n";
/// How often the files are checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The time in which that response must be accepted.
const PLAIN_DEADLINE: Duration = Duration::from_secs(2);

/// A certificate chain and its key, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain, the server's certificate first.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or has no usable content.
    #[error("{}: {reason}", file.display())]
    File {
        /// The path of the file.
        file: PathBuf,
        /// The reason it cannot be used.
        reason: String,
    },
    /// The certificate and the key do not match.
    #[error("invalid certificate or key: {0}")]
    Unusable(#[from] rustls::Error),
    /// The CA certificates for clients cannot be used.
    #[error("invalid client CA: {0}")]
    ClientCa(#[from] rustls::server::VerifierBuilderError),
}

/// The current TLS configuration. Cheap to clone; a reload applies to all clones.
#[derive(Debug, Clone)]
pub struct Tls {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    files: TlsFiles,
    client_ca: Option<PathBuf>,
    current: RwLock<(Arc<ServerConfig>, Stamps)>,
}

/// The modification time of each file.
type Stamps = Vec<Option<SystemTime>>;

impl Tls {
    /// Reads the certificate, the key and the client CA.
    pub fn open(files: &TlsFiles, client_ca: Option<&Path>) -> Result<Tls, TlsError> {
        let stamps = stamps(files, client_ca);
        let config = read(files, client_ca)?;
        let inner = Inner {
            files: files.clone(),
            client_ca: client_ca.map(Path::to_owned),
            current: RwLock::new((config, stamps)),
        };
        Ok(Tls { inner: Arc::new(inner) })
    }

    /// Performs the handshake. Returns `None` for a client that sends plain text, after a response that names the cause.
    /// Has no deadline of its own.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<Option<TlsStream<TcpStream>>> {
        if !is_tls(&stream).await? {
            respond_plain(stream).await;
            return Ok(None);
        }
        self.acceptor().accept(stream).await.map(Some)
    }

    fn acceptor(&self) -> TlsAcceptor {
        self.inner.current.read().unwrap_or_else(PoisonError::into_inner).0.clone().into()
    }

    /// Reads the files again. An error leaves the configuration unchanged.
    pub fn reload(&self) -> Result<(), TlsError> {
        let Inner { files, client_ca, current } = &*self.inner;
        let stamps = stamps(files, client_ca.as_deref());
        let read = read(files, client_ca.as_deref());
        let mut current = current.write().unwrap_or_else(PoisonError::into_inner);
        // Stored in both cases: invalid files are not read again until they change.
        current.1 = stamps;
        current.0 = read?;
        Ok(())
    }

    /// Reads the files again if they have changed, and returns true then.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let Inner { files, client_ca, current } = &*self.inner;
        let seen = current.read().unwrap_or_else(PoisonError::into_inner).1.clone();
        match seen == stamps(files, client_ca.as_deref()) {
            true => Ok(false),
            false => self.reload().map(|()| true),
        }
    }

    /// Reloads the files every 10 seconds if they have changed. Never returns.
    pub async fn reload_on_change(&self) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            match self.reload_if_changed() {
                Ok(false) => {}
                Ok(true) => tracing::info!("reloaded the changed TLS certificate"),
                Err(error) => tracing::error!("reloading TLS failed, keeping the old certificate: {error}"),
            }
        }
    }
}

fn stamps(files: &TlsFiles, client_ca: Option<&Path>) -> Stamps {
    let all = [Some(files.certificate.as_path()), Some(files.key.as_path()), client_ca];
    let changed = |file: &Path| std::fs::metadata(file).and_then(|found| found.modified()).ok();
    all.into_iter().flatten().map(changed).collect()
}

fn read(files: &TlsFiles, client_ca: Option<&Path>) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| bad(&files.key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match client_ca {
        None => builder.with_client_cert_verifier(Arc::new(NoClientAuth)),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file)? {
                roots.add(certificate)?;
            }
            // A client without a certificate needs a token, which is checked per request.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.allow_unauthenticated().build()?)
        }
    };
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(file).map_err(|error| bad(file, error))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|error| bad(file, error))?;
    match found.is_empty() {
        true => Err(bad(file, "the file contains no certificate")),
        false => Ok(found),
    }
}

fn bad(file: &Path, reason: impl std::fmt::Display) -> TlsError {
    TlsError::File { file: file.to_owned(), reason: reason.to_string() }
}

/// True if the client starts a TLS handshake. Waits for the first byte without consuming it.
async fn is_tls(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(first == [HANDSHAKE]),
    }
}

/// Responds to plain HTTP on a TLS port.
async fn respond_plain(mut stream: TcpStream) {
    let respond = async {
        stream.write_all(PLAIN_RESPONSE).await?;
        stream.shutdown().await?;
        // Unread bytes would make the kernel discard the response.
        let mut scratch = [0; 1024];
        while tokio::io::AsyncReadExt::read(&mut stream, &mut scratch).await? > 0 {}
        io::Result::Ok(())
    };
    // The connection ends in any case.
    tokio::time::timeout(PLAIN_DEADLINE, respond).await.ok();
}
