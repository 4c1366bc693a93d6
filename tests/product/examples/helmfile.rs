//! The definition for helmfile: namespaces, and the names of its files.

use std::fs;

use tempfile::TempDir;

use super::{claims, only};

#[test]
fn releases_without_a_namespace_get_that_of_the_destination() {
    let shop = only("helmfile");
    let Some(helmfile) = shop.examples.first() else { return };
    let _server = shop.serve("none");
    let namespaces = || {
        let rendered = shop.ask(helmfile, &["--namespace", "destination"]);
        let manifests = rendered.manifests();
        let namespaces = manifests.iter().map(|it| it["metadata"]["namespace"].as_str());
        namespaces.map(|it| it.unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(namespaces(), ["destination", "shared"]);
    let file = shop.application(helmfile).join("helmfile.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("namespace: other\n{text}")).unwrap();
    assert_eq!(namespaces(), ["other", "other"]);
}

#[test]
fn helmfiles_are_claimed_if_helmfile_finds_them() {
    let shop = only("helmfile");
    let Some(helmfile) = shop.examples.first() else { return };
    let text = fs::read(shop.application(helmfile).join("helmfile.yaml")).unwrap();
    for name in [
        "helmfile.yaml",
        "helmfile.yaml.gotmpl",
        "helmfile.d/web.yaml",
        "helmfile.d/web.yml.gotmpl",
        "helmfile.yml",
        "helmfile.yml.gotmpl",
        "helmfile.gotmpl",
        "helmfile.yaml.bak",
        "web/helmfile.yaml",
    ] {
        let application = TempDir::with_prefix("cmp-own-").unwrap();
        let file = application.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, &text).unwrap();
        let mut list = shop.command("helmfile");
        let output = list.arg("list").current_dir(application.path()).output().unwrap();
        let is_claimed = claims(application.path()) == ["helmfile"];
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(is_claimed, output.status.success(), "{name}: {stderr}");
    }
}
