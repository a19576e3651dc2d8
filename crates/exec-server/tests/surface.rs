//! The public API against a real server: v0 and v1, files, and a child that ends with its handle.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::collections::BTreeMap;
use std::time::Instant;

use exec_server::{
    ByteChunk, ExecParams, ExecServerClient, ExecServerClientConnectOptions, ExecServerError,
    ExecServerEvent, ExecServerLaunchCommand, ExecServerTransport, FsCopyParams, FsCreateDirectoryParams,
    FsGetMetadataParams, FsReadFileParams, FsRemoveParams, FsWriteFileParams, ProcessSignal, ReadParams,
    RemoteExecServerConnectArgs, SignalParams, TerminateParams, WriteParams, WriteStatus, code,
    spawn_local_exec_server, v0,
};
use testkit::daemon::PATIENCE;
use testkit::exec_server::{ExecServer, exec_server};
use testkit::proc::watch;
use testkit::sandbox::Sandbox;

async fn connect(served: &ExecServer) -> ExecServerClient {
    let args = RemoteExecServerConnectArgs::new(&served.url, "tests");
    ExecServerClient::connect_websocket(args).await.unwrap()
}

fn shell(sandbox: &Sandbox, name: &str, line: &str) -> ExecParams {
    ExecParams {
        process_id: name.to_owned(),
        argv: ["sh", "-c", line].map(str::to_owned).to_vec(),
        cwd: format!("file://{}", sandbox.root().display()),
        env: path(),
        ..ExecParams::default()
    }
}

fn path() -> BTreeMap<String, String> {
    [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into()
}

#[tokio::test]
async fn a_process_is_started_written_to_read_interrupted_and_ended() {
    let sandbox = Sandbox::new();
    let served = ExecServer::start(&sandbox);
    let client = connect(&served).await;
    assert!(client.session_id().is_some());
    let line = "trap 'echo stop; exit 4' INT; echo ready; read -r word; echo \"$word\"; while :; do sleep 0.01; done";
    let params = ExecParams { pipe_stdin: true, ..shell(&sandbox, "talk", line) };
    let mut process = client.start(params).await.unwrap();
    assert_eq!(process.write("hello\n").await.unwrap().status, WriteStatus::Accepted);
    let mut said = Vec::new();
    let mut code = None;
    while let Some(event) = process.next().await.unwrap() {
        match event {
            ExecServerEvent::Output { bytes, .. } => {
                said.extend_from_slice(&bytes);
                if said.ends_with(b"hello\n") {
                    process.interrupt().await.unwrap();
                }
            }
            ExecServerEvent::Exited { exit_code, .. } => code = Some(exit_code),
            ExecServerEvent::Closed => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((String::from_utf8(said).unwrap().as_str(), code), ("ready\nhello\nstop\n", Some(4)));
    let read = ReadParams { process_id: "talk".to_owned(), ..ReadParams::default() };
    assert!(client.read(read).await.unwrap().closed, "what has ended is still known for a while");
    let gone = TerminateParams { process_id: "talk".to_owned() };
    assert!(!client.terminate(gone).await.unwrap().running);
    let chunk = ByteChunk::from(b"x".to_vec());
    let lost = WriteParams { process_id: "none".to_owned(), chunk, write_id: None };
    assert_eq!(client.write(lost).await.unwrap().status, WriteStatus::UnknownProcess);
    let signal = SignalParams { process_id: "none".to_owned(), signal: ProcessSignal::Interrupt };
    client.signal(signal).await.unwrap();
}

#[tokio::test]
async fn files_are_written_copied_read_and_removed() {
    let sandbox = Sandbox::new();
    let served = ExecServer::start(&sandbox);
    let client = connect(&served).await;
    let place = |name: &str| format!("file://{}/{name}", sandbox.root().display());
    let directory = FsCreateDirectoryParams { path: place("a/b"), ..Default::default() };
    client.fs_create_directory(directory).await.unwrap();
    let write =
        FsWriteFileParams { path: place("a/b/c"), data_base64: "aGk=".to_owned(), ..Default::default() };
    client.fs_write_file(write).await.unwrap();
    let (source_path, destination_path) = (place("a"), place("copy"));
    client
        .fs_copy(FsCopyParams { source_path, destination_path, recursive: true, sandbox: None })
        .await
        .unwrap();
    let read = FsReadFileParams { path: place("copy/b/c"), ..Default::default() };
    assert_eq!(client.fs_read_file(read).await.unwrap().data_base64, "aGk=");
    client.fs_remove(FsRemoveParams { path: place("a"), ..Default::default() }).await.unwrap();
    let look = FsGetMetadataParams { path: place("a"), ..Default::default() };
    assert_eq!(client.fs_get_metadata(look).await.unwrap_err().code(), Some(code::NOT_FOUND));
}

#[tokio::test]
async fn the_older_vocabulary_is_spoken_too() {
    let sandbox = Sandbox::new();
    let served = ExecServer::start(&sandbox);
    // Released servers do not know it.
    if std::env::var_os("REXD_TEST_EXEC_SERVER").is_some() {
        return;
    }
    let client = connect(&served).await;
    let params = v0::ExecParams {
        process_id: "old".to_owned(),
        argv: ["sh", "-c", "read -r line; echo \"heard $line\"; exit 5"].map(str::to_owned).to_vec(),
        cwd: sandbox.root().to_str().unwrap().to_owned(),
        env: path(),
        tty: true,
        output_bytes_cap: None,
        arg0: None,
    };
    let mut process = client.command_start(params).await.unwrap();
    let chunk = ByteChunk::from(b"word\n".to_vec());
    let write = v0::WriteParams { process_id: "old".to_owned(), chunk };
    assert!(client.command_write(write).await.unwrap().accepted);
    let (mut said, mut code) = (Vec::new(), None);
    while let Some(event) = process.next().await.unwrap() {
        match event {
            ExecServerEvent::Output { bytes, .. } => said.extend_from_slice(&bytes),
            ExecServerEvent::Exited { exit_code, .. } => code = Some(exit_code),
            other => panic!("{other:?}"),
        }
    }
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("heard word"), "{said:?}");
    assert_eq!(code, Some(5));
    let gone = v0::TerminateParams { process_id: "old".to_owned() };
    assert!(!client.command_terminate(gone).await.unwrap().running);
}

#[tokio::test]
async fn a_child_ends_with_its_handle_and_a_failed_one_returns_the_reason() {
    let options = ExecServerClientConnectOptions::default();
    let command = ExecServerLaunchCommand::exec_server(exec_server());
    let server = spawn_local_exec_server(command.clone(), options.clone()).await.unwrap();
    let child = watch(i32::try_from(server.pid().unwrap()).unwrap());
    assert_eq!(server.client().environment_status().await.unwrap().status, "ready");
    drop(server);
    let ended = tokio::task::spawn_blocking(move || child.ends_before(Instant::now() + PATIENCE)).await;
    assert!(ended.unwrap(), "it outlives its handle");
    let wrong = ExecServerLaunchCommand { args: vec!["--no-such-flag".to_owned()], ..command };
    let error = spawn_local_exec_server(wrong, options.clone()).await.unwrap_err();
    assert!(error.to_string().contains("no-such-flag"), "{error}");
    let missing = ExecServerLaunchCommand::exec_server("/no/such/program");
    let error = spawn_local_exec_server(missing, options).await.unwrap_err();
    assert!(matches!(error, ExecServerError::Spawn { .. }), "{error}");
}

#[tokio::test]
async fn a_child_answers_with_a_file_of_fifty_mebibytes() {
    const BYTES: usize = 50 * 1024 * 1024;
    let sandbox = Sandbox::new();
    let place = sandbox.root().join("large");
    std::fs::File::create(&place).unwrap().set_len(BYTES as u64).unwrap();
    let command = ExecServerLaunchCommand::exec_server(exec_server());
    let server = spawn_local_exec_server(command, ExecServerClientConnectOptions::default()).await.unwrap();
    let path = format!("file://{}", place.display());
    let params = FsReadFileParams { path, ..FsReadFileParams::default() };
    let read = server.client().fs_read_file(params).await.unwrap();
    // Base64 is four characters for three bytes.
    assert_eq!(read.data_base64.len(), BYTES.div_ceil(3) * 4);
    server.shut_down().await.unwrap();
}

#[test]
fn where_to_listen_is_a_literal_address_or_the_standard_streams() {
    assert_eq!("stdio://".parse(), Ok(ExecServerTransport::Stdio));
    assert!(exec_server::DEFAULT_LISTEN_URL.parse::<ExecServerTransport>().is_ok());
    let error = "ws://localhost:1".parse::<ExecServerTransport>().unwrap_err();
    assert!(matches!(error, exec_server::ExecServerListenUrlParseError::InvalidWebSocketListenUrl(_)));
}
