//! `http/request` against a small server: complete and streamed responses, errors, and invalid requests.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use daemon::faces::exec_server::methods::http::{RequestOptions, Reservations, request};
use engine::policy::Environment;
use link::Incoming;
use link::dial::Proxies;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use wire::exec_server::http::{HttpBodyDelta, HttpRequest, MAX_DELTA_BYTES};

fn params(value: Value) -> HttpRequest {
    serde_json::from_value(value).unwrap()
}

/// Answers one request with these bytes; what was asked comes back.
async fn server(answer: Vec<u8>) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/path", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        while !String::from_utf8_lossy(&asked).contains("\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut asked).await.unwrap(), 0);
        }
        stream.write_all(&answer).await.unwrap();
        String::from_utf8(asked).unwrap()
    });
    (url, serving)
}

#[tokio::test]
async fn a_response_is_returned_completely() {
    let (url, serving) =
        server(b"HTTP/1.1 418 Teapot\r\nx-a: b\r\ncontent-length: 2\r\n\r\nhi".to_vec()).await;
    let wanted = json!({
        "method": "POST", "url": url, "requestId": "r",
        "headers": [{"name": "X-One", "value": "1"}, {"name": "x-home", "value": "", "valueEnvVar": "PATH"},
            {"name": "x-both", "value": "in ", "valueEnvVar": "PATH"}],
        "bodyBase64": "aGVsbG8=",
    });
    let variables = [("PATH".into(), "/of/commands".into())];
    let options = RequestOptions { variables: &variables, ..RequestOptions::default() };
    let (response, streamed) =
        request(params(wanted), options, &Reservations::default(), std::future::ready(Ok(()))).await.unwrap();
    assert!(streamed.is_none());
    let response = serde_json::to_value(response).unwrap();
    assert_eq!((&response["status"], &response["bodyBase64"]), (&json!(418), &json!("aGk=")));
    assert!(response["headers"].as_array().unwrap().contains(&json!({"name": "x-a", "value": "b"})));
    let asked = serving.await.unwrap();
    assert!(asked.starts_with("POST /path HTTP/1.1\r\n") && asked.contains("x-one: 1\r\n"), "{asked}");
    assert!(asked.contains("x-home: /of/commands\r\n"), "{asked}");
    assert!(asked.contains("x-both: in /of/commands\r\n") && asked.contains("accept: */*\r\n"), "{asked}");
}

#[tokio::test]
async fn a_streamed_response_arrives_in_numbered_chunks_and_its_id_is_in_use_meanwhile() {
    let body = vec![b'x'; 3 * MAX_DELTA_BYTES];
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    let (url, _serving) = server([head.as_bytes(), &body].concat()).await;
    let wanted = json!({"method": "GET", "url": url, "requestId": "r", "streamResponse": true});
    let active = Reservations::default();
    let (response, streamed) =
        request(params(wanted.clone()), RequestOptions::default(), &active, std::future::ready(Ok(())))
            .await
            .unwrap();
    assert!(response.body_base64.0.is_empty());
    let again = request(params(wanted), RequestOptions::default(), &active, std::future::ready(Ok(())))
        .await
        .unwrap_err();
    assert_eq!(again.code, -32602, "{again}");
    let (ours, mut theirs) = link::memory::pair(&link::Limits::default());
    let telling = tokio::spawn(async move { streamed.unwrap().send(&ours.outgoing).await });
    let (mut got, mut seq) = (Vec::new(), 0);
    loop {
        let Some(Incoming::Message(message)) = theirs.incoming.recv().await else { panic!("too early") };
        let mut message: Value = serde_json::from_slice(&message).unwrap();
        assert_eq!(message["method"], "http/request/bodyDelta");
        assert!(message.get("jsonrpc").is_none());
        let delta: HttpBodyDelta = serde_json::from_value(message["params"].take()).unwrap();
        seq += 1;
        assert_eq!((delta.seq, delta.request_id.as_str(), delta.error), (seq, "r", None));
        assert!(delta.delta_base64.0.len() <= MAX_DELTA_BYTES);
        got.extend_from_slice(&delta.delta_base64.0);
        if delta.done {
            break;
        }
    }
    assert_eq!(got, body);
    telling.await.unwrap();
    let free = json!({"method": "GET", "url": "ftp://x", "requestId": "r"});
    let error = request(params(free), RequestOptions::default(), &active, std::future::ready(Ok(())))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("got ftp"), "the id is free again, the URL is not right: {error}");
}

#[tokio::test]
async fn an_incomplete_body_is_reported_as_an_error() {
    let (url, serving) = server(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec()).await;
    let wanted = json!({"method": "GET", "url": url, "requestId": "r", "streamResponse": true});
    let (_, streamed) = request(
        params(wanted),
        RequestOptions::default(),
        &Reservations::default(),
        std::future::ready(Ok(())),
    )
    .await
    .unwrap();
    serving.await.unwrap();
    let (ours, mut theirs) = link::memory::pair(&link::Limits::default());
    tokio::spawn(async move { streamed.unwrap().send(&ours.outgoing).await });
    let mut last = Value::Null;
    while let Some(Incoming::Message(message)) = theirs.incoming.recv().await {
        last = serde_json::from_slice(&message).unwrap();
    }
    assert_eq!(last["params"]["done"], true);
    assert!(last["params"]["error"].is_string(), "{last}");
}

#[tokio::test]
async fn invalid_requests_and_failed_requests_have_different_codes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = format!("http://{}/", listener.local_addr().unwrap());
    let no_header = json!([{"name": "x", "value": "", "valueEnvVar": "NO_SUCH_VARIABLE_HERE"}]);
    let both = json!([{"name": "x", "value": "a", "valueEnvVar": "PATH"}]);
    let wrong = [
        json!({"method": "GET", "url": "file:///etc/passwd", "requestId": "r"}),
        json!({"method": "G ET", "url": silent, "requestId": "r"}),
        json!({"method": "GET", "url": silent, "requestId": "r", "headers": no_header}),
        json!({"method": "GET", "url": silent, "requestId": "r", "headers": both}),
    ];
    for wanted in wrong {
        let error = request(
            params(wanted),
            RequestOptions::default(),
            &Reservations::default(),
            std::future::ready(Ok(())),
        )
        .await
        .unwrap_err();
        assert_eq!(error.code, -32602, "{error}");
    }
    let late = json!({"method": "GET", "url": silent, "requestId": "r", "timeoutMs": 30});
    let error = request(
        params(late),
        RequestOptions::default(),
        &Reservations::default(),
        std::future::ready(Ok(())),
    )
    .await
    .unwrap_err();
    assert_eq!(error.code, -32603, "{error}");
    drop(listener);
    let gone = json!({"method": "GET", "url": silent, "requestId": "r"});
    let error = request(
        params(gone),
        RequestOptions::default(),
        &Reservations::default(),
        std::future::ready(Ok(())),
    )
    .await
    .unwrap_err();
    assert!(error.code == -32603 && error.message.contains("could not connect"), "{error}");
}

#[tokio::test]
async fn headers_with_secrets_are_not_sent_to_another_host() {
    let (target, serving) = server(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec()).await;
    let location = format!("HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n");
    let (url, first) = server(location.into_bytes()).await;
    let wanted = json!({
        "method": "GET", "url": url, "requestId": "r",
        "headers": [{"name": "x-api-key", "value": "", "valueEnvVar": "KEY"}, {"name": "x-plain", "value": "1"},
            {"name": "authorization", "value": "Bearer s3cr3t"}],
    });
    let variables = [("KEY".into(), "s3cr3t".into())];
    let options = RequestOptions { variables: &variables, ..RequestOptions::default() };
    let (response, _) =
        request(params(wanted), options, &Reservations::default(), std::future::ready(Ok(()))).await.unwrap();
    assert_eq!(response.status, 200);
    assert_eq!(first.await.unwrap().matches("s3cr3t").count(), 2);
    let redirected = serving.await.unwrap();
    assert!(!redirected.contains("s3cr3t") && redirected.contains("x-plain: 1"), "{redirected}");
}

#[tokio::test]
async fn requests_go_through_the_proxies_of_the_environment() {
    let (proxy, serving) = server(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nproxy".to_vec()).await;
    let (direct, directly) = server(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\ndirect".to_vec()).await;
    let proxy = proxy.trim_end_matches("/path").replace("http://", "http://me:secret@");
    let find = |name: &str| match name {
        "http_proxy" => Some(proxy.clone()),
        "NO_PROXY" => Some("127.0.0.0/8".to_owned()),
        _ => None,
    };
    let proxies = Proxies::from_variables(find);
    let options = RequestOptions { proxies: Some(&proxies), ..RequestOptions::default() };
    let get = async |url: &str| {
        let wanted = params(json!({"method": "GET", "url": url, "requestId": "r"}));
        request(wanted, options, &Reservations::default(), std::future::ready(Ok(()))).await.unwrap().0
    };
    assert_eq!(&get("http://far.example:81/x?y=1").await.body_base64.0[..], b"proxy");
    let asked = serving.await.unwrap();
    assert!(asked.starts_with("GET http://far.example:81/x?y=1 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("host: far.example:81\r\n"), "{asked}");
    assert!(asked.contains("proxy-authorization: Basic bWU6c2VjcmV0\r\n"), "{asked}");
    assert_eq!(&get(&direct).await.body_base64.0[..], b"direct");
    assert!(directly.await.unwrap().starts_with("GET /path HTTP/1.1\r\n"));
}

#[tokio::test]
async fn an_encrypted_request_goes_through_a_tunnel_of_the_proxy() {
    let (proxy, serving) = server(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n".to_vec()).await;
    let find = |name: &str| (name == "HTTPS_PROXY").then(|| proxy.clone());
    let proxies = Proxies::from_variables(find);
    let options = RequestOptions { proxies: Some(&proxies), ..RequestOptions::default() };
    let wanted = params(json!({"method": "GET", "url": "https://far.example/x", "requestId": "r"}));
    let refused = request(wanted, options, &Reservations::default(), std::future::ready(Ok(()))).await;
    let message = refused.unwrap_err().message;
    assert!(message.contains("407"), "{message}");
    assert!(
        serving.await.unwrap().starts_with("CONNECT far.example:443 HTTP/1.1\r\nHost: far.example:443\r\n")
    );
}

#[tokio::test]
async fn a_variable_that_commands_do_not_get_is_named() {
    let filter = Environment::default();
    for (variable, is_withheld) in [("MY_SERVICE_TOKEN", true), ("UNSET_HERE", false)] {
        let options = RequestOptions { filter: Some(&filter), ..RequestOptions::default() };
        let headers = json!([{"name": "x-a", "value": "Bearer ", "valueEnvVar": variable}]);
        let wanted = json!({"method": "GET", "url": "http://h/", "requestId": "r", "headers": headers});
        let refused =
            request(params(wanted), options, &Reservations::default(), std::future::ready(Ok(()))).await;
        let message = refused.unwrap_err().message;
        let released = format!("http/request header x-a requires executor environment variable {variable}");
        assert!(message.starts_with(&released), "{message}");
        assert_eq!(message.contains("add it to `keep` below [environment]"), is_withheld, "{message}");
    }
}
