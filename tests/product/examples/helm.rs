//! The definition for helm: values that the Application sets, and dependencies.

use std::fs;

use tempfile::TempDir;

use super::{only, repository};

#[test]
fn values_of_a_chart_are_announced_and_take_effect() {
    let shop = only("helm");
    let Some(helm) = shop.examples.first() else { return };
    let _server = shop.serve("none");
    let announced = shop.announced(helm);
    let named = |name: &str| announced.iter().find(|parameter| parameter["name"] == name);
    assert_eq!(named("values-files").unwrap()["collectionType"], "array");
    let values = &named("values").unwrap()["map"];
    assert_eq!(values["image.tag"], "1.20");
    assert_eq!(values["replicas"], "2");
    assert_eq!(values["annotations.example\\.com/team"], "shop");
    let manifest = &shop.ask(helm, &["--param", "values[replicas]=7"]).manifests()[0];
    assert_eq!(manifest["spec"]["replicas"], 7);
    let image = &manifest["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "registry.example/web:1.20");
}

#[test]
fn a_value_of_a_chart_cannot_become_an_option() {
    let shop = only("helm");
    let Some(helm) = shop.examples.first() else { return };
    let _server = shop.serve("none");
    let value = "values[image.tag]=v1\n--namespace=other";
    let manifest = &shop.ask(helm, &["--param", value]).manifests()[0];
    assert_eq!(manifest["metadata"]["namespace"], "default", "{manifest}");
}

#[test]
fn a_chart_with_a_lock_gets_its_dependencies_from_their_repository() {
    let shop = only("helm");
    let Some(helm) = shop.examples.first() else { return };
    let application = shop.application(helm);
    let charts = TempDir::with_prefix("cmp-charts-").unwrap();
    let (common, place) = (application.join("common"), charts.path().to_str().unwrap());
    shop.run("helm", &["package", common.to_str().unwrap(), "--destination", place]);
    shop.run("helm", &["repo", "index", place]);
    fs::remove_dir_all(common).unwrap();
    let address = repository::serve(charts.path().to_owned());
    let file = application.join("Chart.yaml");
    let chart = fs::read_to_string(&file).unwrap();
    fs::write(&file, chart.replace("file://common", &address)).unwrap();
    shop.run("helm", &["dependency", "update", application.to_str().unwrap()]);
    fs::remove_dir_all(application.join("charts")).unwrap();
    assert!(application.join("Chart.lock").exists());
    let _server = shop.serve("none");
    assert_eq!(shop.ask(helm, &[]).manifests()[0]["kind"], "Deployment");
}
