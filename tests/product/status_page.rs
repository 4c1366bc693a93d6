//! The script of the status page.

use std::process::Command;

use crate::{skip::skip, tool};

/// The page, and the function in it that reads metrics.
const PAGE: &str = include_str!("../../src/admin/status.html");
const READER: &str = "function samples(";

#[test]
fn names_with_quotes_and_backslashes_have_their_metrics() {
    let Some(node) = tool::find("node") else { return skip("node is not installed") };
    let script = PAGE.split_once(READER).unwrap().1.split_once("\n}\n").unwrap().0;
    let page = r#"argocd_cmp_requests_in_flight{plugin="a\"b\\nc",method="check"} 3"#;
    let calls = format!(
        "{READER}{script}\n}}\nconst metric = samples({page:?});\n\
         console.log(metric('requests_in_flight', 'plugin', 'a\"b\\\\nc')[0]?.value);"
    );
    assert_eq!(tool::run(Command::new(node).args(["-e", &calls])).trim(), "3");
}
