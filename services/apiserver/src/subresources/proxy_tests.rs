//! A backend behind a certificate that nobody vouches for, asked through the proxy.

use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::dev::{Extensions, ServerHandle};
use actix_web::rt::net::TcpStream;
use actix_web::rt::{self, System};
use actix_web::web::{self, Payload};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use clap::Parser as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use trireme_kinds::Registry;
use trireme_pki::{AuthorityName, Identity, Pki};
use trireme_service::tls::{self, ClientAuth};

use super::*;
use crate::admission::testing::Behind;
use crate::auth::UserInfo;
use crate::config::Config;

/// Whether the client of a connection showed a certificate.
#[derive(Clone, Copy)]
struct Shown(bool);

/// Tells what it was asked.
async fn backend(http: HttpRequest, mut payload: Payload) -> HttpResponse {
    if wants_websocket(&http) {
        let mut response = HttpResponse::SwitchingProtocols();
        return response.upgrade("websocket").insert_header(("sec-websocket-accept", "yes")).streaming(payload);
    }
    if http.path() == "/moved" {
        return HttpResponse::Found().insert_header(("location", "/login")).finish();
    }
    let mut length = 0;
    while let Some(Ok(piece)) = payload.next().await {
        length += piece.len();
    }
    let mut told = format!("{} {} {length}\n", http.method(), http.uri());
    for (name, value) in http.headers() {
        told += &format!("{name}={}\n", value.to_str().unwrap());
    }
    let shown = http.conn_data::<Shown>().is_some_and(|shown| shown.0);
    told += &format!("certificate={shown}\n");
    HttpResponse::Ok().insert_header(("etag", "\"1\"")).insert_header(("set-cookie", "a=b")).body(told)
}

struct Proxied {
    port: u16,
    servers: Vec<ServerHandle>,
    _dir: tempfile::TempDir,
}

/// A door that leads to the backend, and has a certificate of its own for kubelets.
async fn start() -> Proxied {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Pki::open(&dir.path().join("ours")).unwrap(), Pki::open(&dir.path().join("theirs")).unwrap());
    let pair = theirs.issue(&Identity::apiserver(&[], "10.96.0.1", "cluster.local")).unwrap();
    let identity = tls::Identity::from_files(pair.cert, pair.key).unwrap();
    let config = tls::server_config(&identity, &ClientAuth::Request, &["http/1.1"]).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let behind = listener.local_addr().unwrap().port();
    let note = |io: &dyn std::any::Any, data: &mut Extensions| {
        let stream = io.downcast_ref::<TlsStream<TcpStream>>().unwrap();
        data.insert(Shown(stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty())));
    };
    let server = HttpServer::new(|| App::new().default_service(web::to(backend)))
        .workers(1)
        .disable_signals()
        .on_connect(note)
        .listen_rustls_0_23(listener, (*config).clone())
        .unwrap()
        .run();
    let mut servers = vec![server.handle()];
    rt::spawn(server);

    let pair = ours.issue(&Identity::apiserver_kubelet_client()).unwrap();
    let authority = ours.authority_file(AuthorityName::Cluster);
    let flag = |name: &str, value: &std::path::Path| format!("--{name}={}", value.display());
    let config = Config::try_parse_from([
        "trireme-apiserver".to_owned(),
        flag("kubelet-client-certificate", &pair.cert),
        flag("kubelet-client-key", &pair.key),
        flag("kubelet-certificate-authority", &authority),
    ])
    .unwrap();
    let kubelets = Kubelets::new(Behind::seen(Vec::new()), Registry::builtin(), &config).unwrap();
    let location = Location { host: "127.0.0.1".into(), port: behind, tls: true, foreign: false, stranger: true };
    let state = web::Data::new((kubelets, location));
    let door = async |state: web::Data<(Kubelets, Location)>, http: HttpRequest, payload: Payload| {
        let path = percent_encoding::percent_decode_str(http.path()).decode_utf8_lossy().into_owned();
        let info = RequestInfo::parse(http.method().as_str(), &path, false, None);
        let mut context = Context::new(info, UserInfo::new("alice", &[]));
        context.source = Some([192, 0, 2, 7].into());
        let rest: Rest = Rc::new(Cell::new(Some(payload)));
        let answered = forward(&state.0, &state.1, &context, &http, &rest, |header| header == "x-who").await;
        held(answered.unwrap_or_else(|status| refused(&status)), rest)
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = HttpServer::new(move || App::new().app_data(state.clone()).default_service(web::to(door)))
        .workers(1)
        .disable_signals()
        .listen(listener)
        .unwrap()
        .run();
    servers.push(server.handle());
    rt::spawn(server);
    Proxied { port, servers, _dir: dir }
}

const PROXY: &str = "/api/v1/namespaces/a/services/https:s:/proxy";

impl Proxied {
    /// One exchange on a connection of its own, as text.
    async fn ask(&self, head: &str, body: &[u8]) -> String {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let head = format!("{head}\r\nhost: api\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    async fn stop(self) {
        for server in self.servers {
            server.stop(false).await;
        }
    }
}

#[test]
fn a_request_goes_on_as_it_came() {
    System::new().block_on(async {
        let proxied = start().await;
        let headers = "cookie: a=b\r\nrange: bytes=0-1\r\nif-none-match: \"1\"\r\nx-forwarded-for: 192.0.2.1\r\n\
                       authorization: Bearer secret\r\nimpersonate-user: bob\r\nx-remote-user: bob\r\nx-who: bob";
        let told = proxied.ask(&format!("GET {PROXY}/x%20y/?q=%2F HTTP/1.1\r\n{headers}"), b"").await;
        assert!(told.starts_with("HTTP/1.1 200 ") && told.contains("\r\netag: \"1\"\r\n"), "{told}");
        assert!(told.contains("\r\nset-cookie: a=b\r\n"), "{told}");
        for line in [
            "GET /x%20y/?q=%2F 0",
            "cookie=a=b",
            "range=bytes=0-1",
            "if-none-match=\"1\"",
            "x-forwarded-for=192.0.2.1, 192.0.2.7",
            "host=api",
            "certificate=false",
        ] {
            assert!(told.contains(&format!("{line}\n")), "{line}: {told}");
        }
        assert!(!told.contains("bob") && !told.contains("secret"), "{told}");
        proxied.stop().await;
    });
}

#[test]
fn methods_and_bodies_are_the_clients() {
    System::new().block_on(async {
        let proxied = start().await;
        let options = proxied.ask(&format!("OPTIONS {PROXY}/ HTTP/1.1"), b"").await;
        assert!(options.contains("OPTIONS / 0\n"), "{options}");
        let head = proxied.ask(&format!("HEAD {PROXY}/ HTTP/1.1"), b"").await;
        assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
        // More than any object may have.
        let large = vec![b'x'; 5 << 20];
        let put = proxied.ask(&format!("PUT {PROXY}/f HTTP/1.1\r\ncontent-length: {}", large.len()), &large).await;
        assert!(put.contains(&format!("PUT /f {}\n", large.len())), "{put}");
        let head = format!("POST {PROXY}/f HTTP/1.1\r\ntransfer-encoding: chunked");
        let chunked = proxied.ask(&head, b"3\r\nabc\r\n0\r\n\r\n").await;
        assert!(chunked.contains("POST /f 3\n"), "{chunked}");
        proxied.stop().await;
    });
}

#[test]
fn links_stay_behind_the_proxy() {
    System::new().block_on(async {
        let proxied = start().await;
        let moved = proxied.ask(&format!("GET {PROXY}/moved HTTP/1.1"), b"").await;
        assert!(moved.contains(&format!("\r\nlocation: {PROXY}/login\r\n")), "{moved}");
        let root = proxied.ask(&format!("GET {PROXY}?a=b HTTP/1.1"), b"").await;
        assert!(
            root.starts_with("HTTP/1.1 301 ") && root.contains(&format!("\r\nlocation: {PROXY}/?a=b\r\n")),
            "{root}"
        );
        proxied.stop().await;
    });
}

#[test]
fn a_websocket_passes() {
    System::new().block_on(async {
        let proxied = start().await;
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", proxied.port)).await.unwrap();
        let head =
            format!("GET {PROXY}/ws HTTP/1.1\r\nhost: api\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\nping");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"ping") {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "{}", String::from_utf8_lossy(&answer));
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101 ") && answer.contains("sec-websocket-accept: yes\r\n"), "{answer}");
        proxied.stop().await;
    });
}
