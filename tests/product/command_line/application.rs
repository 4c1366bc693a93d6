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
    let place = TempDir::with_prefix("cmp-application-").unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir_all(at("repo/apps/web")).unwrap();
    fs::create_dir(at("plugins")).unwrap();
    fs::write(at("repo/apps/web/marker"), "found").unwrap();
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
