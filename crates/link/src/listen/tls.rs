//! TLS of a listener: its certificate, the CA of its clients, and reloading both while it runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime};

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, ServerConfig, WebPkiClientVerifier};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
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
    current: RwLock<Current>,
}

#[derive(Debug)]
struct Current {
    client_ca: Option<PathBuf>,
    stamps: Stamps,
    config: Arc<ServerConfig>,
    /// The authorities of clients; `None` if no certificate is requested.
    authorities: Option<Arc<ClientAuthorities>>,
}

/// The certificates of a client CA file, and what verifies the chain of a client with them.
#[derive(Debug)]
struct ClientAuthorities {
    certificates: Vec<CertificateDer<'static>>,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// The verified certificate of a client.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    /// As DER, the client's own first.
    chain: Arc<[CertificateDer<'static>]>,
    /// The listener, and the authorities at the time of the handshake.
    verified_by: Option<(Tls, Arc<ClientAuthorities>)>,
}

impl ClientCertificate {
    /// A certificate as DER that other code has verified.
    pub fn verified(der: Vec<u8>) -> ClientCertificate {
        ClientCertificate { chain: Arc::new([der.into()]), verified_by: None }
    }

    /// The client's own certificate as DER.
    pub fn der(&self) -> &[u8] {
        self.chain.first().map_or(&[], |own| own)
    }

    /// Whether the listener would accept it in a handshake now: its CA may have been removed since.
    pub fn is_accepted(&self) -> bool {
        let Some((tls, then)) = &self.verified_by else { return true };
        let Some(now) = tls.current().authorities.clone() else { return false };
        let verify = |(own, others): (&CertificateDer<'_>, &[CertificateDer<'_>])| {
            now.verifier.verify_client_cert(own, others, UnixTime::now()).is_ok()
        };
        Arc::ptr_eq(&now, then) || self.chain.split_first().is_some_and(verify)
    }
}

impl PartialEq for ClientCertificate {
    fn eq(&self, other: &ClientCertificate) -> bool {
        self.chain == other.chain
    }
}

impl Eq for ClientCertificate {}

/// An encrypted connection and the certificate of its client.
pub type TlsConnection = (TlsStream<TcpStream>, Option<ClientCertificate>);

/// The modification time of each file.
type Stamps = Vec<Option<SystemTime>>;

impl Tls {
    /// Reads the certificate, the key and the client CA.
    pub fn open(files: &TlsFiles, client_ca: Option<&Path>) -> Result<Tls, TlsError> {
        let stamps = stamps(files, client_ca);
        let (config, authorities) = read(files, client_ca)?;
        let client_ca = client_ca.map(Path::to_owned);
        let current = RwLock::new(Current { client_ca, stamps, config, authorities });
        Ok(Tls { inner: Arc::new(Inner { files: files.clone(), current }) })
    }

    /// Performs the handshake. Returns `None` for a client that sends plain text, after a response that names the cause.
    /// Has no deadline of its own.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<Option<TlsConnection>> {
        if !is_tls(&stream).await? {
            respond_plain(stream).await;
            return Ok(None);
        }
        let (acceptor, authorities) = {
            let current = self.current();
            (TlsAcceptor::from(current.config.clone()), current.authorities.clone())
        };
        let stream = acceptor.accept(stream).await?;
        let chain = stream.get_ref().1.peer_certificates();
        let certificate = chain.zip(authorities).map(|(chain, authorities)| ClientCertificate {
            chain: chain.iter().map(|one| one.clone().into_owned()).collect(),
            verified_by: Some((self.clone(), authorities)),
        });
        Ok(Some((stream, certificate)))
    }

    fn current(&self) -> RwLockReadGuard<'_, Current> {
        self.inner.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the files again. An error leaves the configuration unchanged.
    pub fn reload(&self) -> Result<(), TlsError> {
        let client_ca = self.current().client_ca.clone();
        self.reload_with(client_ca.as_deref())
    }

    /// The same, with another client CA file or none. Check [`ClientCertificate::is_accepted`] of open connections then.
    pub fn reload_with(&self, client_ca: Option<&Path>) -> Result<(), TlsError> {
        let stamps = stamps(&self.inner.files, client_ca);
        let read = read(&self.inner.files, client_ca);
        let mut current = self.inner.current.write().unwrap_or_else(PoisonError::into_inner);
        // Stored in both cases: invalid files are not read again until they change.
        current.stamps = stamps;
        let (config, authorities) = read?;
        let is_same = |old: &&Arc<ClientAuthorities>, new: &Arc<ClientAuthorities>| {
            old.certificates == new.certificates
        };
        let kept = current.authorities.as_ref().zip(authorities.as_ref());
        // The same authorities: open connections need not be verified again.
        let kept = kept.filter(|(old, new)| is_same(old, new)).map(|(old, _)| old.clone());
        current.authorities = kept.or(authorities);
        current.config = config;
        current.client_ca = client_ca.map(Path::to_owned);
        Ok(())
    }

    /// Reads the files again if they have changed, and returns true then.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let (seen, client_ca) = {
            let current = self.current();
            (current.stamps.clone(), current.client_ca.clone())
        };
        match seen == stamps(&self.inner.files, client_ca.as_deref()) {
            true => Ok(false),
            false => self.reload().map(|()| true),
        }
    }

    /// Reloads the files every 10 seconds if they have changed, and calls `on_reload` then. Never returns.
    pub async fn reload_on_change(&self, on_reload: impl Fn()) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            match self.reload_if_changed() {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!("reloaded the changed TLS certificate");
                    on_reload();
                }
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

fn read(
    files: &TlsFiles,
    client_ca: Option<&Path>,
) -> Result<(Arc<ServerConfig>, Option<Arc<ClientAuthorities>>), TlsError> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| bad(&files.key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let authorities = client_ca.map(|file| read_authorities(file, provider)).transpose()?;
    let builder = builder.with_client_cert_verifier(match &authorities {
        None => Arc::new(NoClientAuth),
        Some(authorities) => authorities.verifier.clone(),
    });
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((Arc::new(config), authorities))
}

fn read_authorities(file: &Path, provider: Arc<CryptoProvider>) -> Result<Arc<ClientAuthorities>, TlsError> {
    let certificates = certificates(file)?;
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone())?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    // A client without a certificate needs a token, which is checked per request.
    let verifier = verifier.allow_unauthenticated().build()?;
    Ok(Arc::new(ClientAuthorities { certificates, verifier }))
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
