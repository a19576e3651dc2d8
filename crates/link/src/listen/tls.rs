//! TLS of a listener: its certificate, those of its clients, and changing them while it runs.

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

/// What a TLS connection begins with.
const HANDSHAKE: u8 = 0x16;
/// What somebody is told who speaks plain HTTP to a TLS port.
const PLAIN_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 54\r\nConnection: close\r\n\r\nThis port speaks TLS: use https:// or wss:// instead.\n";
/// How often it is looked whether the files have changed.
const LOOK: Duration = Duration::from_secs(10);
/// How long telling it may take.
const PLAIN_PATIENCE: Duration = Duration::from_secs(2);

/// A certificate chain and its key, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain, the own certificate first.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds nothing of use.
    #[error("{}: {reason}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificate and the key do not fit.
    #[error("the certificate and the key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    /// The certificates of who signs clients cannot be used.
    #[error("the client CA cannot be used: {0}")]
    ClientCa(#[from] rustls::server::VerifierBuilderError),
}

/// TLS as the files have it now. Cheap to clone; all clones see a reload.
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

/// When each file was changed last.
type Stamps = Vec<Option<SystemTime>>;

impl Tls {
    /// Reads the files.
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

    /// Encrypts what comes; nothing if that is plain text, which is told what the matter is. The caller bounds the time.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<Option<TlsStream<TcpStream>>> {
        if !is_tls(&stream).await? {
            answer_plain(stream).await;
            return Ok(None);
        }
        self.acceptor().accept(stream).await.map(Some)
    }

    fn acceptor(&self) -> TlsAcceptor {
        self.inner.current.read().unwrap_or_else(PoisonError::into_inner).0.clone().into()
    }

    /// Reads the files again. Bad ones change nothing.
    pub fn reload(&self) -> Result<(), TlsError> {
        let Inner { files, client_ca, current } = &*self.inner;
        let stamps = stamps(files, client_ca.as_deref());
        let read = read(files, client_ca.as_deref());
        let mut current = current.write().unwrap_or_else(PoisonError::into_inner);
        // Remembered either way: files that are bad are not read again until they change.
        current.1 = stamps;
        current.0 = read?;
        Ok(())
    }

    /// Reads the files again if they have changed. Tells whether they had.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let Inner { files, client_ca, current } = &*self.inner;
        let seen = current.read().unwrap_or_else(PoisonError::into_inner).1.clone();
        match seen == stamps(files, client_ca.as_deref()) {
            true => Ok(false),
            false => self.reload().map(|()| true),
        }
    }

    /// Looks now and then whether the files have changed, and reads them again then. Never ends.
    pub async fn look_after(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            match self.reload_if_changed() {
                Ok(false) => {}
                Ok(true) => tracing::info!("the certificate has changed and was read again"),
                Err(error) => tracing::error!("TLS stays as it was: {error}"),
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
            // Without a certificate a token is needed; the gate sees to that.
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
        true => Err(bad(file, "there is no certificate in it")),
        false => Ok(found),
    }
}

fn bad(file: &Path, reason: impl std::fmt::Display) -> TlsError {
    TlsError::File { file: file.to_owned(), reason: reason.to_string() }
}

/// Whether what comes is TLS. Waits for the first byte and leaves it there.
async fn is_tls(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(first == [HANDSHAKE]),
    }
}

/// Tells somebody who speaks plain HTTP to a TLS port what the matter is.
async fn answer_plain(mut stream: TcpStream) {
    let tell = async {
        stream.write_all(PLAIN_ANSWER).await?;
        stream.shutdown().await?;
        // What they sent has to be read, or the kernel throws our answer away.
        let mut scratch = [0; 1024];
        while tokio::io::AsyncReadExt::read(&mut stream, &mut scratch).await? > 0 {}
        io::Result::Ok(())
    };
    // Nobody is left to tell if even this fails.
    let _told = tokio::time::timeout(PLAIN_PATIENCE, tell).await;
}
