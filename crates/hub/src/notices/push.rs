//! Web Push: requests to push services, encrypted for one browser (RFC 8291) and signed by the hub (RFC 8292).

use base64_simd::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Uri};
use link::dial::Request;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use web_push_native::p256::ecdsa::signature::Signer as _;
use web_push_native::p256::ecdsa::{Signature, SigningKey};
use web_push_native::p256::{PublicKey, SecretKey};
use web_push_native::{Auth, encrypt};

use crate::auth::now;
use crate::store::{PushSubscription, Store, StoreError};

/// The lifetime of a signature; push services accept at most a day.
const SIGNATURE_SECONDS: i64 = 12 * 3600;
/// The length of the secret that a browser shares with the hub.
const AUTH_BYTES: usize = 16;
/// The length of a push topic, which the standard limits.
const TOPIC_CHARACTERS: usize = 32;

/// The key with which the hub identifies itself to push services.
pub(crate) struct PushKey {
    signing: SigningKey,
    public: String,
    /// A URL or mail address for the operators of push services.
    contact: String,
}

impl std::fmt::Debug for PushKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PushKey({})", self.public)
    }
}

/// How a push is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct PushOptions<'a> {
    /// A later push with the same topic replaces one that is not delivered yet.
    pub(super) topic: &'a str,
    /// Seconds for which the push service keeps it for a browser that is offline.
    pub(super) lifetime: u32,
    pub(super) is_urgent: bool,
}

impl PushKey {
    /// The stored key; a new one at the first start.
    pub(crate) async fn open(store: &Store, contact: String) -> Result<PushKey, StoreError> {
        let mut bytes = [0; 32];
        let new = loop {
            getrandom::fill(&mut bytes)?;
            // Almost every number is a valid key.
            if let Ok(key) = SecretKey::from_slice(&bytes) {
                break key;
            }
        };
        let stored = store.push_key(&new.to_bytes()).await?;
        let invalid = || StoreError::UnknownValue { column: "push key", value: String::new() };
        let secret = SecretKey::from_slice(&stored).map_err(|_| invalid())?;
        let public = BASE64.encode_to_string(secret.public_key().to_sec1_bytes());
        Ok(PushKey { signing: SigningKey::from(secret), public, contact })
    }

    /// The public key for browsers, as they expect it.
    pub(crate) fn public(&self) -> &str {
        &self.public
    }

    /// A request that sends `payload` to a browser.
    pub(super) fn request(
        &self,
        to: &PushSubscription,
        payload: &[u8],
        options: PushOptions<'_>,
    ) -> Result<Request, String> {
        let (key, auth) = parse_keys(&to.p256dh, &to.auth)?;
        let body = encrypt(payload.to_vec(), &key, &auth).map_err(|error| error.to_string())?;
        let mut request = Request::new(Method::POST, &to.endpoint);
        let topic = BASE64.encode_to_string(Sha256::digest(options.topic));
        let headers = [
            (HeaderName::from_static("ttl"), options.lifetime.to_string()),
            (
                HeaderName::from_static("urgency"),
                if options.is_urgent { "high" } else { "normal" }.to_owned(),
            ),
            (HeaderName::from_static("topic"), topic.chars().take(TOPIC_CHARACTERS).collect()),
            (CONTENT_ENCODING, "aes128gcm".to_owned()),
            (CONTENT_TYPE, "application/octet-stream".to_owned()),
            (AUTHORIZATION, self.authorization(&to.endpoint)?),
        ];
        for (name, value) in headers {
            request.headers.insert(name, HeaderValue::try_from(value).map_err(|error| error.to_string())?);
        }
        request.body = Bytes::from(body);
        Ok(request)
    }

    /// `vapid t=JWT, k=PUBLIC`, for the origin of the endpoint.
    fn authorization(&self, endpoint: &str) -> Result<String, String> {
        let uri: Uri = endpoint.parse().map_err(|_| "the endpoint is not a URL".to_owned())?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err("the endpoint is not a URL".to_owned());
        };
        let audience = format!("{scheme}://{authority}");
        let claims = json!({ "aud": audience, "exp": now() + SIGNATURE_SECONDS, "sub": self.contact });
        let header = BASE64.encode_to_string(br#"{"typ":"JWT","alg":"ES256"}"#);
        let signed = format!("{header}.{}", BASE64.encode_to_string(claims.to_string()));
        let signature: Signature = self.signing.sign(signed.as_bytes());
        let signature = BASE64.encode_to_string(signature.to_bytes());
        Ok(format!("vapid t={signed}.{signature}, k={}", self.public))
    }
}

/// Decodes the keys of a browser's subscription, which are in base64url.
pub(crate) fn decode_keys(p256dh: &str, auth: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    let decode = |text: &str| BASE64.decode_to_vec(text.trim_end_matches('=')).unwrap_or_default();
    let (p256dh, auth) = (decode(p256dh), decode(auth));
    parse_keys(&p256dh, &auth)?;
    Ok((p256dh, auth))
}

fn parse_keys(p256dh: &[u8], auth: &[u8]) -> Result<(PublicKey, Auth), String> {
    let key =
        PublicKey::from_sec1_bytes(p256dh).map_err(|_| "keys.p256dh is not a P-256 public key".to_owned())?;
    match auth.len() == AUTH_BYTES {
        true => Ok((key, Auth::clone_from_slice(auth))),
        false => Err(format!("keys.auth must have {AUTH_BYTES} bytes")),
    }
}
