//! `spec.sandbox.network`.

use std::{
    net::{SocketAddr, TcpListener, UdpSocket},
    process::Command,
};

use crate::{
    confined::without_ipv4,
    reload::server::{self as http, ANY_PORT},
    sandbox_settings::bench::{Bench, isolating_tiers, tiers},
    skip::skip,
};

/// Connects to a TCP port, sends a datagram, and prints the results.
const PROBE: &str = r#"
import errno, os, socket
def tried(act):
    try:
        act()
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]
def datagram():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", int(os.environ["ARGOCD_ENV_UDP"])))
def stream():
    socket.create_connection(("127.0.0.1", int(os.environ["ARGOCD_ENV_TCP"])), 5)
print("kind: A")
print("tcp:", tried(stream))
print("udp:", tried(datagram))
print("tcp6:", tried(lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM)))
"#;

/// True if Python is here, which programs of plugins are written in.
pub(super) fn has_python() -> bool {
    let found = Command::new("python3").arg("-V").output().is_ok();
    if !found {
        skip("needs python3");
    }
    found
}

/// The results of a plugin for TCP and UDP.
fn tried(tier: &str, network: &str) -> (String, String, String) {
    let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0"));
    let tcp_port = tcp.local_addr().unwrap().port();
    let udp_port = udp.as_ref().unwrap().local_addr().unwrap().port();
    let spec = format!("  sandbox: {{network: {}}}", network.replace("TCP", &tcp_port.to_string()));
    let bench = Bench::new(&spec, &format!("python3 -c '{PROBE}'"));
    let (tcp_port, udp_port) = (format!("TCP={tcp_port}"), format!("UDP={udp_port}"));
    let rendered = bench.render(tier, &["--env", &tcp_port, "--env", &udp_port]);
    (rendered.value("tcp"), rendered.value("udp"), rendered.value("tcp6"))
}

#[test]
fn without_a_network_there_is_neither_tcp_nor_udp() {
    for tier in tiers().into_iter().filter(|_| has_python()) {
        let (tcp, udp, tcp6) = tried(tier, "none");
        assert_eq!([tcp.as_str(), &udp, &tcp6], ["EACCES"; 3], "{tier}");
    }
}

#[test]
fn ports_that_are_listed_can_be_connected_to() {
    for tier in tiers().into_iter().filter(|_| has_python()) {
        assert_eq!(tried(tier, "[TCP]").0, "done", "{tier}");
    }
}

#[test]
fn ports_that_are_not_listed_cannot() {
    for tier in isolating_tiers().filter(|_| has_python()) {
        let (tcp, udp, _) = tried(tier, "[1]");
        assert_eq!(tcp, "EACCES", "{tier}");
        assert_eq!(udp, "done", "{tier}: documented: no port of UDP is kept");
    }
}

#[test]
fn any_port_can_be_connected_to() {
    for tier in tiers().into_iter().filter(|_| has_python()) {
        assert_eq!(tried(tier, "any").0, "done", "{tier}");
    }
}

#[test]
fn the_port_of_a_proxy_that_the_plugin_sees_is_open() {
    for tier in isolating_tiers().filter(|_| has_python()) {
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = proxy.local_addr().unwrap().port();
        let tried = |spec: &str| {
            let bench = Bench::new(spec, &format!("python3 -c '{PROBE}'"));
            let bench = bench.with("HTTPS_PROXY", &format!("http://user:x@127.0.0.1:{port}"));
            bench.render(tier, &["--env", &format!("TCP={port}"), "--env", "UDP=9"]).value("tcp")
        };
        assert_eq!(tried(""), "done", "{tier}");
        assert_eq!(tried("  sandbox: {env: [HOME]}"), "EACCES", "{tier}");
    }
}

/// Gives orders over HTTP and prints the answers. It also closes connections at once, so that
/// nobody owns them any more when the order is read.
const ORDERS: &str = r#"
import http.client, os, socket
port = int(os.environ["ARGOCD_ENV_PORT"])
def order(method, path):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request(method, path, "off")
    return connection.getresponse().status
print("kind: A")
print("orders: \"%d %d\"" % (order("PUT", "/-/log-level"), order("POST", "/-/reload")))
for _ in range(50):
    with socket.create_connection(("127.0.0.1", port)) as left:
        left.sendall(b"PUT /-/log-level HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\noff")
"#;

#[test]
fn requests_may_not_give_orders_over_http() {
    let tiers = isolating_tiers().filter(|tier| *tier != "landlock");
    for tier in tiers.filter(|_| has_python()) {
        let spec = "  sandbox: {network: any}";
        let bench = Bench::new(spec, &format!("python3 -c '{ORDERS}'"));
        let server = bench.serve(tier, &["--admin-http", &ANY_PORT.to_string()]);
        let log = server.says("serving orders and details");
        let line = log.lines().find(|line| line.contains("serving orders and details")).unwrap();
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let address: SocketAddr = line["address"].as_str().unwrap().parse().unwrap();
        let rendered = bench.ask("tried", &["--env", &format!("PORT={}", address.port())]);
        assert_eq!(rendered.value("orders"), "403 403", "{tier}");
        assert_eq!(http::Server::ask_at(address, "POST", "/-/reload").0, 200, "{tier}");
        let (status, level) = http::Server::ask_at(address, "GET", "/-/log-level");
        assert_eq!((status, level.trim()), (200, "info"), "{tier}");
    }
}

#[test]
fn a_network_without_ipv4_is_enough() {
    let tiers = tiers();
    without_ipv4(|| {
        for tier in tiers {
            let rendered = Bench::new("", "echo 'kind: A'").render(tier, &[]);
            assert_eq!(rendered.manifests()[0]["kind"], "A", "{tier}");
        }
    });
}
