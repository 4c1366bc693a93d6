//! `migrate --check`: results before and after. The program itself takes the place
//! of argocd-cmp-server here; tests/interop compares the two.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use super::result::program;
use crate::{
    skip::skip,
    spawned::{all_children, has_ended},
    waiting::eventually,
};

/// An application, manifests with one sidecar, and a server.
struct Place(TempDir);

impl Place {
    /// `script` is the command of generate.
    fn new(script: &str) -> Self {
        let place = Self(TempDir::with_prefix("cmp-check-").unwrap());
        fs::create_dir(place.path("app")).unwrap();
        fs::write(place.path("app/here.yaml"), "kind: Here\n").unwrap();
        symlink(program().get_program(), place.path("linked")).unwrap();
        // As root it switches to another UID, which argocd-cmp-server never does.
        let open = "d=$ARGOCD_PLUGINSOCKFILEPATH/..; chmod a+rX \"$d\" \"$d/config\" && chmod 1777 \"$d\"/[sw]*";
        let server =
            format!("#!/bin/sh\n{open} && exec {} \"$@\"\n", place.path("linked").display());
        fs::write(place.path("argocd-cmp-server"), server).unwrap();
        let executable = Permissions::from_mode(0o755);
        fs::set_permissions(place.path("argocd-cmp-server"), executable).unwrap();
        let manifests = format!(
            "kind: Pod
metadata: {{name: repo-server}}
spec:
  containers:
    - name: tool
      command: [argocd-cmp-server]
      env: [{{name: GREETING, value: hello}}]
      volumeMounts:
        - {{name: tool, mountPath: /home/argocd/cmp-server/config}}
  volumes:
    - {{name: tool, configMap: {{name: tool}}}}
---
kind: ConfigMap
metadata: {{name: tool}}
data:
  plugin.yaml: |
    apiVersion: argoproj.io/v1alpha1
    kind: ConfigManagementPlugin
    metadata: {{name: tool}}
    spec:
      generate: {{command: [sh, -c, '{script}']}}
"
        );
        fs::write(place.path("pod.yaml"), manifests).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Exit code, standard output and standard error.
    fn check(&self, more: &[&str]) -> (i32, String, String) {
        self.check_with(more, &[])
    }

    fn check_with(&self, more: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
        let [pod, app, server] =
            ["pod.yaml", "app", "argocd-cmp-server"].map(|name| self.path(name));
        let mut migrate = program();
        migrate.arg("migrate").arg(pod).arg("--check").arg(app).arg("--check-server").arg(server);
        migrate.args(more).envs(variables.iter().copied());
        let output = migrate.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// A check by a server that never answers, once it has started a command and noted its
    /// process ID. With `-m`, bash does it in a process group of its own.
    fn check_slowly(&self, before: &[&str]) -> Child {
        let [noted, new] = ["pid", "new"].map(|name| self.path(name).display().to_string());
        let server = format!(
            "#!/usr/bin/env bash\n\
             set -m; sleep 600 & set +m; echo $! > {new}; mv {new} {noted}; wait\n"
        );
        fs::write(self.path("argocd-cmp-server"), server).unwrap();
        // Test runners may ignore the signal, as nohup does.
        let mut migrate = Command::new("env");
        migrate.arg("--default-signal=TERM").args(before).arg(program().get_program());
        migrate.arg("migrate").arg(self.path("pod.yaml")).arg("--check").arg(self.path("app"));
        migrate.arg("--check-server").arg(self.path("argocd-cmp-server"));
        let migrate = migrate.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        eventually("the command", || self.path("pid").exists());
        migrate
    }
}

#[test]
fn equal_results_are_a_success() {
    let place = Place::new("cat here.yaml; echo \"greeting: ${GREETING:?}\"");
    let (code, stdout, stderr) = place.check(&[]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("name: cmp-supervisor"), "{stdout}");
    assert!(stderr.contains("same result of tool"), "{stderr}");
}

#[test]
fn a_different_result_is_shown() {
    let place = Place::new("echo \"id: $(cat /proc/sys/kernel/random/uuid)\"");
    let (code, stdout, stderr) = place.check(&[]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stdout.contains("name: cmp-supervisor"), "{stdout}");
    assert!(stderr.contains("--- argocd-cmp-server\n+++ cmp-supervisor\n"), "{stderr}");
    assert!(stderr.contains("not the same after the migration: tool"), "{stderr}");
}

#[test]
fn an_unknown_plugin_and_a_missing_server_are_named() {
    let place = Place::new("cat here.yaml");
    let (code, _, stderr) = place.check(&["--check-plugin", "other"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("no plugin `other`: available plugins: tool"), "{stderr}");
    fs::remove_file(place.path("argocd-cmp-server")).unwrap();
    let (code, _, stderr) = place.check(&[]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("--check-server"), "{stderr}");
}

#[test]
fn a_result_that_cannot_be_written_is_not_compared() {
    let place = Place::new("cat here.yaml");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut migrate = program();
    migrate.arg("migrate").arg(place.path("pod.yaml")).arg("--check").arg(place.path("app"));
    migrate.arg("--check-server").arg(place.path("none")).stdout(full);
    let output = migrate.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("error: cannot print the result: "), "{stderr}");
    assert!(!stderr.contains("cannot start"), "{stderr}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_plugin_whose_discovery_fails_is_left_out() {
    let place = Place::new("cat here.yaml");
    let pod = fs::read_to_string(place.path("pod.yaml")).unwrap();
    let (pod, map) = pod.split_once("---\n").unwrap();
    let (containers, volume) = pod.split_once("  volumes:\n").unwrap();
    let (_, container) = containers.split_once("  containers:\n").unwrap();
    let other = |text: &str| text.replace("tool", "other");
    let rule = |command| format!("      discover: {{find: {{command: [{command}]}}}}\n");
    let both = [
        containers,
        &*other(container),
        "  volumes:\n",
        volume,
        &other(volume),
        "---\n",
        map,
        &rule("echo, x"),
        "---\n",
        &other(map),
        &rule("'false'"),
    ];
    fs::write(place.path("pod.yaml"), both.concat()).unwrap();
    let (code, _, stderr) = place.check(&[]);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("left out other cannot tell if it claims the application: "),
        "{stderr}"
    );
    assert!(stderr.contains("same result of tool"), "{stderr}");
}

/// argocd-cmp-server starts each command in a process group of its own.
#[test]
fn a_signal_ends_the_command_of_argocd_cmp_server_too() {
    if Command::new("bash").args(["-c", ":"]).status().is_err() {
        return skip("needs bash");
    }
    let place = Place::new("cat here.yaml");
    let mut migrate = place.check_slowly(&[]);
    end(migrate.id(), &mut migrate);
    let command = fs::read_to_string(place.path("pid")).unwrap();
    eventually("its end", || has_ended(&command));
}

/// As `nsenter` does, with a session that the kernel reports as 0.
#[test]
fn a_signal_ends_a_check_in_a_namespace_without_a_session() {
    let namespace = ["unshare", "--pid", "--fork", "--mount-proc"];
    if !Command::new(namespace[0]).args(&namespace[1..]).arg("true").status().unwrap().success() {
        return skip("needs a PID namespace");
    }
    let place = Place::new("cat here.yaml");
    let mut migrate = place.check_slowly(&namespace);
    let [first] = all_children(migrate.id().try_into().unwrap())[..] else { panic!("no child") };
    end(first.try_into().unwrap(), &mut migrate);
}

#[track_caller]
fn end(pid: u32, migrate: &mut Child) {
    assert!(Command::new("kill").arg(pid.to_string()).status().unwrap().success());
    assert_eq!(migrate.wait().unwrap().code(), Some(143));
}

#[test]
fn a_plugin_that_takes_too_long_is_reported_with_the_variable_that_gives_it_more_time() {
    let place = Place::new("sleep 60");
    let (code, _, stderr) = place.check_with(&[], &[("CMP_SUPERVISOR_TIMEOUT", "1s")]);
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("raise CMP_SUPERVISOR_TIMEOUT"), "{stderr}");
    assert!(!stderr.contains("--timeout"), "{stderr}");
}
