//! The status page, in a real browser.

use std::{fs, path::Path};

use serde_json::json;

use crate::observed::{browser::Browser, request::Observed};

/// Writes markup, which the page must show as text.
const SCRIPT: &str = "echo '<b id=foreign>unreasonable</b>' >&2; exit 3";

/// Sizes of a phone and of a screen.
const SIZES: [(u32, u32); 2] = [(390, 900), (1280, 1000)];

#[test]
fn the_page_shows_plugins_and_requests_and_texts_only_as_text() {
    let plugins = [("good", "echo 'kind: A'"), ("bad", SCRIPT)];
    let observed = Observed::new(&plugins, &["--status-details"]);
    assert!(observed.render("good").status.success());
    assert!(!observed.render("bad").status.success());
    let Some(mut browser) = Browser::at(&observed) else { return };
    browser.waits_for("document.querySelectorAll('#requests pre').length === 1");
    let page = browser.evaluate("document.documentElement.outerHTML");
    let page = page.as_str().unwrap();
    for text in [">ready<", ">good<", "serving", "exit_nonzero", "generate shop", "In force: "] {
        assert!(page.contains(text), "{text} is missing: {page}");
    }
    assert!(page.contains("&lt;b id=foreign&gt;") && !page.contains("<b id=foreign>"), "{page}");
    for scheme in ["light", "dark"] {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        browser.call("Emulation.setEmulatedMedia", &json!({"features": features}));
        for (width, height) in SIZES {
            let size = json!({"width": width, "height": height, "deviceScaleFactor": 1,
                "mobile": false});
            browser.call("Emulation.setDeviceMetricsOverride", &size);
            let is_wider = "document.documentElement.scrollWidth > innerWidth";
            assert_eq!(browser.evaluate(is_wider), false, "{width}");
            let picture = browser.picture();
            assert!(picture.len() > 10_000, "the picture is empty");
            let name = format!("status-{width}-{scheme}.png");
            fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), picture).unwrap();
        }
    }
}

#[test]
fn names_with_quotes_and_backslashes_have_their_metrics() {
    let observed = Observed::new(&[], &[]);
    let Some(mut browser) = Browser::at(&observed) else { return };
    browser.waits_for("typeof samples === 'function'");
    let metrics = r#"argocd_cmp_requests_in_flight{plugin="a\"b\\nc",method="check"} 3"#;
    let call = format!(
        "samples({metrics:?})('requests_in_flight', 'plugin', {name:?})[0]?.value",
        name = r#"a"b\nc"#
    );
    assert_eq!(browser.evaluate(&call), 3);
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
