//! `render -f`: the fields of an Argo CD Application reach the plugin.

use std::{
    fs,
    io::Write,
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

/// Prints what it is given as one manifest.
const PLUGIN: &str = r#"
apiVersion: argoproj.io/v1alpha1
kind: ConfigManagementPlugin
metadata: {name: echo}
spec:
  generate:
    command: [sh, -c]
    args:
      - |
        for name in ARGOCD_APP_NAME ARGOCD_APP_NAMESPACE ARGOCD_APP_PROJECT_NAME ARGOCD_APP_REVISION_SHORT \
          ARGOCD_APP_SOURCE_REPO_URL ARGOCD_APP_SOURCE_PATH ARGOCD_APP_SOURCE_TARGET_REVISION KUBE_VERSION \
          KUBE_API_VERSIONS ARGOCD_ENV_GREETING PARAM_LIST_1 PARAM_FLAG; do
          eval "printf '%s: \"%s\"\n' $name \"\$$name\""
        done
        echo "here: \"$(cat marker)\""
"#;

const APPLICATION: &str = "
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: web, namespace: team}
spec:
  project: shop
  destination: {namespace: prod}
  source:
    repoURL: https://git.example/a.git
    targetRevision: main
    path: apps/web
    plugin:
      name: echo
      env: [{name: GREETING, value: hello $ARGOCD_APP_NAME}]
      parameters: [{name: list, array: [a, b]}]
";

fn render(arguments: &[&str], application: &str) -> Output {
    render_with(&[], arguments, application)
}

/// Renders with these names and texts of files in the application's directory.
fn render_with(files: &[(&str, &str)], arguments: &[&str], application: &str) -> Output {
    let place = TempDir::with_prefix("cmp-application-").unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir_all(at("repo/apps/web")).unwrap();
    fs::create_dir(at("plugins")).unwrap();
    fs::write(at("repo/apps/web/marker"), "found").unwrap();
    for (name, text) in files {
        fs::write(at("repo/apps/web").join(name), text).unwrap();
    }
    fs::write(at("plugins/echo.yaml"), PLUGIN).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.args(["render", "-f", "-", "--isolation", "none", "--plugins-dir"]);
    command.arg(at("plugins")).args(arguments).current_dir(at("repo"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(application.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn an_application_is_rendered_as_argo_cd_would_ask_for_it() {
    let flags = ["--kube-version", "1.34", "--revision", "0123456789", "--param", "flag=x"];
    let output = render(&[&flags[..], &["--project", "own"]].concat(), APPLICATION);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let manifest = String::from_utf8(output.stdout).unwrap();
    for (name, value) in [
        ("ARGOCD_APP_NAME", "team_web"),
        ("ARGOCD_APP_NAMESPACE", "prod"),
        ("ARGOCD_APP_PROJECT_NAME", "own"),
        ("ARGOCD_APP_REVISION_SHORT", "\"0123456\""),
        ("ARGOCD_APP_SOURCE_REPO_URL", "https://git.example/a.git"),
        ("ARGOCD_APP_SOURCE_PATH", "apps/web"),
        ("ARGOCD_APP_SOURCE_TARGET_REVISION", "main"),
        ("KUBE_VERSION", "\"1.34\""),
        ("ARGOCD_ENV_GREETING", "hello team_web"),
        ("PARAM_LIST_1", "b"),
        ("PARAM_FLAG", "x"),
        ("here", "found"),
    ] {
        assert!(manifest.contains(&format!("{name}: {value}\n")), "{name}: {value}: {manifest}");
    }
}

#[test]
fn overrides_in_the_repository_win_over_the_application_and_flags_win_over_both() {
    let files = [
        (".argocd-source.yaml", "plugin: {env: [{value: $ARGOCD_APP_PROJECT_NAME}]}"),
        (".argocd-source-team_web.yaml", "plugin: {parameters: [{name: list, array: [c, d]}]}"),
        (".argocd-source-web.yaml", "plugin: {name: of-another-namespace}"),
    ];
    let manifest = |arguments: &[&str]| {
        let output = render_with(&files, arguments, APPLICATION);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let merged = manifest(&[]);
    assert!(merged.contains("ARGOCD_ENV_GREETING: shop\n"), "{merged}");
    assert!(merged.contains("PARAM_LIST_1: d\n"), "{merged}");
    let flagged = manifest(&["--env", "GREETING=flag"]);
    assert!(flagged.contains("ARGOCD_ENV_GREETING: flag\n"), "{flagged}");
}

#[test]
fn the_plugin_sees_only_the_numbers_of_a_clusters_version() {
    let output = render(&["--kube-version", "v1.34.2-eks-1"], APPLICATION);
    let manifest = String::from_utf8(output.stdout).unwrap();
    assert!(manifest.contains("KUBE_VERSION: 1.34.2\n"), "{manifest}");
    let output = render(&["--kube-version", "latest"], APPLICATION);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("expected at least two numbers, for example 1.34"), "{stderr}");
}

#[test]
fn an_application_that_cannot_be_rendered_names_the_file_and_the_reason() {
    let without_path = APPLICATION.replace("path: apps/web", "chart: web");
    let elsewhere = APPLICATION.replace("apps/web", "apps/none");
    for (application, reason) in [
        ("kind: Pod", "error: -: it has no object of kind Application"),
        (
            &without_path,
            "error: -: the source of the Application has no path: add the directory as APP_DIR",
        ),
        (&elsewhere, "apps/none: No such file or directory"),
        ("a: [", "error: -: "),
    ] {
        let output = render(&[], application);
        assert_eq!(output.status.code(), Some(1), "{application}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(reason), "{stderr}");
    }
}
