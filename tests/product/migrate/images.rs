//! Programs of several images, and the directories in which commands look for them.

use std::fs;

use super::{
    result::{Migrated, fixture, migrated, refused},
    strange::{TWO, with},
};

/// Two plugins of which the second one has another image.
fn other_image(lines: &[(&str, &str)], arguments: &[&str]) -> Migrated {
    let own = "- name: b\n          image: ";
    migrated(arguments, &with(lines).replacen(&format!("{own}tools"), &format!("{own}other"), 1))
}

/// The script that sets variables before the commands of a plugin.
fn script(result: &Migrated, definition: &str) -> String {
    let command = &result.definition(definition)["spec"]["generate"]["command"];
    command[2].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_path_of_its_own_does_not_hide_copied_programs() {
    let env = |path: &str| format!("env: [{{name: PATH, value: {path}}}]");
    let lines = [("a", env("/a/bin:/bin")), ("b", env("/b/bin:/bin"))];
    let lines = lines.each_ref().map(|(place, line)| (*place, line.as_str()));
    let result = other_image(&lines, &[]);
    assert_eq!(script(&result, "a.yaml"), "export PATH=\"$A_PATH\"; exec \"$@\"");
    assert_eq!(script(&result, "b.yaml"), "export PATH=\"/cmp-tools/other:$B_PATH\"; exec \"$@\"");
    let mounted = script(&other_image(&lines, &["--tools", "image-volume"]), "b.yaml");
    let begin = "export PATH=\"/cmp-tools/other/usr/local/sbin:";
    assert!(mounted.starts_with(begin) && mounted.contains("/bin:$B_PATH\""), "{mounted}");
}

#[test]
fn programs_that_commands_name_by_their_paths_are_reported() {
    let mount = "- {name: keys, mountPath: /opt/keys}";
    let secret = "- {name: keys, secret: {secretName: k}}";
    let text = with(&[("b-mounts", mount), ("volumes", secret)]);
    let own = "- name: b\n          image: ";
    let text = text.replacen(&format!("{own}tools"), &format!("{own}other"), 1);
    let report = |command: &str, arguments: &[&str]| {
        migrated(arguments, &text.replace("[cat, b.yaml]", command)).report
    };
    let told = "plugin `b`: its commands name programs of other by their paths, where the \
                sidecar's image can lack them: ";
    for (command, paths) in [
        ("[/usr/local/bin/run.sh]", "/usr/local/bin/run.sh"),
        ("[/opt/tool/run, /x/values.yaml]", "/opt/tool/run"),
        (
            "[/bin/sh, -c, 'cd /x; /usr/bin/env A=b /opt/y/bin/z \"$(/usr/bin/x)\"']",
            "/opt/y/bin/z, /usr/bin/x",
        ),
        (
            "[sh, -c, 'A=b;/o/bin/a&&/o/bin/b|\"/o/bin/c\" x=/o/bin/d `/o/bin/e`']",
            "/o/bin/a, /o/bin/b, /o/bin/c, /o/bin/d, /o/bin/e",
        ),
        ("[python3, -c, 'run([\"/o/bin/f\"])']", "/o/bin/f"),
    ] {
        let expected = format!("{told}{paths}: name them without");
        let report = report(command, &[]);
        assert!(report.contains(&expected), "no {expected} in {report}");
    }
    let mounted = report("[/opt/x]", &["--tools", "image-volume"]);
    assert!(mounted.contains("/opt/x: write /cmp-tools/other before them"), "{mounted}");
    for command in [
        "[/usr/bin/env, helm]",
        "[/opt/keys/run]",
        "[helm, '${X}/bin/y', 'https://h/bin/x']",
        "[sh, -c, '\"$HOME\"/bin/x; ~/bin/x; \"${X}\"/bin/x']",
        "[sh, -c, '$(git rev-parse --show-toplevel)/bin/render']",
        "[sh, -c, 'export PATH=/opt/bin/:$PATH; PATH=/opt/x/bin/ y']",
    ] {
        let report = report(command, &[]);
        assert!(!report.contains("by their paths"), "{report}");
    }
}

#[test]
fn a_sidecar_without_an_image_is_refused_if_nothing_gives_it_one() {
    let own = "      - name: ksops\n";
    let operator = fs::read_to_string(fixture("operator.yaml")).unwrap();
    let with_image = |image: &str| operator.replacen(own, &format!("{own}        {image}\n"), 1);
    let native = ["--sidecar", "native"];
    let error = refused(&operator, &native);
    let expected = "error: ArgoCD openshift-gitops: container `ksops` has no `image`, and the \
                    operator gives one only to ordinary sidecars: add `image` to it, or use \
                    --sidecar ordinary";
    assert!(error.contains(expected), "{error}");
    let result = migrated(&native, &with_image("image: example/ksops:1"));
    assert_eq!(result.sidecar()["image"], "example/ksops:1");
    let text = TWO.replacen("- name: b\n          image: tools", "- name: b", 1);
    for tools in ["init-container", "image-volume"] {
        let error = refused(&text, &["--tools", tools]);
        let expected = "error: StatefulSet repo: container `b` has no `image`, and the result must \
                        name the image that its programs come from: add `image` to it";
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_shell_that_an_image_may_lack_is_reported() {
    let copied = other_image(&[], &[]).report;
    for expected in [
        "The init container needs `sh`, `mkdir` and `cp` in other, which an image from scratch",
        "plugin `b`: `sh` sets variables before its commands, which fail if tools has no `sh`",
    ] {
        let (_, checks) = copied.split_once("To check:").unwrap();
        assert!(checks.contains(expected), "no {expected} in {copied}");
    }
    let mounted = other_image(&[], &["--tools", "image-volume"]).report;
    assert!(!mounted.contains("The init container needs"), "{mounted}");
    let text = TWO.replacen("[cat, a.yaml]", "[sh, -c, cat a.yaml]", 1);
    let own = "- name: b\n          image: ";
    let text = text.replacen(&format!("{own}tools"), &format!("{own}other"), 1);
    assert!(!migrated(&[], &text).report.contains("`sh` sets variables"), "{text}");
    assert!(!migrated(&[], TWO).report.contains("`sh`"));
}

#[test]
fn base_programs_that_a_new_image_may_lack_are_reported() {
    let report = |command: &str, first: &str, arguments: &[&str]| {
        let text = with(&[]).replacen("[cat, b.yaml]", command, 1);
        let text = text.replacen("[cat, a.yaml]", first, 1);
        let own = "- name: b\n          image: ";
        migrated(arguments, &text.replacen(&format!("{own}tools"), &format!("{own}other"), 1))
            .report
    };
    let checks = |report: String| report.split_once("To check:").unwrap().1.to_owned();
    let command = "[bash, -c, 'helm template . | sed -z s/x/y/; echo x | base64 -d']";
    let copied = checks(report(command, "[cat, a.yaml]", &[]));
    for expected in [
        "plugin `b`: its commands use bash, which is not copied out of other, and tools can lack it: \
         put it into that image",
        "commands that had another image use these programs of tools now: base64, sed: those of \
         Alpine (busybox) lack options",
    ] {
        assert!(copied.contains(expected), "no {expected} in {copied}");
    }
    let mounted = checks(report(command, "[cat, a.yaml]", &["--tools", "image-volume"]));
    let expected = "plugin `b`: PATH has these programs of other before those of tools: base64, bash, \
                    sed: they run only if tools has the libraries";
    assert!(mounted.contains(expected) && !mounted.contains("busybox"), "{mounted}");
    let known = report(command, "[/bin/bash, -c, x]", &[]);
    assert!(!known.contains("use bash"), "{known}");
    for arguments in [&[][..], &["--tools", "image-volume"]] {
        let none = report("[helm, template]", command, arguments);
        assert!(!none.contains("bash") && !none.contains("these programs of"), "{none}");
    }
}
