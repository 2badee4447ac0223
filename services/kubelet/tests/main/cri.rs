//! Connecting to a runtime.

use trireme_kubelet::Error;
use trireme_kubelet::cri::Cri;

#[tokio::test]
async fn nobody_there_is_said_in_one_line() {
    let error = Cri::connect("unix:///nowhere/containerd.sock").await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Runtime { .. }));
    assert!(
        !text.contains('\n') && text.contains("No such file") && text.contains("--container-runtime-endpoint"),
        "{text}"
    );
}

#[tokio::test]
async fn someone_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("other.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    // A gRPC server that serves something else.
    let (_, health) = tonic_health::server::health_reporter();
    let incoming = tokio_stream::wrappers::UnixListenerStream::new(listener);
    let server = tokio::spawn(tonic::transport::Server::builder().add_service(health).serve_with_incoming(incoming));
    let error = Cri::connect(&format!("unix://{}", socket.display())).await.unwrap_err().to_string();
    assert!(error.contains("does not serve runtime.v1.RuntimeService"), "{error}");
    server.abort();
}
