//! The start of sidecars: scripts, entrypoints and flags.

use serde_json::json;

use super::{
    result::migrated,
    strange::{TWO, told, with},
};

#[test]
fn credentials_in_the_start_of_a_sidecar_are_not_told() {
    for (command, told) in [
        ("[/entry.sh, --token, hunter22]", "instead of /entry.sh --token ***: "),
        (
            "[/entry.sh, --otlp-headers, authorization=Bearer hunter22]",
            "instead of /entry.sh --otlp-headers ***: ",
        ),
        (
            "[sh, -c, 'export A_PASSWORD=hunter22; exec argocd-cmp-server']",
            "definition: export A_PASSWORD=***; exec argocd-cmp-server",
        ),
    ] {
        let text = TWO.replacen("[/var/run/argocd/argocd-cmp-server]", command, 1);
        let report = migrated(&[], &text).report;
        assert!(report.contains(told) && !report.contains("hunter22"), "{report}");
    }
}

#[test]
fn a_command_of_a_sidecar_does_not_control_the_terminal() {
    let text = TWO.replacen("[/var/run/argocd/argocd-cmp-server]", "[\"/entry\\e[31m.sh\"]", 1);
    let report = migrated(&[], &text).report;
    assert!(report.contains("instead of /entry\u{fffd}[31m.sh: "), "{report}");
}

#[test]
fn an_entrypoint_that_is_not_visible_is_named() {
    for command in [
        "/entry.sh, now",
        "env, A=b, argocd-cmp-server",
        "sh, -c, '. /x; exec \"$@\"', sh, argocd-cmp-server",
    ] {
        let start = format!("[{command}]");
        let text = TWO.replacen("[/var/run/argocd/argocd-cmp-server]", &start, 1);
        let report = migrated(&[], &text).report;
        let words = command.replace([',', '\''], "");
        let told = format!("plugin `a`: cmp-supervisor is started instead of {words}: ");
        assert!(report.contains(&told), "no {told} in {report}");
        assert!(!report.contains("plugin `b`: cmp-supervisor is started"), "{report}");
    }
}

#[test]
fn flags_in_a_script_count() {
    let script = "[sh, -c, exec /var/run/argocd/argocd-cmp-server --loglevel debug]";
    let text = TWO.replacen("[/var/run/argocd/argocd-cmp-server]", script, 1);
    let result = migrated(&[], &text);
    assert_eq!(
        result.sidecar()["args"],
        json!(["serve", "--log-level=debug", "--plugins-dir=/cmp-plugins", "--isolation=uid"])
    );
    assert!(!result.report.contains("runs a script"), "{}", result.report);
    let more = script.replace("exec", "cp /a /b &&");
    let report = migrated(
        &[],
        &text.replacen(script, &format!("[sh, -c, \"{}]", &more[9..].replace(']', "\"")), 1),
    )
    .report;
    assert!(report.contains("plugin `a`: its sidecar runs a script"), "{report}");
}

#[test]
fn settings_of_the_log_are_resolved_or_reported() {
    let told = |flag: &str, variable: &str, expected: &[&str]| {
        told(&[("a", &format!("args: [{flag}]\n          env: [{variable}]"))], expected)
    };
    let result = told("--loglevel=$(LEVEL)", "{name: LEVEL, value: Debug}", &[]);
    assert_eq!(result.sidecar()["args"][1], "--log-level=debug");
    assert!(!result.report.contains("was removed"), "{}", result.report);
    let from = "{name: LEVEL, valueFrom: {configMapKeyRef: {name: c, key: level}}}";
    told(
        "--loglevel=$(LEVEL)",
        from,
        &["plugin `a`: --loglevel $(LEVEL) was removed: set --log-level for `cmp-supervisor`"],
    );
    told(
        "--loglevel=info",
        &from.replace("LEVEL", "ARGOCD_CMP_SERVER_LOGFORMAT"),
        &["plugin `a`: ARGOCD_CMP_SERVER_LOGFORMAT was removed: set --log-format for"],
    );
}

#[test]
fn a_quoted_flag_in_a_script_counts() {
    let start = "args: [sh, -c, 'exec argocd-cmp-server --loglevel \"debug\"']";
    let result = told(&[("a", start)], &[]);
    assert_eq!(
        result.sidecar()["args"],
        json!(["serve", "--log-level=debug", "--plugins-dir=/cmp-plugins", "--isolation=uid"])
    );
}

#[test]
fn arguments_without_a_command_are_those_of_the_entrypoint() {
    let report = |start: &str| {
        let own = "command: [/var/run/argocd/argocd-cmp-server]";
        migrated(&[], &TWO.replacen(own, start, 1)).report
    };
    let told = report("args: [/var/run/argocd/argocd-cmp-server]");
    let expected = "plugin `a`: cmp-supervisor is started instead of the image's entrypoint with \
                    /var/run/argocd/argocd-cmp-server: if";
    assert!(told.contains(expected), "{told}");
    for start in [
        "command: [bash, --norc, -c, exec argocd-cmp-server]",
        "command: [tini, --, argocd-cmp-server]",
        "command: [/usr/bin/tini, -g, -p, SIGTERM, --, /x/argocd-cmp-server]",
        "command: [/usr/bin/dumb-init, sh, -c, exec argocd-cmp-server]",
        "command: [tini, --]\n          args: [argocd-cmp-server]",
        "command: [tini, -p, SIGTERM, argocd-cmp-server]",
        "command: [bash, -Eec, exec argocd-cmp-server]",
    ] {
        let told = report(start);
        assert!(!told.contains("cmp-supervisor is started instead of"), "{start}: {told}");
    }
    for start in [
        "tini, --, env, A=b, argocd-cmp-server",
        "tini, --, /entry.sh, argocd-cmp-server",
        "tini, doppler, run, --, argocd-cmp-server",
    ] {
        let told = report(&format!("command: [{start}]"));
        assert!(told.contains("cmp-supervisor is started instead of tini"), "{start}: {told}");
    }
}

#[test]
fn every_flag_for_traces_is_reported() {
    for (flag, value) in [
        ("address", "collector:4317"),
        ("attrs", "a:b"),
        ("headers", "x-honeycomb-team=hunter22"),
        ("sample-ratio", "0.1"),
    ] {
        let removed = format!("plugin `a`: --otlp-{flag} was removed: give it to cmp-supervisor");
        for form in ["=", ", "] {
            let result =
                told(&[("a", &format!("args: [--otlp-{flag}{form}\"{value}\"]"))], &[&removed]);
            assert!(!result.report.contains("hunter22"), "{}", result.report);
        }
    }
}

/// The collector is often set with a variable, which stays.
#[test]
fn traces_that_would_lose_their_encryption_are_reported() {
    let removed = "plugin `a`: --otlp-insecure=false was removed: give it to cmp-supervisor, \
                   which otherwise sends traces of all plugins without TLS";
    told(&[("a", "args: [--otlp-insecure=false]")], &[removed]);
    for usual in ["--otlp-insecure", "--otlp-insecure=true", "--otlp-insecure, --loglevel=info"] {
        let report = told(&[("a", &format!("args: [{usual}]"))], &[]).report;
        assert!(!report.contains("--otlp-insecure"), "{report}");
    }
}

#[test]
fn programs_beside_the_sockets_are_named() {
    let tool = "/home/argocd/cmp-server/plugins/tk";
    let env = "env: [{name: PATH, value: '/home/argocd/cmp-server/plugins:/bin'}]";
    let text = with(&[("a", env)]).replace("[cat, a.yaml]", &format!("[sh, -c, '{tool} show']"));
    let report = migrated(&[], &text).report;
    let expected = format!(
        "plugin `a`: no plugin may read /home/argocd/cmp-server/plugins, the directory of the \
         sockets, and its commands or variables name files there: {tool}, PATH: put them"
    );
    assert!(report.contains(&expected), "{report}");
    assert!(!report.contains("plugin `b`: no plugin may read"), "{report}");
}
