//! The definition for helm: values that the Application sets, and dependencies.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
};

use serde_json::json;
use tempfile::TempDir;

use super::{only, repository, shop::Shop};

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
    let value = r#"values-json[annotations]={"list": "[a,b]"}"#;
    let manifest = &shop.ask(helm, &["--param", value]).manifests()[0];
    assert_eq!(manifest["metadata"]["annotations"]["list"], "[a,b]");
}

#[test]
fn a_value_of_a_chart_cannot_become_an_option() {
    let shop = only("helm");
    let Some(helm) = shop.examples.first() else { return };
    let _server = shop.serve("none");
    let value = "values[annotations.note]=v1\n--namespace=other";
    let manifest = &shop.ask(helm, &["--param", value]).manifests()[0];
    assert_eq!(manifest["metadata"]["namespace"], "default", "{manifest}");
    assert_eq!(manifest["metadata"]["annotations"]["note"], "v1\n--namespace=other");
}

/// Puts a chart into a repository in a directory.
fn publish(shop: &Shop, chart: &Path, repository: &Path) {
    fs::create_dir_all(repository).unwrap();
    let place = repository.to_str().unwrap();
    shop.run("helm", &["package", chart.to_str().unwrap(), "--destination", place]);
    shop.run("helm", &["repo", "index", place]);
}

#[test]
fn a_chart_with_a_lock_gets_each_dependency_from_its_repository() {
    let shop = only("helm");
    let Some(helm) = shop.examples.first() else { return };
    let application = shop.application(helm);
    let charts = TempDir::with_prefix("cmp-charts-").unwrap();
    let common = application.join("common");
    publish(&shop, &common, &charts.path().join("a/b"));
    fs::write(common.join("Chart.yaml"), "{apiVersion: v2, name: other, version: 0.1.0}").unwrap();
    publish(&shop, &common, &charts.path().join("a-b"));
    fs::remove_dir_all(common).unwrap();
    let address = repository::serve(charts.path().to_owned());
    let dependencies = format!(
        "dependencies:\n\
         - {{name: common, version: 0.1.0, repository: {address}/a/b}}\n\
         - {{name: other, version: 0.1.0, repository: {address}/a-b}}\n"
    );
    let _server = shop.serve("none");
    for (version, file, lock) in
        [("v2", "Chart.yaml", "Chart.lock"), ("v1", "requirements.yaml", "requirements.lock")]
    {
        let head = format!("apiVersion: {version}\nname: web\nversion: 0.1.0\n");
        fs::write(application.join("Chart.yaml"), head).unwrap();
        let file = File::options().create(true).append(true).open(application.join(file));
        file.unwrap().write_all(dependencies.as_bytes()).unwrap();
        shop.run("helm", &["dependency", "update", application.to_str().unwrap()]);
        fs::remove_dir_all(application.join("charts")).unwrap();
        assert_eq!(shop.ask(helm, &[]).manifests()[0]["kind"], "Deployment", "{version}");
        fs::remove_file(application.join(lock)).unwrap();
    }
}

#[test]
fn charts_in_the_repository_are_used_unless_they_have_another_version() {
    let shop = only("helm");
    let Some(helm) = shop.examples.first() else { return };
    let application = shop.application(helm);
    let (common, charts) = (application.join("common"), application.join("charts"));
    let file = application.join("Chart.yaml");
    let chart = fs::read_to_string(&file).unwrap();
    // Nothing answers at this address.
    fs::write(&file, chart.replace("file://common", "http://127.0.0.1:9")).unwrap();
    let _server = shop.serve("none");
    publish(&shop, &common, &charts);
    fs::remove_file(charts.join("index.yaml")).unwrap();
    assert_eq!(shop.ask(helm, &[]).manifests()[0]["kind"], "Deployment", "a package");
    fs::remove_file(charts.join("common-0.1.0.tgz")).unwrap();
    fs::rename(&common, charts.join("common")).unwrap();
    assert_eq!(shop.ask(helm, &[]).manifests()[0]["kind"], "Deployment", "a directory");
    let library = charts.join("common/Chart.yaml");
    let other = fs::read_to_string(&library).unwrap().replace("0.1.0", "0.2.0");
    fs::write(&library, other).unwrap();
    let rendered = shop.ask(helm, &[]);
    let error = rendered.error();
    assert!(error.contains("no cached repository"), "{error}");
}

/// Values that `helm --set` reads as something else when written as they are.
const AWKWARD: &str = r#"
awkward:
  absent: null
  backslash: 'a\b'
  brace: "{{ .Release.Name }}"
  comma: "a,b"
  digits: "123"
  fraction: 1.5
  lines: "a\nb\n"
  list: "{a,b}"
  million: 1000000
  nothing: "null"
  sign: "-3"
  truth: "True"
  zero: "0"
  "": x
  "a,b=c[0]\\d.e": x
"#;

#[test]
fn announced_values_change_nothing_when_they_are_saved() {
    let shop = only("helm");
    let Some(helm) = shop.examples.first() else { return };
    let application = shop.application(helm);
    let values = fs::read_to_string(application.join("values.yaml")).unwrap();
    fs::write(application.join("values.yaml"), values + AWKWARD).unwrap();
    let template = "printed: '{{ .Values.awkward.million }}'\n{{ toYaml .Values }}\n";
    fs::write(application.join("templates/values.yaml"), template).unwrap();
    let _server = shop.serve("none");
    let announced = shop.announced(helm);
    let maps = announced.iter().filter(|parameter| parameter["map"].is_object());
    let parameters: Vec<_> =
        maps.map(|it| json!({ "name": it["name"], "map": it["map"] })).collect();
    let json = parameters.iter().find(|it| it["name"] == "values-json").unwrap();
    let names: Vec<_> = json["map"].as_object().unwrap().keys().collect();
    let expected = ["digits", "fraction", "lines", "million", "nothing", "sign", "truth", "zero"];
    assert_eq!(names, expected.map(|name| format!("awkward.{name}")).iter().collect::<Vec<_>>());
    let source = json!({ "plugin": { "name": "helm", "parameters": parameters } });
    let saved =
        json!({"kind": "Application", "metadata": {"name": "helm"}, "spec": {"source": source}});
    let place = TempDir::with_prefix("cmp-saved-").unwrap();
    let file = place.path().join("application.yaml");
    fs::write(&file, saved.to_string()).unwrap();
    let before = shop.ask(helm, &[]);
    let after = shop.ask(helm, &["--application", file.to_str().unwrap()]);
    assert_eq!(after.manifests(), before.manifests());
}

#[test]
fn large_values_are_announced() {
    let shop = only("helm");
    let Some(helm) = shop.examples.first() else { return };
    // One argument of a program can have 128 KiB.
    let large = "x".repeat(200 << 10);
    let file = shop.application(helm).join("values.yaml");
    let values = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{values}large: {large}\n")).unwrap();
    let _server = shop.serve("none");
    let announced = shop.announced(helm);
    let values = announced.iter().find(|parameter| parameter["name"] == "values").unwrap();
    assert_eq!(values["map"]["large"], large);
}
