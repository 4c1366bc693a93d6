//! Ports that a sidecar could connect to, and that the sandbox closes.

use super::{
    result::migrated,
    strange::{told, with},
};

/// The report if sidecar `a` has these variables and its command these words.
fn report(env: &str, words: &str) -> String {
    let text = with(&[("a", env)]).replace("[cat, a.yaml]", words);
    migrated(&[], &text).report
}

#[test]
fn closed_ports_are_named_with_the_key_that_opens_them() {
    let env = "env: [{name: OP_CONNECT_HOST, value: 'http://op:8080'}, \
               {name: REDIS_HOST, value: 'redis:6379'}]";
    let report = report(env, "[sh, -c, 'x --repo https://me:pw@nexus.corp:8081/y']");
    let expected = "plugin `a`: the sandbox refuses connections to these TCP ports: \
                    6379 (redis in REDIS_HOST), 8080 (op in OP_CONNECT_HOST), \
                    8081 (nexus.corp in its commands): set spec.sandbox.network: \
                    [22, 53, 80, 443, 5000, 8200, 8443, 9418, 6379, 8080, 8081], or \
                    --network=22,53,80,443,5000,8200,8443,9418,6379,8080,8081 for all plugins";
    assert!(report.contains(expected), "{report}");
    assert!(!report.contains("plugin `b`: the sandbox refuses") && !report.contains("pw@"));
}

#[test]
fn ports_of_a_config_map_count_too() {
    let from = "envFrom: [{configMapRef: {name: s}, prefix: P_}]";
    let map = "---\nkind: ConfigMap\nmetadata: {name: s}\ndata: {ADDR: 'vault:8201'}\n";
    let report = migrated(&[], &format!("{}{map}", with(&[("a", from)]))).report;
    assert!(report.contains("TCP ports: 8201 (vault in P_ADDR): set"), "{report}");
}

#[test]
fn open_ports_proxies_and_tags_are_not_reported() {
    let refused = "the sandbox refuses connections";
    let env = "env: [{name: VAULT_ADDR, value: 'http://vault:8200'}, \
               {name: HTTPS_PROXY, value: 'http://proxy:3128'}, {name: NO_PROXY, value: 'a.b:81'}, \
               {name: IMAGE, value: 'tools:1234'}, {name: A_HOST, value: 'localhost:8080'}]";
    let quiet = report(env, "[x, 'quay.io/a/b:1234', '12:30']");
    assert!(!quiet.contains(refused), "{quiet}");
    let own = "[a], args: [http://a:81]}, sandbox: {network: ";
    assert!(report("#", &format!("{own}[443]")).contains("81 (a in its commands)"));
    for network in ["any", "none", "[81]"] {
        let report = report("#", &format!("{own}{network}"));
        assert!(!report.contains(refused), "{report}");
    }
    assert!(!told(&[], &[]).report.contains(refused));
}
