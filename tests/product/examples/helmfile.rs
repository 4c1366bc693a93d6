//! The definition for helmfile: the namespaces of releases.

use std::fs;

use super::only;

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
