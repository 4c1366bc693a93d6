use std::{
    fs::{self, Permissions, set_permissions},
    os::unix::fs::{PermissionsExt, symlink},
};

use tempfile::TempDir;

use super::*;

const NAMESPACES: &str =
    ", or a supervisor with --isolation namespaces, where each command has its own";

/// A directory that everybody may enter.
fn public() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    directory
}

fn refusal(text: &str) -> String {
    refusal_in(true, text)
}

fn refusal_in(hides_closed: bool, text: &str) -> String {
    let readable = Readable::fixed(&["/usr", "/etc/ssl", "/home/open"], &["/secrets", "/work"]);
    let search = b"/usr/bin".to_vec();
    let readable = Some(readable);
    let reach = Reach { readable, filters_ports: true, hides_closed, search, ..Reach::default() };
    let (network, read) = (Network::Ports(vec![22, 443]), vec!["/data".into()]);
    let bounds = Bounds { network, read, named: vec!["/named".into()], ..Bounds::default() };
    reach.refusal(&bounds, text).unwrap_or_default()
}

#[test]
fn a_program_that_leads_to_a_closed_path_names_it() {
    let directory = public();
    let open = directory.path().to_str().unwrap();
    let tool = directory.path().join("tool");
    symlink("/root/.local/bin/tool", &tool).unwrap();
    let reach = Reach {
        readable: Some(Readable::fixed(&[open], &[])),
        search: open.into(),
        ..Reach::default()
    };
    let expected = format!(
        "`{}` leads to `/root/.local/bin/tool`, which the sandbox closes: install it",
        tool.display()
    );
    for line in [
        "sh: 1: tool: Permission denied",
        "sh: 1: tool: not found",
        &format!("fork/exec {}: permission denied", tool.display()),
        &format!("fork/exec {}: no such file or directory", tool.display()),
    ] {
        let shown = reach.refusal(&Bounds::default(), line).unwrap();
        assert!(shown.starts_with(&expected), "{line}: {shown}");
    }
    assert_eq!(reach.refusal(&Bounds::default(), "sh: 1: other: not found"), None);
}

#[test]
fn a_home_that_is_only_closed_is_not_said_to_be_hidden() {
    let text = "cat: /root/x: No such file or directory";
    assert!(refusal_in(true, text).starts_with("the sandbox hides"));
    assert_eq!(refusal_in(false, text), "");
}

#[test]
fn a_refused_port_is_named_with_its_key() {
    for text in [
        "dial tcp 10.0.0.1:3128: connect: permission denied",
        "curl: (7) Failed to connect to h port 3128 after 0 ms: Couldn't connect to server",
        "cat: /root/x: Permission denied\nError: connect EACCES 127.0.0.1:3128",
    ] {
        let expected = "the sandbox refuses TCP port 3128: it may connect to ports 22, 443: add \
                        3128 to spec.sandbox.network or --network";
        assert_eq!(refusal(text), expected, "{text}");
    }
    let unknown = refusal("java.net.ConnectException: Permission denied");
    assert!(unknown.starts_with("the sandbox refuses TCP ports: it may"), "{unknown}");
    assert!(refusal("listen tcp :80: bind: permission denied").contains("network: any"));
}

#[test]
fn an_allowed_port_was_not_refused_by_the_sandbox() {
    for text in [
        "curl: (7) Failed to connect to h port 443 after 0 ms: Couldn't connect to server",
        "dial tcp 10.0.0.1:443: connect: permission denied",
    ] {
        assert_eq!(refusal(text), "", "{text}");
    }
}

#[test]
fn a_closed_path_is_named_with_its_key() {
    for (text, expected) in [
        (
            "open /secrets/age: permission denied",
            "closes `/secrets/age`: to let it read that, add \
          /secrets/age to spec.sandbox.read",
        ),
        ("cat: /secrets/age: No such file or directory", "hides the mount /secrets: to let"),
        (
            "cat: /home/argocd/key: No such file or directory",
            "hides /home: if `/home/argocd/key` is in the image and it needs that, add \
             /home/argocd/key to spec.sandbox.read",
        ),
        (
            "gpg: Fatal: can't create directory '/home/argocd/.gnupg': No such file or directory",
            "no request can create `/home/argocd/.gnupg`: it can write only",
        ),
        ("tee: /usr/x: Permission denied", "changing it: it can write only"),
        (
            "touch: cannot touch '/usr/x': Permission denied",
            "write-protects `/usr/x`: it can write",
        ),
        ("bash: line 1: /usr/x: Read-only file system", "write-protects `/usr/x`: it can write"),
        ("cat: /data/key: Permission denied", "as far as the file's mode does"),
        ("cat: /named/key: Permission denied", "as far as the file's mode does"),
        ("cat: /tokens/x: Permission denied", "everybody who can change a rendered repository"),
        ("dial unix /run/agent: connect: permission denied", "no key opens it"),
    ] {
        assert!(refusal(text).contains(expected), "{text}: {}", refusal(text));
    }
}

#[test]
fn a_program_beside_the_sockets_has_a_remedy() {
    let readable = Some(Readable::fixed(&["/usr"], &[]));
    let reach = Reach { readable, sockets: "/work/plugins".into(), ..Reach::default() };
    let shown = |line: &str| reach.refusal(&Bounds::default(), line).unwrap_or_default();
    for line in [
        "sh: 1: /work/plugins/tk: Permission denied",
        "sh: 1: /work/plugins/tk: not found",
        "fork/exec /work/plugins/tk: permission denied",
    ] {
        let expected = "the sandbox closes `/work/plugins/tk`, because it is in the directory of the \
                        sockets, and no key opens it: put programs";
        assert!(shown(line).starts_with(expected), "{line}: {}", shown(line));
    }
    assert_eq!(shown("sh: 1: /work/_cmp_server/1/repo/x: Permission denied"), "");
    let attempt = Attempt::Execute("/work/plugins/tk".to_owned());
    let denied = Refusal { attempt, errno: 13, program: "sh".to_owned(), has_failed: true };
    let advice = reach.advise(&Bounds::default(), &denied).unwrap();
    assert!(advice.text.contains("directory of the sockets"), "{}", advice.text);
}

#[test]
fn only_a_path_that_exists_can_be_named() {
    let in_tmp = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    let in_tmp = in_tmp.path().to_str().unwrap();
    let key = format!("add {in_tmp} to spec.sandbox.read or --read; for temporary files, use");
    assert!(refusal_in(false, &format!("open {in_tmp}: permission denied")).contains(&key));
    for (path, tier) in [
        ("/tmp/to-create", format!("{NAMESPACES} /tmp")),
        (
            "/dev/shm/to-create",
            "; shared memory, as of Python's multiprocessing, needs --isolation namespaces".into(),
        ),
        ("/var/tmp/to-create", String::new()),
    ] {
        let missing = format!("PermissionError: [Errno 13] Permission denied: '{path}'");
        let key = if path.starts_with("/dev") { ", and no key opens it;" } else { ":" };
        let expected =
            format!("the sandbox closes `{path}`{key} for temporary files, use $TMPDIR{tier}");
        assert_eq!(refusal_in(false, &missing), expected);
    }
    for path in ["/to-create", "/var/no-such/to-create"] {
        let missing = format!("open {path}: permission denied");
        let expected = format!("the sandbox closes `{path}`: {WRITABLE}");
        assert_eq!(refusal_in(false, &missing), expected);
        assert!(refusal_in(true, &missing).contains("add /"), "others must not learn it");
    }
    let key = "add /var/lib to spec.sandbox.read or --read; it can write";
    assert!(refusal_in(false, "open /var/lib: permission denied").contains(key));
    let created = "mkdir: cannot create directory '/tmp/x': Permission denied";
    let expected = "write-protects `/tmp/x`: for temporary files, use $TMPDIR";
    assert!(refusal_in(false, created).ends_with(&format!("{expected}{NAMESPACES} /tmp")));
    let reach =
        Reach { readable: Some(Readable::fixed(&[], &[])), hides_closed: true, ..Reach::default() };
    let denial = Denial::Write(CleanPath::new(Path::new("/tmp/x")).unwrap());
    let advice = reach.path_advice(&Bounds::default(), &denial).unwrap();
    assert!(advice.text.ends_with(expected), "{}", advice.text);
}

#[test]
fn a_command_with_its_own_tmp_does_not_learn_what_exists_in_that_of_the_container() {
    let file = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    for path in [file.path(), Path::new("/tmp/missing")] {
        let text = format!("open {}: permission denied", path.display());
        assert_eq!(refusal_in(true, &text), "");
    }
}

#[test]
fn a_kernel_that_refuses_moves_is_named() {
    let reach = Reach { refuses_moves: true, ..Reach::default() };
    let of = |reach: &Reach, text| reach.refusal(&Bounds::default(), text).unwrap_or_default();
    for text in [
        "ln: failed to create hard link 'b/x' => 'a/x': Invalid cross-device link",
        "OSError: [Errno 18] Invalid cross-device link: 'a/x' -> 'b/x'",
        "rename a/x b/x: invalid cross-device link",
        "Error: EXDEV: cross-device link not permitted, rename 'a/x' -> 'b/x'",
    ] {
        assert!(of(&reach, text).contains("Linux 5.19 or newer"), "{text}");
        assert_eq!(of(&Reach::default(), text), "");
    }
}

#[test]
fn other_paths_get_no_hint() {
    for text in [
        "cat: /usr/x: No such file or directory",
        "cat: /nowhere/x: No such file or directory",
        "cat: /home/open/x: No such file or directory",
        "cat: /home: No such file or directory",
        "open /work/_cmp_server/1/repo/x: permission denied",
        "open ./x: permission denied",
    ] {
        assert_eq!(refusal(text), "", "{text}");
    }
}

#[test]
fn without_a_sandbox_nothing_is_refused_by_it() {
    for text in ["dial tcp 1.1.1.1:1: connect: permission denied", "open /x: permission denied"] {
        assert_eq!(Reach::default().refusal(&Bounds::default(), text), None);
    }
}

/// A Secret in a closed directory, beside an open one with links into it.
fn secret_beside_tools() -> (TempDir, Reach) {
    let directory = public();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("secret/..1")).unwrap();
    fs::create_dir(at("tools")).unwrap();
    fs::write(at("secret/..1/password"), "#!/hidden/interpreter\n").unwrap();
    for (name, target) in [
        ("secret/..data", "..1"),
        ("secret/password", "..data/password"),
        ("tools/password", "../secret/password"),
        ("tools/missing", "../secret/missing"),
        ("tools/all", "../secret"),
        ("tools/self", "/proc/self/cwd/Cargo.toml"),
    ] {
        symlink(target, at(name)).unwrap();
    }
    set_permissions(at("secret"), Permissions::from_mode(0o700)).unwrap();
    let tools = at("tools").into_os_string().into_string().unwrap();
    let readable = Some(Readable::fixed(&[&tools], &[]));
    let reach = Reach { readable, search: tools.into(), ..Reach::default() };
    (directory, reach)
}

#[test]
fn nobody_learns_from_a_message_what_is_in_a_closed_directory() {
    let (directory, mut reach) = secret_beside_tools();
    let top = directory.path().display();
    let ends = ["Permission denied", "No such file or directory", "not found"];
    for hides_closed in [true, false] {
        reach.hides_closed = hides_closed;
        let said = |place: &str, name: &str, end: &str| {
            let line = format!("sh: 1: {top}/{place}{name}: {end}");
            reach.refusal(&Bounds::default(), &line).unwrap_or_default().replace(name, "NAME")
        };
        for place in ["tools/../secret/", "tools/all/", "tools/", "tools/all/../secret/"] {
            for end in ends {
                let shown = said(place, "password", end);
                assert!(!shown.contains("..") && !shown.contains("hidden"), "{shown}");
                assert_eq!(shown, said(place, "missing", end), "{place} {end}");
            }
        }
    }
}

#[test]
fn nobody_looks_at_what_the_kernel_shows_of_the_supervisor() {
    let (directory, reach) = secret_beside_tools();
    let tools = directory.path().join("tools");
    for path in ["self", "../../../../../proc/self/cwd", "../../../../../proc/self/fd/0"] {
        let line = format!("sh: 1: {}: not found", tools.join(path).display());
        let shown = reach.refusal(&Bounds::default(), &line).unwrap_or_default();
        let cwd = std::env::current_dir().unwrap();
        assert!(!shown.contains(cwd.to_str().unwrap()), "{shown}");
        assert_eq!(shown.is_empty(), path != "self", "the link alone is open: {shown}");
    }
}

#[test]
fn a_closed_directory_for_temporary_files_does_not_show_its_names() {
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    fs::write(directory.path().join("a"), "").unwrap();
    set_permissions(directory.path(), Permissions::from_mode(0o700)).unwrap();
    let said = |name: &str| {
        let path = directory.path().join(name);
        refusal_in(false, &format!("cat: {}: Permission denied", path.display()))
    };
    assert_eq!(said("a").replace("/a", "/b"), said("b"));
}

#[test]
fn a_named_file_of_a_volume_that_was_replaced_is_told_from_others() {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    let decided = Decided(std::time::SystemTime::now());
    fs::create_dir(top.join("..1")).unwrap();
    for name in ["file", "run.sh"] {
        fs::write(top.join("..1").join(name), "#!/bin/sh\n").unwrap();
        symlink(format!("..data/{name}"), top.join(name)).unwrap();
    }
    symlink("..1", top.join("..data")).unwrap();
    let readable = Some(Readable::fixed(&["/bin", "/usr"], &[]));
    let reach = Reach { readable, ..Reach::default() };
    let bounds = Bounds { read: vec![top.join("file")], ..Bounds::default() };
    let denied = |name: &str| Denial::Path(CleanPath::new(&top.join(name)).unwrap());
    let replaced = |name| reach.replaced(&bounds, &denied(name), decided);
    let advice = replaced("file").unwrap();
    let expected = format!("{0} was replaced while the command ran: name {0} its", top.display());
    assert!(advice.text.starts_with(&expected), "{}", advice.text);
    assert_eq!(replaced("run.sh"), None, "nobody named it");
    // A directory in it is replaced, too, the volume's own one is not.
    let below = |named: &str| {
        let bounds = Bounds { read: vec![top.join(named)], ..Bounds::default() };
        reach.replaced(&bounds, &denied(&format!("{named}/key")), decided).is_some()
    };
    fs::create_dir(top.join("..1/sub")).unwrap();
    symlink("..data/sub", top.join("sub")).unwrap();
    fs::create_dir(top.join("plain")).unwrap();
    assert_eq!(["sub", "plain"].map(below), [true, false]);
    // Below a named directory, a link may lead to a closed volume.
    fs::create_dir_all(top.join("closed/..1")).unwrap();
    symlink("..1", top.join("closed/..data")).unwrap();
    symlink(top.join("closed"), top.join("..1/sub/link")).unwrap();
    let bounds_of_sub = Bounds { read: vec![top.join("sub")], ..Bounds::default() };
    let advice = reach.replaced(&bounds_of_sub, &denied("sub/link/key"), decided).unwrap();
    assert!(advice.text.starts_with(&format!("{} was", top.display())), "{}", advice.text);
    let absent = Denial::Absent(CleanPath::new(&top.join("file")).unwrap());
    assert_eq!(reach.replaced(&bounds, &absent, decided), None, "no rule refused it");
    let readable = Some(Readable::fixed(&["/bin", "/usr"], &[]));
    let namespaces = Reach { readable, hides_closed: true, ..Reach::default() };
    assert_eq!(namespaces.replaced(&bounds, &denied("file"), decided), None);
    // The link does not make it a closed path.
    let advice = reach.path_advice(&bounds, &denied("file")).unwrap();
    assert!(advice.text.contains("as far as the file's mode does"), "{}", advice.text);
}
