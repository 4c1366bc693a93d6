//! `provideGitCreds`: git asks the repo-server for a password, in every tier.

mod attacks;
mod repo_server;
pub(super) mod web;

use std::{os::unix::fs::chown, path::Path, process::Command, time::Duration};

use cmp_supervisor::grpc::{Client, Parcel};

use self::repo_server::{RepoServer, variables};
use crate::{
    sandbox_settings::{
        bench::{Bench, Server, tiers},
        bundles::{bundle, listed},
        grouped, reading,
    },
    skip::skip,
};

/// The repo-server of other users than root cannot have the user 999.
fn usable() -> Vec<&'static str> {
    if rustix::process::geteuid().is_root() {
        tiers()
    } else {
        skip("needs root");
        Vec::new()
    }
}

/// A plugin that may ask, and its server.
struct Site {
    bench: Bench,
    server: Server,
}

impl Site {
    fn new(tier: &str, script: &str) -> Self {
        Self::with("", tier, script)
    }

    fn with(spec: &str, tier: &str, script: &str) -> Self {
        let bench = Bench::new(&format!("  provideGitCreds: true\n{spec}"), script);
        let server = bench.serve(tier, &[]);
        Self { bench, server }
    }

    /// Sends a request with these variables.
    fn ask(&self, environment: Vec<(String, String)>) -> Result<String, String> {
        // More than a thousand questions need on a busy machine.
        let timeout = Duration::from_mins(10);
        let parcel = Parcel { environment, timeout, ..self.bench.parcel() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let asked = async {
            let mut client = Client::connect(&self.bench.path("sockets/tried.sock")).await?;
            client.generate(&parcel).await
        };
        let manifests = runtime.block_on(asked).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(manifests.concat()).unwrap())
    }
}

/// Prints everything that a command gets.
const FILL: &str = "echo 'kind: A'; printf 'protocol=https\\nhost=example.com\\n\\n' | \
                    git credential fill | sed \"s/=\\(.*\\)/: '\\1'/\"";

#[test]
fn git_gets_user_name_and_password() {
    for tier in usable() {
        let mut site = Site::new(tier, FILL);
        let repo_server = RepoServer::start(&site.bench.path(""), &[("nonce-7c1e", "hunter22")]);
        let answer = site.ask(repo_server.variables("nonce-7c1e")).unwrap_or_else(|error| {
            panic!("{tier}: {error}\n{}", site.server.log());
        });
        assert!(answer.contains(r#""username":"me""#), "{tier}: {answer}");
        assert!(answer.contains(r#""password":"hunter22""#), "{tier}: {answer}");
        let log = site.server.last_log();
        assert!(!log.contains("hunter22") && !log.contains("nonce-7c1e"), "{tier}: {log}");
    }
}

#[test]
fn a_request_with_a_group_of_the_pod_asks_through_a_pipe() {
    for _ in usable().into_iter().filter(|tier| *tier == "uid") {
        let bench = Bench::new("", "true");
        let secret = grouped::secret(&bench, "secret", grouped::GROUP, 0o440);
        let spec = format!("  provideGitCreds: true\n{}", reading::reading(&secret));
        let script =
            format!("test -p \"$ARGOCD_ASK_PASS_SOCK\"; cat {}/key >&2; {FILL}", secret.display());
        bench.add("tried", &spec, &format!("set -e; {script}"));
        let server = grouped::serve(&bench);
        let site = Site { bench, server };
        let repo_server = RepoServer::start(&site.bench.path(""), &[("nonce-7c1e", "hunter22")]);
        let answer = site.ask(repo_server.variables("nonce-7c1e"));
        assert!(answer.as_ref().is_ok_and(|answer| answer.contains("hunter22")), "{answer:?}");
    }
}

#[test]
fn git_clones_a_repository_behind_a_password() {
    for tier in usable() {
        let script = "git clone -q \"$ARGOCD_ENV_URL\" \"$TMPDIR/clone\" && echo 'kind: A' && \
                      echo \"result: $(cat \"$TMPDIR/clone/greeting\")\"";
        let site = Site::with("  sandbox: {network: any}", tier, script);
        // me:hunter22
        let port = web::serve(&site.bench.path(""), "Basic bWU6aHVudGVyMjI=");
        let repo_server = RepoServer::start(&site.bench.path(""), &[("nonce-7c1e", "hunter22")]);
        let mut environment = repo_server.variables("nonce-7c1e");
        let url = format!("http://127.0.0.1:{port}/repository.git");
        environment.push(("ARGOCD_ENV_URL".to_owned(), url));
        let answer = site.ask(environment);
        assert!(answer.as_ref().is_ok_and(|answer| answer.contains("hello")), "{tier}: {answer:?}");
    }
}

#[test]
fn init_may_ask_too() {
    for tier in usable() {
        let spec = "  init: {command: [sh, -c, '\"$GIT_ASKPASS\" Username > name']}";
        let site = Site::with(spec, tier, "echo 'kind: A'; echo \"init: $(cat name)\"");
        let repo_server = RepoServer::start(&site.bench.path(""), &[("nonce-7c1e", "hunter22")]);
        let answer = site.ask(repo_server.variables("nonce-7c1e")).unwrap();
        assert!(answer.contains(r#""init":"me""#), "{tier}: {answer}");
    }
}

#[test]
fn the_error_says_what_to_mount() {
    for tier in usable() {
        let mut site = Site::new(tier, "\"$GIT_ASKPASS\" Password");
        let missing = site.bench.path("missing/ask-pass.sock");
        let error = site.ask(variables(&missing, "nonce-7c1e")).unwrap_err();
        let expected = format!(
            "cannot connect to the repo-server's socket for git credentials, {}: No such file or \
             directory (os error 2): mount a volume that the repo-server has too, at the same path \
             in both, and set ARGOCD_ASK_PASS_SOCK of the repo-server to a path in it",
            missing.display()
        );
        assert!(error.contains(&expected), "{tier}: {error}");
        assert!(error.contains("exit status 20"), "{tier}: {error}");
        assert!(!error.contains("spec.sandbox"), "{tier}: {error}");
        let log = site.server.last_log();
        let warning = "a command asked for git credentials and got none";
        assert_eq!(log.matches(warning).count(), 1, "{tier}: {log}");
    }
}

#[test]
fn a_nonce_that_the_repo_server_has_removed_gets_nothing() {
    for tier in usable() {
        let site = Site::new(tier, "\"$GIT_ASKPASS\" Password");
        let repo_server = RepoServer::start(&site.bench.path(""), &[]);
        let error = site.ask(repo_server.variables("nonce-7c1e")).unwrap_err();
        assert!(error.contains("unknown nonce"), "{tier}: {error}");
    }
}

#[test]
fn what_a_command_prints_is_masked() {
    for tier in usable() {
        let script =
            "\"$GIT_ASKPASS\" Password >&2; echo \"nonce $ARGOCD_GIT_ASKPASS_NONCE\" >&2; exit 3";
        let mut site = Site::new(tier, script);
        let repo_server = RepoServer::start(&site.bench.path(""), &[("nonce-7c1e", "hunter22")]);
        let error = site.ask(repo_server.variables("nonce-7c1e")).unwrap_err();
        assert!(error.contains("***") && error.contains("nonce ***"), "{tier}: {error}");
        let seen = format!("{error}{}", site.server.last_log());
        assert!(!seen.contains("hunter22") && !seen.contains("nonce-7c1e"), "{tier}: {seen}");
    }
}

#[test]
fn a_socket_that_the_supervisor_may_not_use_is_no_fault_of_the_sandbox() {
    for tier in usable() {
        let site = Site::new(tier, "\"$GIT_ASKPASS\" Password");
        let repo_server = RepoServer::start(&site.bench.path(""), &[("nonce-7c1e", "hunter22")]);
        chown(repo_server.socket(), Some(0), Some(0)).unwrap();
        let error = site.ask(repo_server.variables("nonce-7c1e")).unwrap_err();
        assert!(error.contains("run this container as the repo-server's user"), "{tier}: {error}");
        assert!(!error.contains("spec.sandbox"), "{tier}: {error}");
    }
}

#[test]
fn a_bundle_of_a_failed_request_has_no_password() {
    for tier in usable().into_iter().filter(|tier| *tier == "uid") {
        let spec = "  provideGitCreds: true";
        let script = "\"$GIT_ASKPASS\" Password; env; exit 3";
        let bench = Bench::new(spec, script);
        let server = bench.serve(tier, &["--keep-failed", "1"]);
        let site = Site { bench, server };
        let repo_server = RepoServer::start(&site.bench.path(""), &[("nonce-7c1e", "hunter22")]);
        site.ask(repo_server.variables("nonce-7c1e")).unwrap_err();
        let id = listed(&site.bench, 1)[0]["requestId"].as_str().unwrap().to_owned();
        for verb in ["show", "get"] {
            let content = bundle(&site.bench, &[verb, &id]);
            let content = String::from_utf8_lossy(&content);
            assert!(content.contains("***"), "{verb}: {content}");
            for secret in ["hunter22", "nonce-7c1e"] {
                assert!(!content.contains(secret), "{verb}: {content}");
            }
        }
    }
}

#[test]
fn a_plugin_without_provide_git_creds_keeps_its_variables() {
    let bench = Bench::new("", "echo 'kind: A'; echo \"program: $GIT_ASKPASS\"");
    let server = bench.serve("none", &[]);
    let site = Site { bench, server };
    let answer = site.ask(variables(Path::new("/x"), "nonce-7c1e")).unwrap();
    assert!(answer.contains(r#""program":"argocd""#), "{answer}");
}

#[test]
fn the_helper_has_the_exit_codes_of_argo_cd() {
    let run = |name: &str, arguments: &[&str], nonce: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        command.env_clear().args(arguments);
        if nonce {
            command.env("ARGOCD_GIT_ASKPASS_NONCE", "nonce-7c1e");
        }
        if !name.is_empty() {
            command.env("ARGOCD_BINARY_NAME", name);
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let helper = "argocd-git-ask-pass";
    for (output, expected) in [
        (run(helper, &[], true), "expected 1 argument, got 0"),
        (run(helper, &["Username", "b"], true), "expected 1 argument, got 2"),
        (
            run(helper, &["Username"], false),
            "ARGOCD_GIT_ASKPASS_NONCE is not set: set provideGitCreds: ",
        ),
        (run("", &["git-ask-pass", "Username"], false), "ARGOCD_GIT_ASKPASS_NONCE is not set"),
        (run(helper, &["git-ask-pass", "Username"], false), "ARGOCD_GIT_ASKPASS_NONCE is not set"),
        (run(helper, &["Username"], true), "plugin with provideGitCreds can ask"),
    ] {
        assert_eq!(output.0, Some(20), "{expected}: {}", output.1);
        assert!(output.1.contains(expected), "{expected}: {}", output.1);
    }
}
