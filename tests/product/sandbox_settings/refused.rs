//! Hints about what the sandbox refused, with the words of real programs.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::Path,
    thread,
};

use rustix::process::geteuid;

use crate::{
    mounted::Silent,
    sandbox_settings::bench::{Bench, Rendered, isolating_tiers},
    skip::skip,
};

/// Programs that open a file, with `PATH` in place of its path. Not all machines
/// have them.
const READERS: [(&str, &str); 6] = [
    ("/bin/cat", "cat PATH"),
    ("/bin/sh", ". PATH"),
    ("/usr/bin/python3", "/usr/bin/python3 -c 'open(\"PATH\")'"),
    ("/usr/bin/node", "/usr/bin/node -e 'require(\"fs\").readFileSync(\"PATH\")'"),
    ("/usr/bin/git", "git config --file PATH --list"),
    ("/usr/bin/curl", "curl -sS --cacert PATH https://127.0.0.1:443/ || cat PATH"),
];

/// Programs that connect, with `PORT` in place of a port of the loopback address.
const CLIENTS: [(&str, &str); 5] = [
    ("/usr/bin/curl", "curl -sS http://127.0.0.1:PORT/"),
    ("/usr/bin/git", "git ls-remote http://127.0.0.1:PORT/x"),
    ("/usr/bin/node", "/usr/bin/node -e 'require(\"net\").connect(PORT, \"127.0.0.1\")'"),
    (
        "/usr/bin/python3",
        "/usr/bin/python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", PORT))'",
    ),
    ("/usr/bin/wget", "wget -t 1 -O - http://127.0.0.1:PORT/"),
];

/// UID of a supervisor that root starts.
const SUPERVISOR: u32 = 999;

fn render(tier: &str, script: &str) -> Rendered {
    Bench::new("", &format!("{script}; exit 1")).render(tier, &[])
}

#[test]
fn a_closed_path_is_named_with_the_key_that_opens_it() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let key = home.path().join("key");
    fs::write(&key, "key").unwrap();
    for tier in isolating_tiers() {
        for (program, script) in READERS {
            if !Path::new(program).exists() || tier == "namespaces" {
                // In `namespaces` the path does not exist, and is no mount.
                continue;
            }
            let rendered = render(tier, &script.replace("PATH", key.to_str().unwrap()));
            let error = rendered.error();
            assert!(
                error.contains(&format!("the sandbox closes `{}", key.display())),
                "{tier}: {error}"
            );
            assert!(!error.contains("TCP"), "{tier}: {error}");
        }
    }
}

/// A command can print any path, and the supervisor may look where the command may not.
#[test]
fn a_message_that_a_command_makes_up_shows_nothing_of_closed_directories() {
    for tier in isolating_tiers() {
        let bench = Bench::new("", "cat message >&2; exit 1");
        let (secret, tools) = (bench.path("secret"), bench.path("tools"));
        fs::create_dir_all(secret.join("..2026")).unwrap();
        fs::create_dir(&tools).unwrap();
        fs::write(secret.join("..2026/password"), "#!/hidden/program\n").unwrap();
        symlink("..2026", secret.join("..data")).unwrap();
        symlink("..data/password", secret.join("password")).unwrap();
        symlink("../secret", tools.join("all")).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o700)).unwrap();
        if geteuid().is_root() {
            for path in [secret.clone(), secret.join("..2026"), secret.join("..2026/password")] {
                chown(path, Some(SUPERVISOR), Some(SUPERVISOR)).unwrap();
            }
        }
        let _server = bench.serve(tier, &["--read", tools.to_str().unwrap()]);
        let said = |path: &str, name: &str, words: &str| {
            let line = format!("sh: 1: {}/{path}/{name}: {words}\n", tools.display());
            fs::write(bench.path("app/message"), line).unwrap();
            let rendered = bench.ask("tried", &[]);
            let hint = rendered.error().rsplit_once(words).unwrap().1.to_owned();
            assert!(!hint.contains("..2026") && !hint.contains("hidden"), "{tier}: {hint}");
            hint.replace(name, "NAME")
        };
        for path in ["../secret", "all"] {
            for words in ["not found", "Permission denied", "No such file or directory"] {
                let [there, missing] = ["password", "nothing"].map(|name| said(path, name, words));
                assert_eq!(there, missing, "{tier}: {path}: {words}");
            }
        }
    }
}

#[test]
fn a_program_beside_the_sockets_is_named_with_a_remedy() {
    for tier in isolating_tiers() {
        let bench = Bench::new("", "");
        let tool = bench.path("sockets/tk");
        bench.add("tried", "", &tool.display().to_string());
        let _server = bench.serve(tier, &[]);
        fs::copy("/bin/true", &tool).unwrap();
        let rendered = bench.ask("tried", &[]);
        let expected = format!(
            "the sandbox closes `{}`, because it is in the directory of the sockets, and no key",
            tool.display()
        );
        assert!(rendered.error().contains(&expected), "{tier}: {}", rendered.error());
    }
}

#[test]
fn a_path_that_does_not_answer_holds_up_no_other_request() {
    if !geteuid().is_root() {
        return skip("needs root, to mount");
    }
    for tier in isolating_tiers() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("below").display().to_string();
        let bench = Bench::new("", "echo 'kind: A'");
        bench.add("named", "", &format!("echo open {path}: permission denied >&2; exit 1"));
        let server = bench.serve(tier, &[]);
        let Some(_silent) = Silent::mount(place.path()) else { return skip("needs /dev/fuse") };
        thread::scope(|scope| {
            // More than threads that serve connections.
            let named: Vec<_> = (0..5).map(|_| scope.spawn(|| bench.ask("named", &[]))).collect();
            while named.iter().any(|asked| !asked.is_finished()) {
                let asked = bench.ask("tried", &["--timeout", "30s"]);
                assert_eq!(asked.value("kind"), "A", "{tier}: {}", server.log());
            }
            for asked in named {
                let rendered = asked.join().unwrap();
                let error = rendered.error();
                let plain = format!("{path}: permission denied (plugin named");
                assert!(error.contains(&plain), "{tier}: {error}");
            }
        });
    }
}

/// True if a request ends as expected before the supervisor's wait for storage that does not
/// answer, which is 5 s. A busy machine gets more than one chance.
fn soon(bench: &Bench, plugin: &str, is_expected: impl Fn(&Rendered) -> bool) -> bool {
    (0..5).any(|_| is_expected(&bench.ask(plugin, &["--timeout", "4s"])))
}

/// A plugin whose command succeeds, and names a path that does not answer in an error.
fn success_that_names(path: &Path) -> Bench {
    let path = path.join("below");
    let script = format!("echo open {}: permission denied >&2; echo 'kind: A'", path.display());
    Bench::new("", &script)
}

#[test]
fn a_success_does_not_wait_for_the_warning_about_a_path() {
    if !geteuid().is_root() {
        return skip("needs root, to mount");
    }
    for tier in isolating_tiers() {
        let place = tempfile::tempdir().unwrap();
        let bench = success_that_names(place.path());
        let server = bench.serve(tier, &[]);
        let Some(_silent) = Silent::mount(place.path()) else { return skip("needs /dev/fuse") };
        let is_soon = soon(&bench, "tried", |asked| asked.code == Some(0));
        assert!(is_soon, "{tier}: {}", server.log());
    }
}

#[test]
fn errors_do_not_wait_for_the_path_of_another_request() {
    if !geteuid().is_root() {
        return skip("needs root, to mount");
    }
    for tier in isolating_tiers() {
        let place = tempfile::tempdir().unwrap();
        let bench = success_that_names(place.path());
        bench.add("path", "", "echo open /srv/x: permission denied >&2; exit 1");
        bench.add("port", "", "echo connect EACCES 127.0.0.1:8099 >&2; exit 1");
        let server = bench.serve(tier, &[]);
        let Some(_silent) = Silent::mount(place.path()) else { return skip("needs /dev/fuse") };
        // The look at its path never ends. In `namespaces` requests have their own /tmp, and
        // nobody looks.
        bench.ask("tried", &[]);
        for (plugin, expected) in [
            ("path", "open /srv/x: permission denied"),
            ("port", "the sandbox refuses TCP port 8099"),
        ] {
            let is_soon = soon(&bench, plugin, |asked| asked.error().contains(expected));
            assert!(is_soon, "{tier} {plugin}: {}", server.log());
        }
    }
}

#[test]
fn a_refused_port_is_named_with_the_key_that_opens_it() {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    for tier in isolating_tiers() {
        for (program, script) in CLIENTS {
            if !Path::new(program).exists() {
                continue;
            }
            let rendered = render(tier, &script.replace("PORT", &port));
            let error = rendered.error();
            let is_python = program.contains("python");
            let named = format!("the sandbox refuses TCP port {port}: it may connect to ports 22,");
            let expected = if is_python { "the sandbox refuses TCP ports: it may" } else { &named };
            assert!(error.contains(expected), "{tier} {program}: {error}");
        }
    }
}

#[test]
fn an_allowed_port_gets_no_hint() {
    // Nothing listens on the port after this.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for tier in isolating_tiers() {
        let script = format!("curl -sS http://127.0.0.1:{port}/; exit 1");
        let bench = Bench::new(&format!("  sandbox: {{network: [{port}]}}"), &script);
        let rendered = bench.render(tier, &[]);
        assert!(!rendered.error().contains("sandbox refuses"), "{tier}: {}", rendered.stderr);
    }
}

#[test]
fn a_success_with_a_refusal_is_a_warning() {
    for tier in isolating_tiers() {
        let script = "touch /usr/refused; echo 'kind: A'";
        let rendered = Bench::new("", script).render(tier, &[]);
        assert_eq!(rendered.code, Some(0), "{tier}: {}", rendered.stderr);
        let text = "a command succeeded although the sandbox refused something: ";
        assert!(rendered.stderr.contains(text), "{tier}: {}", rendered.stderr);
        assert!(rendered.stderr.contains("`/usr/refused`"), "{tier}: {}", rendered.stderr);
    }
}

#[test]
fn the_error_of_init_has_its_standard_output() {
    let bench = Bench::new("  init: {command: [sh, -c, 'echo the cause; exit 3']}", "true");
    let rendered = bench.with("SECRET_TOKEN", "the-secret-token").render("none", &[]);
    let error = rendered.error();
    assert!(error.contains("failed exit status 3 [its standard output: the cause]"), "{error}");
    let init = "  init: {command: [sh, -c, 'echo the $SECRET_TOKEN; exit 3']}";
    let rendered =
        Bench::new(init, "true").with("SECRET_TOKEN", "hunter2hunter2").render("none", &[]);
    assert!(!rendered.stderr.contains("hunter2"), "{}", rendered.stderr);
}

#[test]
fn the_error_of_generate_tells_that_its_standard_output_is_all_there_is() {
    let error = |script: &str| Bench::new("", script).render("none", &[]).error().to_owned();
    // The error has the script, and not its sum.
    let hidden = error("echo kind: Secret; echo token: $((40000 + 2345)); exit 3");
    let told =
        "failed exit status 3 [it printed 26 bytes, all to standard output, which is not shown";
    assert!(hidden.contains(told) && !hidden.contains("42345"), "{hidden}");
    let shown = error("echo kind: Secret; echo the reason >&2; exit 3");
    assert!(shown.contains("exit status 3: the reason") && !shown.contains("bytes"), "{shown}");
}
