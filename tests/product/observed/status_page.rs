//! The status page, in a real browser.

use std::{
    fs,
    process::{Command, Output},
};

use crate::{observed::request::Observed, skip::skip};

/// Writes markup, which the page must show as text.
const SCRIPT: &str = "echo '<b id=foreign>unreasonable</b>' >&2; exit 3";

/// Virtual time in which the page loads and shows its tables.
const TIME: &str = "--virtual-time-budget=10000";

/// Runs headless Chromium; `None` if it is missing.
fn chromium(observed: &Observed, arguments: &[&str]) -> Option<Output> {
    let profile = observed.folders.plugins().with_file_name("profile");
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", TIME]);
    command.arg(format!("--user-data-dir={}", profile.display())).args(arguments);
    let Ok(output) = command.arg(format!("http://{}/", observed.server.http)).output() else {
        skip("Chromium: it is in the Debian package chromium");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output)
}

#[test]
fn the_page_shows_plugins_and_requests_and_texts_only_as_text() {
    let plugins = [("good", "echo 'kind: A'"), ("bad", SCRIPT)];
    let observed = Observed::new(&plugins, &["--status-details"]);
    assert!(observed.render("good").status.success());
    assert!(!observed.render("bad").status.success());
    let Some(output) = chromium(&observed, &["--dump-dom"]) else { return };
    let page = String::from_utf8(output.stdout).unwrap();
    for text in [">ready<", ">good<", "serving", "exit_nonzero", "generate shop", "In force: "] {
        assert!(page.contains(text), "{text} is missing: {page}");
    }
    assert!(page.contains("&lt;b id=foreign&gt;") && !page.contains("<b id=foreign>"), "{page}");
    let picture = observed.folders.plugins().with_file_name("page.png");
    chromium(&observed, &[&format!("--screenshot={}", picture.display()), "--window-size=390,900"]);
    assert!(fs::metadata(picture).unwrap().len() > 10_000, "the picture is empty");
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let observed = Observed::new(&[], &[]);
    let (head, body) = observed.server.send("GET /", "", "");
    assert!(head.to_lowercase().contains("content-type: text/html; charset=utf-8"), "{head}");
    let page = String::from_utf8(body).unwrap();
    assert!(page.contains("default-src 'none'"), "the page has no policy");
    for foreign in ["http:", "https:", "//cdn", "src=\"", "innerHTML", "document.write"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}
