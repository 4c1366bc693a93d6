//! argocd-vault-plugin with a server that stands in for Vault.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    thread,
};

use super::shop::root;
use crate::{
    sandbox_settings::bench::{Bench, isolating_tiers},
    tool::{self, MACHINE},
};

const TOKEN: &str = "token-of-the-pod";
const PASSWORD: &str = "correct horse";

/// Mounts the token of the service account in an own namespace, and serves.
const MOUNTS: &str = r#"
set -e
mount -t tmpfs none /run
account=/run/secrets/kubernetes.io/serviceaccount
mkdir -p $account
printf %s "$1" > $account/token
shift
exec "$0" "$@"
"#;

/// Answers logins with the token, and requests for a secret. Returns the port.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(&stream));
        }
    });
    port
}

fn answer(mut stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    let mut length = 0;
    while !head.ends_with("\r\n\r\n") {
        let from = head.len();
        reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
        let line = head[from..].to_ascii_lowercase();
        length = line
            .strip_prefix("content-length: ")
            .map_or(length, |text| text.trim().parse().unwrap());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let is_login = String::from_utf8_lossy(&body).contains(&format!(r#""jwt":"{TOKEN}""#));
    let is_logged_in = head.to_ascii_lowercase().contains("x-vault-token: granted");
    let path = head.split(' ').nth(1)?;
    let (status, body) = match path {
        "/v1/auth/kubernetes/login" if is_login => {
            ("200 OK", r#"{"auth":{"client_token":"granted","lease_duration":3600}}"#.to_owned())
        }
        "/v1/secret/data/db" if is_logged_in => {
            let secret =
                format!(r#"{{"data":{{"password":"{PASSWORD}"}},"metadata":{{"version":1}}}}"#);
            ("200 OK", format!(r#"{{"data":{secret}}}"#))
        }
        _ => ("403 Forbidden", r#"{"errors":["permission denied"]}"#.to_owned()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).ok()
}

#[test]
#[ignore = "needs root and argocd-vault-plugin, whose build takes minutes (CONTRIBUTING.md)"]
fn secrets_of_vault_are_filled_in_with_the_token_that_is_named() {
    let port = serve();
    let definition = fs::read_to_string(root().join("plugins.d/argocd-vault-plugin.yaml")).unwrap();
    let definition = definition.replace("8200", &port.to_string());
    for tier in isolating_tiers() {
        let bench = Bench::new("", "true");
        let nameless = definition
            .replace("name: argocd-vault-plugin", "name: nameless")
            .replace("    read: [/var/run/secrets/kubernetes.io/serviceaccount/token]\n", "");
        for (name, text) in [("argocd-vault-plugin", &definition), ("nameless", &nameless)] {
            fs::write(bench.path("plugins").join(format!("{name}.yaml")), text).unwrap();
        }
        for name in ["kustomization.yaml", "secret.yaml"] {
            let from = root().join("plugins.d/examples/argocd-vault-plugin").join(name);
            fs::copy(from, bench.path("app").join(name)).unwrap();
        }
        let bin = bench.path("bin");
        fs::create_dir(&bin).unwrap();
        for program in ["argocd-vault-plugin", "kustomize"] {
            fs::copy(tool::find(program).unwrap(), bin.join(program)).unwrap();
        }
        let mut command = Command::new("unshare");
        command.env_clear().env("PATH", format!("{}:{MACHINE}", bin.display()));
        let address = format!("http://127.0.0.1:{port}");
        let variables = [("VAULT_ADDR", address.as_str()), ("AVP_TYPE", "vault")];
        command.envs(variables).envs([("AVP_AUTH_TYPE", "k8s"), ("AVP_K8S_ROLE", "argocd")]);
        command.args([
            "--mount",
            "sh",
            "-c",
            MOUNTS,
            env!("CARGO_BIN_EXE_cmp-supervisor"),
            TOKEN,
            "serve",
        ]);
        let mut server = bench.start(command, tier, &[]);
        let rendered = bench.ask("argocd-vault-plugin", &[]);
        let manifests = rendered.manifests();
        assert_eq!(manifests[0]["stringData"]["password"], PASSWORD, "{tier}");
        let rendered = bench.ask("nameless", &[]);
        let error = rendered.error();
        assert!(!error.contains(PASSWORD), "{tier}: {error}");
        assert!(error.contains("serviceaccount/token"), "{tier}: {error}");
        let log = server.last_log();
        assert!(!log.contains(TOKEN), "{tier}: {log}");
    }
}
