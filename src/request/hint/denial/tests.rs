use super::*;

fn clean(path: &str) -> CleanPath {
    CleanPath::new(Path::new(path)).unwrap()
}

fn connect(port: u16) -> Denial {
    Denial::Connect { port: Some(port), is_certain: true }
}

fn hidden(port: u16) -> Denial {
    Denial::Connect { port: Some(port), is_certain: false }
}

#[test]
fn what_a_server_denies_is_not_denied_by_the_sandbox() {
    for line in [
        "remote: fatal: cannot open /srv/git/x: Permission denied",
        "/usr/bin/ssh: git@github.com: Permission denied (publickey).",
    ] {
        assert_eq!(denials(line), [], "{line}");
    }
}

/// Lines that real programs wrote in this sandbox.
#[test]
fn refused_connections_are_found_with_their_ports() {
    for (line, expected) in [
        ("Get \"https://h/\": dial tcp 10.0.0.1:3128: connect: permission denied", connect(3128)),
        ("2026/01/01 12:30:01 dial tcp [::1]:8099: connect: permission denied", connect(8099)),
        ("Error: connect EACCES 127.0.0.1:8099 - Local (0.0.0.0:0)", connect(8099)),
        ("ssh: connect to host 127.0.0.1 port 2299: Permission denied", connect(2299)),
        ("Connecting to 127.0.0.1:8099... failed: Permission denied.", connect(8099)),
        (
            "HTTPSConnectionPool(host='h', port=8443): Max retries exceeded with url: / (Caused by \
             NewConnectionError('<x>: Failed to establish a new connection: [Errno 13] Permission \
             denied'))",
            connect(8443),
        ),
        (
            "error sending request for url (http://127.0.0.1:8099/): tcp connect error: \
             Permission denied (os error 13)",
            connect(8099),
        ),
        (
            "urllib.error.URLError: <urlopen error [Errno 13] Permission denied>",
            Denial::Connect { port: None, is_certain: true },
        ),
        (
            "java.net.ConnectException: Permission denied",
            Denial::Connect { port: None, is_certain: true },
        ),
        (
            "Exception in thread \"main\" java.net.BindException: Permission denied",
            Denial::Connect { port: None, is_certain: true },
        ),
        (
            "127.0.0.1[0: 127.0.0.1]: errno=Permission denied",
            Denial::Connect { port: None, is_certain: true },
        ),
        (
            "curl: (7) Failed to connect to 127.0.0.1 port 8099 after 0 ms: Couldn't connect to \
             server",
            hidden(8099),
        ),
        (
            "fatal: unable to access 'http://127.0.0.1:8099/x/': Failed to connect to 127.0.0.1 \
             port 8099 after 0 ms: Couldn't connect to server",
            hidden(8099),
        ),
        ("listen tcp 127.0.0.1:8080: bind: permission denied", Denial::Listen),
        ("Error: listen EACCES: permission denied 127.0.0.1:8099", Denial::Listen),
    ] {
        assert_eq!(denials(line), [expected], "{line}");
    }
    let trace = "    sock.connect(sa)\nPermissionError: [Errno 13] Permission denied\n";
    assert_eq!(denials(trace), [Denial::Connect { port: None, is_certain: true }]);
    assert_eq!(denials(&trace.replace("connect", "bind")), [Denial::Listen]);
    let trace = "Exception in thread \"main\" java.net.BindException: Permission denied\n\tat \
                 java.base/sun.nio.ch.Net.bind0(Native Method)\n";
    assert_eq!(denials(trace), [Denial::Listen]);
}

/// A path in the line is that of a URL or of a program.
#[test]
fn refused_connections_are_not_taken_for_paths() {
    for line in [
        "HTTPSConnectionPool(host='h', port=8443): Max retries exceeded with url: /v1/db (Caused by \
         NewConnectionError('<x>: Failed to establish a new connection: [Errno 13] Permission \
         denied'))",
        "Error: accumulating resources: Get \"https://h:8443/b.git\": dial tcp 10.0.0.1:8443: connect: \
         permission denied': failed to run '/usr/bin/git fetch https://h:8443/b.git main': fatal: \
         unable to access 'https://h:8443/b.git/': Failed to connect to h port 8443 after 0 ms: \
         Couldn't connect to server",
    ] {
        assert_eq!(denials(line), [connect(8443)], "{line}");
    }
}

#[test]
fn refused_paths_are_found() {
    for line in [
        "open /srv/x: permission denied",
        "Error: cannot load repository: open /srv/x: permission denied",
        "fork/exec /srv/x: permission denied",
        "cat: /srv/x: Permission denied",
        "/bin/sh: 1: cannot open /srv/x: Permission denied",
        "bash: line 1: /srv/x: Permission denied",
        "ls: cannot open directory '/srv/x': Permission denied",
        "fatal: unable to access '/srv/x': Permission denied",
        "PermissionError: [Errno 13] Permission denied: '/srv/x'",
        "Error: EACCES: permission denied, open '/srv/x'",
        "Error: spawn /srv/x EACCES",
        "Exception in thread \"main\" java.io.FileNotFoundException: /srv/x (Permission denied)",
        "java.nio.file.AccessDeniedException: /srv/x",
        "Error: failed to read /srv/x: Permission denied (os error 13)",
        "Load key \"/srv/x\": Permission denied",
        "fatal: cannot change to '/srv/x': Permission denied",
    ] {
        assert_eq!(denials(line), [Denial::Path(clean("/srv/x"))], "{line}");
    }
    for line in [
        "Error: connect EACCES /srv/x",
        "Error: listen EACCES: permission denied /srv/x",
        "dial unix /srv/x: connect: permission denied",
        "listen unix /srv/x: bind: permission denied",
    ] {
        assert_eq!(denials(line), [Denial::Socket(clean("/srv/x"))], "{line}");
    }
    for line in [
        "bash: line 1: /usr/x: Read-only file system",
        "sh: 1: cannot create /usr/x: Permission denied",
        "mkdir: cannot create directory ‘/usr/x’: Permission denied",
        "touch: cannot touch '/usr/x': Permission denied",
        "rm: cannot remove '/usr/x': Permission denied",
        "mv: cannot move 'y' to '/usr/x': Permission denied",
        "Error: EACCES: permission denied, mkdir '/usr/x'",
        "OSError: [Errno 30] Read-only file system: '/usr/x'",
    ] {
        assert_eq!(denials(line), [Denial::Write(clean("/usr/x"))], "{line}");
    }
    for line in [
        "cat: /srv/x: No such file or directory",
        "Error: ENOENT: no such file or directory, open '/srv/x'",
        "FileNotFoundError: [Errno 2] No such file or directory: '/srv/x'",
        "open /srv/x: no such file or directory",
        "sh: 0: cannot open /srv/x: No such file",
        "sh: 1: /srv/x: not found",
        "sh: 1: /usr/bin/../../srv/x: not found",
        "cat: /usr/bin/../../srv/x: No such file or directory",
    ] {
        assert_eq!(denials(line), [Denial::Absent(clean("/srv/x"))], "{line}");
    }
}

#[test]
fn paths_that_nothing_could_create_are_found() {
    for line in [
        "gpg: Fatal: can't create directory '/srv/x': No such file or directory",
        "mkdir: cannot create directory ‘/srv/x’: No such file or directory",
        "mkdir /srv/x: no such file or directory",
        "Error: ENOENT: no such file or directory, mkdir '/srv/x'",
        "touch: cannot touch '/srv/x': No such file or directory",
        "sh: 1: cannot create /srv/x: Directory nonexistent",
    ] {
        assert_eq!(denials(line), [Denial::Create(clean("/srv/x"))], "{line}");
    }
}

#[test]
fn a_refusal_is_found_across_the_line_breaks_of_sops() {
    let text = "Group 0: FAILED\n  age1x: FAILED\n    - | failed to load age identities: failed to \
                open\n      | SOPS_AGE_KEY_FILE file: open\n      | /srv/x: permission\n      | \
                denied\n\nRecovery failed because no master key\n";
    assert_eq!(denials(text), [Denial::Path(clean("/srv/x"))]);
    let text = text.replace("permission", "no such file or").replace("denied", "directory");
    assert_eq!(denials(&text), [Denial::Absent(clean("/srv/x"))]);
}

#[test]
fn other_refusals_are_not_ours() {
    for line in [
        "git@github.com: Permission denied (publickey).",
        "remote: Permission denied",
        "* permission denied",
        "pq: permission denied for table x",
        "Permission denied on resource project x (or it may not exist).",
        "denied: requested access to the resource is denied",
        "dial udp 10.0.0.1:53: connect: permission denied",
        "/bin/sh: 1: ./x: Permission denied",
        "curl: (6) Could not resolve host: x",
        "Failed to connect to bus",
        "error: cannot connect to the repo-server's socket for git credentials, /run/s.sock: \
         Permission denied (os error 13)",
        "all is well",
    ] {
        assert_eq!(denials(line), [], "{line}");
    }
}

#[test]
fn any_text_can_be_read() {
    for text in ["/", "'/", "‘/a’ permission denied", "://", "port : permission denied", "İ/eacces"]
    {
        let _ = denials(text);
    }
}

#[test]
fn a_name_of_shared_memory_is_no_path() {
    let denied = "PermissionError: [Errno 13] Permission denied: '/psm_c987a893'";
    let traced = format!("    self._fd = _posixshmem.shm_open(\n{denied}");
    assert_eq!(denials(&traced), []);
    assert_eq!(denials(denied), [Denial::Path(clean("/psm_c987a893"))]);
}
