//! Pages about requests, and their compression.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::observed::request::Observed;

const SCRIPT: &str = "echo unreasonable >&2; exit 3";

fn requests(observed: &Observed) -> Value {
    let (status, body) = observed.server.ask("GET", "/requests");
    assert_eq!(status, 200);
    serde_json::from_str(&body).unwrap()
}

#[test]
fn the_last_requests_are_listed_with_their_phases() {
    let observed = Observed::new(&[("good", "echo 'kind: A'"), ("bad", SCRIPT)], &[]);
    assert_eq!(requests(&observed)["requests"].as_array().map(Vec::len), Some(0));
    assert!(observed.render("good").status.success());
    assert!(!observed.render("bad").status.success());
    let listing = requests(&observed);
    let all = listing["requests"].as_array().unwrap();
    let [bad, good] = all.as_slice() else { panic!("{listing:#}") };
    assert_eq!((&good["plugin"], &good["outcome"]), (&"good".into(), &"ok".into()));
    let phases = good["phases"].as_array().unwrap().iter();
    let phases: Vec<_> = phases.map(|phase| phase["phase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["open", "queue", "receive", "generate", "split"]);
    assert_eq!((&bad["grpcCode"], &bad["outcome"]), (&"Unknown".into(), &"exit_nonzero".into()));
    assert!(bad["error"].is_null() && bad["application"].is_null(), "{bad}");
}

#[test]
fn names_and_errors_are_listed_only_if_the_operator_allows_it() {
    let observed = Observed::new(&[("bad", SCRIPT)], &["--status-details"]);
    observed.render("bad");
    let listing = requests(&observed);
    let bad = &listing["requests"][0];
    assert!(bad["error"].as_str().unwrap().contains("unreasonable"), "{bad}");
    assert!(bad["application"].is_string() && listing["details"] == true, "{bad}");
}

#[test]
fn pages_are_compressed_for_clients_that_take_it() {
    let observed = Observed::new(&[("good", "echo 'kind: A'")], &[]);
    let (head, body) = observed.server.send("GET /metrics", "Accept-Encoding: gzip\r\n", "");
    assert!(head.to_lowercase().contains("content-encoding: gzip"), "{head}");
    let mut page = String::new();
    GzDecoder::new(body.as_slice()).read_to_string(&mut page).unwrap();
    assert!(page.contains("argocd_cmp_build_info{") && page.len() > 4 * body.len());
    let (head, body) = observed.server.send("GET /metrics", "", "");
    assert!(!head.to_lowercase().contains("content-encoding") && body.len() > page.len() / 2);
}
