//! Paths to read, and what must not be exposed.

use std::os::unix::fs::symlink;

use super::*;

fn find_one(path: &Path, hidden: &Path) -> Result<ReadPath, NotReadable> {
    let hidden = vec![hidden.to_owned()];
    PathRules { hidden, ..PathRules::default() }.one(path)
}

#[test]
fn hidden_paths_and_their_parents_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    fs::create_dir_all(top.join("secret/inner")).unwrap();
    fs::create_dir(top.join("open")).unwrap();
    let secret = top.join("secret");
    for path in [top.clone(), secret.clone(), secret.join("inner"), "/".into()] {
        let refused = find_one(&path, &secret);
        assert!(matches!(refused, Err(NotReadable::Closed { .. })), "{path:?} {refused:?}");
    }
    assert_eq!(find_one(&top.join("open"), &secret).unwrap().real, top.join("open"));
}

#[test]
fn links_are_resolved_before_the_check() {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    for name in ["secret", "open"] {
        fs::create_dir(top.join(name)).unwrap();
        symlink(name, top.join(format!("to-{name}"))).unwrap();
    }
    let secret = top.join("secret");
    let refused = find_one(&top.join("to-secret"), &secret).unwrap_err().to_string();
    assert!(refused.contains("would expose") && refused.contains("to-secret"), "{refused}");
    let found = find_one(&top.join("to-open"), &secret).unwrap();
    assert_eq!((found.asked, found.real), (top.join("to-open"), top.join("open")));
}

#[test]
fn a_home_that_others_cannot_enter_is_told_from_a_volume() {
    for (path, closed, is_home) in [
        ("/root/.pyenv/bin", "/root", true),
        ("/home/argocd/.nvm", "/home/argocd", true),
        ("/home/argocd/keys", "/home/argocd/keys", false),
        ("/home/argocd/keys", "/home/argocd/keys/id", false),
        ("/keys/id", "/keys", false),
    ] {
        assert_eq!(is_in_closed_home(path.as_ref(), closed.as_ref()), is_home, "{path}");
    }
}

#[test]
fn kernel_file_systems_are_refused() {
    for path in ["/proc", "/proc/self", "/sys/kernel", "/dev"] {
        let refused = find_one(Path::new(path), Path::new("/nowhere"));
        assert!(matches!(refused, Err(NotReadable::Closed { .. })), "{path}");
    }
}

#[test]
fn a_missing_path_is_named_in_the_error() {
    let refused = find_one(Path::new("/no/such"), Path::new("/hidden")).unwrap_err();
    assert!(refused.to_string().starts_with("cannot make `/no/such` readable"), "{refused}");
}

#[test]
fn a_secret_must_be_named_itself() {
    let directory = tempfile::tempdir().unwrap();
    let secrets = directory.path().canonicalize().unwrap().join("secrets");
    fs::create_dir(&secrets).unwrap();
    for name in ["token", "namespace"] {
        fs::write(secrets.join(name), name).unwrap();
    }
    let rules = PathRules {
        secret: vec![secrets.clone()],
        shown: vec![secrets.join("namespace"), secrets.join("missing")],
        ..PathRules::default()
    };
    let real = |named: &[&Path]| {
        let named: Vec<_> = named.iter().map(|path| path.display().to_string()).collect();
        rules.find(&named).map(|paths| paths.into_iter().map(|path| path.real).collect())
    };
    assert_eq!(real(&[]).unwrap(), [secrets.join("namespace")]);
    let named: Vec<PathBuf> = real(&[&secrets.join("token")]).unwrap();
    assert_eq!(named, [secrets.join("token"), secrets.join("namespace")]);
    for above in [secrets.as_path(), directory.path()] {
        let refused = real(&[above]).unwrap_err();
        assert!(matches!(refused, NotReadable::Closed { .. }), "{refused}");
    }
}

#[test]
fn a_secret_that_nobody_named_may_be_missing() {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    fs::create_dir(top.join("mounted")).unwrap();
    let paths = ["mounted", "gone"].map(|name| top.join(name).display().to_string());
    let rules = PathRules::default();
    let granted = |grants| rules.granted(&grants, None, &PodGroups::default());
    let found = granted(Grants { secrets: paths.to_vec(), ..Grants::default() }).unwrap();
    let found: Vec<_> = found.paths.into_iter().map(|path| path.real).collect();
    assert_eq!(found, [top.join("mounted")]);
    let refused = granted(Grants { read: paths.to_vec(), ..Grants::default() });
    assert!(refused.unwrap_err().is_missing());
}

#[test]
fn files_beside_definitions_are_found_through_the_links_of_a_volume() {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    fs::create_dir(top.join("..1")).unwrap();
    symlink("..1", top.join("..data")).unwrap();
    symlink("a.yaml", top.join("to-definition")).unwrap();
    symlink("/etc/passwd", top.join("to-elsewhere")).unwrap();
    for name in ["a.yaml", "b.json", "generate.sh", "lib"] {
        fs::write(top.join("..1").join(name), "").unwrap();
        symlink(format!("..data/{name}"), top.join(name)).unwrap();
    }
    let rules =
        PathRules { hidden: vec![top.clone()], scripts: vec![top.clone()], ..PathRules::default() };
    let mut found = rules.find(&[]).unwrap();
    found.sort_by(|one, other| one.asked.cmp(&other.asked));
    let found: Vec<_> = found.into_iter().map(|path| (path.asked, path.real)).collect();
    let expected = ["generate.sh", "lib"].map(|name| (top.join(name), top.join("..1").join(name)));
    assert_eq!(found, expected);
}
