//! A real browser that the test controls: headless Chromium, by its debugging pipe.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{observed::request::Observed, skip::skip, waiting::eventually};

/// Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
const PIPES: &str = "exec chromium \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null";

/// End of each command and answer.
const END: u8 = 0;

/// A browser with one page. Dropping it ends the browser.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Value,
    last: u64,
}

impl Browser {
    /// Opens the status page; `None` if Chromium is missing.
    pub(crate) fn at(observed: &Observed) -> Option<Self> {
        let profile = observed.folders.plugins().with_file_name("profile");
        Self::open(&profile, &format!("http://{}/", observed.server.http))
    }

    fn open(profile: &Path, address: &str) -> Option<Self> {
        if Command::new("chromium").arg("--version").output().is_err() {
            skip("Chromium: it is in the Debian package chromium");
            return None;
        }
        let mut command = Command::new("sh");
        command.args(["-c", PIPES, "sh", "--remote-debugging-pipe", "--headless"]);
        command.args(["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.arg(format!("--user-data-dir={}", profile.display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut this = Self { child, commands, answers, session: Value::Null, last: 0 };
        let target = this.call("Target.createTarget", &json!({"url": address}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        this.session = this.call("Target.attachToTarget", &attach)["sessionId"].clone();
        Some(this)
    }

    /// Calls a method of the browser, and returns its result.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": parameters});
        if !self.session.is_null() {
            command["sessionId"] = self.session.clone();
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(END);
        self.commands.write_all(&bytes).unwrap();
        loop {
            let mut answer = Vec::new();
            assert!(self.answers.read_until(END, &mut answer).unwrap() > 0, "Chromium ended");
            let answer: Value =
                serde_json::from_slice(answer.strip_suffix(&[END]).unwrap()).unwrap();
            // Answers without this number are events.
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// The value of an expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let result = self.call("Runtime.evaluate", &json!({"expression": expression}));
        result["result"]["value"].clone()
    }

    /// A picture of the page, as PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let shot = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        STANDARD.decode(shot["data"].as_str().unwrap()).unwrap()
    }

    /// Waits until an expression is true.
    pub(crate) fn waits_for(&mut self, expression: &str) {
        eventually(expression, || self.evaluate(expression) == true);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its other processes end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
