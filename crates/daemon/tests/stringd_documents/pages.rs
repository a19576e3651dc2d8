//! Documents of web servers on loopback.

use std::sync::Arc;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::served::{configured, home, pages, with_variable};
use crate::web;

#[test]
fn pages_are_loaded_and_converted() {
    let address = pages(&[
        (
            "/a.md",
            "HTTP/1.1 200 OK\r\nContent-Type: text/markdown\r\nContent-Length: 32\r\n\r\n# A\n[Next](b.html) [@t T](t.txt)",
        ),
        (
            "/b.html",
            "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 53\r\n\r\n<nav>n</nav><main><h1>B</h1><a href=a.md>A</a></main>",
        ),
        ("/t.txt", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nplain"),
        ("/moved", "HTTP/1.1 302 Found\r\nLocation: /t.txt\r\nContent-Length: 0\r\n\r\n"),
        ("/bad", "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
        ("/endless", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf"),
    ]);
    let mut served = home(&[]);
    let open =
        |served: &mut crate::served::Stringd, target: &str| served.exec("web:w", &format!("/open {target}"));
    let url = |path: &str| format!("http://{address}{path}");
    assert_eq!(
        open(&mut served, &url("/a.md")).ok(),
        format!("Opened {}\n---\n# A\n[Next](b.html) [T][@t]", url("/a.md"))
    );
    let page = open(&mut served, "b.html");
    assert_eq!(
        (&page.head["meta"]["converted"], page.head["meta"]["uri"].as_str()),
        (&serde_json::json!(true), Some(url("/b.html").as_str()))
    );
    assert_eq!(page.ok(), format!("Opened {}\n---\n# B\n\n[A](a.md)", url("/b.html")));
    assert!(served.exec("web:w", "/source").ok().contains("<nav>n</nav>"));
    let info = served.exec("web:w", "/info").ok();
    assert!(
        info.contains(&format!("url:       {}\n", url("/b.html")))
            && info.contains("source:    converted from HTML"),
        "{info}"
    );
    assert!(served.exec("web:w", "/back").ok().ends_with("[T][@t]"));
    assert!(open(&mut served, "@t").ok().ends_with("---\nplain"));
    assert_eq!(open(&mut served, &url("/moved")).ok(), format!("Opened {}\n---\nplain", url("/moved")));
    assert_eq!(
        open(&mut served, "/none").failure(),
        ("NOT_FOUND".into(), format!("Not found: {}", url("/none")))
    );
    assert_eq!(
        open(&mut served, "/bad").failure(),
        ("LOAD_ERROR".into(), format!("HTTP 500 fetching {}", url("/bad")))
    );
    let (code, text) = open(&mut served, &url("/endless")).failure();
    assert_eq!(code, "LOAD_ERROR", "{text}");
    assert!(text.starts_with(&format!("Network error fetching {}: ", url("/endless"))), "{text}");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, text) = open(&mut served, &format!("http://{free}/")).failure();
    assert_eq!(code, "LOAD_ERROR");
    assert!(text.starts_with(&format!("Network error fetching http://{free}/: ")), "{text}");
}

#[test]
fn a_body_without_end_is_refused_and_the_topic_is_usable() {
    let address = pages(&[("/a", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")]);
    let mut served = configured("[stringd]\ncommand_timeout_ms = 5000\n", &[]);
    for path in ["flood", "stall"] {
        let url = format!("http://{address}/{path}");
        let reply = served.exec("web:w", &format!("/open {url}"));
        assert!(reply.body.len() < 1_000, "the part that was read is not shown");
        let (code, text) = reply.failure();
        assert_eq!(code, "LOAD_ERROR", "{text}");
        assert!(text.starts_with(&format!("Network error fetching {url}: ")), "{text}");
    }
    assert!(served.exec("web:w", &format!("/open http://{address}/a")).ok().ends_with("---\na"));
}

#[test]
fn a_page_over_tls_needs_a_trusted_certificate() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let page = ("/a.md".to_owned(), web::response("text/markdown", "# Over TLS"));
    let address = web::serve_with(vec![page], move |stream| {
        let connection = rustls::ServerConnection::new(config.clone()).unwrap();
        rustls::StreamOwned::new(connection, stream)
    });
    let open = format!("/open https://{address}/a.md");
    let directory = tempfile::tempdir().unwrap();
    let trusted = directory.path().join("ca.pem");
    std::fs::write(&trusted, made.cert.pem()).unwrap();
    let mut served = with_variable("", &[], ("SSL_CERT_FILE", trusted.as_os_str()));
    let opened = format!("Opened https://{address}/a.md\n---\n# Over TLS");
    assert_eq!(served.exec("web:w", &open).ok(), opened);
    let other = rcgen::generate_simple_self_signed(["other.test".to_owned()]).unwrap();
    std::fs::write(&trusted, other.cert.pem()).unwrap();
    let (code, text) = served.exec("web:w", &open).failure();
    assert_eq!(code, "LOAD_ERROR", "{text}");
    assert!(text.starts_with(&format!("Network error fetching https://{address}/a.md: ")), "{text}");
}
