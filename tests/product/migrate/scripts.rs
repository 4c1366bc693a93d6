//! Fixed paths in /tmp of scripts that commands start.

use super::result::migrated;
use super::strange::{TWO, with};

const REMEDY: &str = "use $TMPDIR, or migrate with --profile namespaces, in which each command has \
                      its own /tmp";

/// The manifests with another program, and with a script in the ConfigMap of the definitions.
fn input(program: &str, script: &str) -> String {
    let config = "/home/argocd/cmp-server/config/plugin.yaml, subPath: a.yaml}";
    let mount = "- {name: definitions, mountPath: /usr/local/bin/run.sh, subPath: run.sh}";
    let text = with(&[("a-mounts", mount)]).replacen("[cat, a.yaml]", program, 1);
    assert!(text.contains(config));
    format!("{text}  run.sh: |\n    #!/bin/sh\n    {script}\n")
}

#[test]
fn a_script_of_a_config_map_is_read() {
    for program in ["[run.sh, x]", "[/usr/local/bin/run.sh]", "[sh, -c, 'set -e; run.sh']"] {
        let report = migrated(&[], &input(program, "mkdir /tmp/work")).report;
        let told = format!(
            "plugin `a`: /usr/local/bin/run.sh has the fixed path /tmp/work in line 2, to which \
             requests may not write: {REMEDY}\n"
        );
        assert!(report.contains(&told), "{program}: {report}");
        assert!(!report.contains("commands start"), "{report}");
    }
    let report = migrated(&[], &input("[run.sh]", "mkdir \"$TMPDIR/work\"")).report;
    assert!(!report.contains("$TMPDIR"), "{report}");
    let private = ["--profile", "namespaces"];
    let report = migrated(&private, &input("[run.sh]", "mkdir /tmp/work")).report;
    assert!(!report.contains("$TMPDIR"), "{report}");
}

#[test]
fn programs_that_are_not_in_the_input_are_named_once() {
    let text = TWO.replacen("[cat, a.yaml]", "[bash, -c, '/opt/x.py | helm template .']", 1);
    let text = text.replacen("[cat, b.yaml]", "[render, b.yaml]", 1);
    let told = format!(
        "commands start `/opt/x.py`, `render`, and the input does not show what that writes: \
         requests may not write to fixed paths in /tmp, such as /tmp/work: {REMEDY}\n"
    );
    let report = migrated(&["--profile", "restricted"], &text).report;
    assert!(report.contains(&told), "{report}");
    let report = migrated(&["--profile", "namespaces"], &text).report;
    assert!(!report.contains("commands start"), "{report}");
    let report = migrated(&[], TWO).report;
    assert!(!report.contains("commands start"), "{report}");
}
