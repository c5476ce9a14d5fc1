//! A real headless browser, controlled over its `DevTools` pipe.

use crate::common::skipped;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// Time limit of a step, longer than any takes on a busy machine.
const HANG: Duration = Duration::from_secs(60);
/// Names of the browser's binary.
const NAMES: [&str; 2] = ["chromium", "chromium-browser"];

/// A browser with one page.
pub struct Browser {
    /// Browser process.
    child: Child,
    /// Pipe for commands.
    commands: ChildStdin,
    /// Messages from the browser.
    said: Receiver<Value>,
    /// Session of the page.
    page: String,
    /// Number of the last command.
    last: u64,
    /// Events so far, without answers.
    pub events: Vec<Value>,
}

impl Browser {
    /// Starts a browser with its profile in `folder`; returns `None`, with a message, if no browser is installed.
    pub fn start(folder: &Path) -> Option<Self> {
        let found = NAMES.iter().find(|name| {
            let which = Command::new("sh").args(["-c", &format!("command -v {name}")]).output();
            which.is_ok_and(|output| output.status.success())
        });
        let Some(name) = found else {
            skipped("there is no Chromium here (apt-get install chromium)");
            return None;
        };
        // Its pipe is at descriptors 3 and 4.
        let script = format!(
            "exec {name} --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
             --no-first-run --disable-background-networking --disable-component-update --disable-sync \
             --user-data-dir='{}' --remote-debugging-pipe 3<&0 4>&1 </dev/null >/dev/null 2>&1",
            folder.display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .env("HOME", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (commands, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, said) = mpsc::channel();
        thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let Ok(message) = message else { break };
                let Ok(message) = serde_json::from_slice(&message) else { break };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self { child, commands, said, page: String::new(), last: 0, events: Vec::new() };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attached =
            browser.call("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        attached["sessionId"].as_str().unwrap().clone_into(&mut browser.page);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Sends a command and waits for its answer.
    pub fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last += 1;
        let mut command = json!({"id": self.last, "method": method, "params": parameters});
        if !self.page.is_empty() {
            command["sessionId"] = json!(self.page);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        self.commands.flush().unwrap();
        loop {
            let message = self.said.recv_timeout(HANG).unwrap_or_else(|_| panic!("{method}: no answer"));
            if message["id"] == self.last {
                assert_eq!(message.get("error"), None, "{method}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// Returns the value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", &parameters);
        assert_eq!(result.get("exceptionDetails"), None, "{expression}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression in the page is true.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        for _ in 0..600 {
            if self.value(expression) == json!(true) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("never: {expression}");
    }

    /// Opens a file in a window of that width, and waits until the page is ready.
    pub fn open(&mut self, path: &Path, anchor: &str, width: u64) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        self.call("Page.navigate", &json!({"url": "about:blank"}));
        self.call("Page.navigate", &json!({"url": format!("file://{}{anchor}", path.display())}));
        self.until(
            "document.readyState === 'complete' && document.documentElement.dataset.ready !== undefined",
        );
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str) {
        let text = if key.len() == 1 { key } else { "" };
        let down = json!({"type": "keyDown", "key": key, "text": text});
        self.call("Input.dispatchKeyEvent", &down);
        self.call("Input.dispatchKeyEvent", &json!({"type": "keyUp", "key": key}));
    }

    /// Returns a screenshot of the window, as PNG.
    #[allow(dead_code, reason = "for a look at the page by hand")]
    pub fn picture(&mut self) -> Vec<u8> {
        use base64::Engine as _;
        let data = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        base64::engine::general_purpose::STANDARD.decode(data["data"].as_str().unwrap()).unwrap()
    }

    /// Returns the errors of the page, and its requests to other hosts.
    pub fn complaints(&self) -> Vec<String> {
        let is_bad = |event: &&Value| match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown"
            | "Runtime.consoleAPICalled"
            | "Log.entryAdded"
            | "Page.javascriptDialogOpening" => true,
            "Network.requestWillBeSent" => event["params"]["type"] != "Document",
            _ => false,
        };
        self.events.iter().filter(is_bad).map(ToString::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
