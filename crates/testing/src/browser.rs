//! A headless Chromium for tests, driven by the DevTools protocol over two pipes.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Names of the program.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Options of the program: no window, nothing of its own over the network.
const OPTIONS: &str = "--headless --remote-debugging-pipe --no-sandbox --disable-gpu \
                       --disable-quic --no-first-run --disable-background-networking \
                       --disable-component-update --disable-sync --disable-default-apps \
                       --disable-extensions --disable-client-side-phishing-detection \
                       --metrics-recording-only --no-pings --force-color-profile=srgb \
                       --hide-scrollbars --disable-dev-shm-usage \
                       --font-render-hinting=none";

/// Time for a condition to come true.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Pause between looks.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    last: u64,
    events: VecDeque<Value>,
    /// Addresses that the page has asked for.
    requested: Vec<String>,
    /// What the page has complained of: errors of scripts, breaches of its policy.
    complaints: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser; nothing where none is installed.
    pub fn start() -> Option<Self> {
        let is_there = |program: &&&str| {
            let which = Command::new("sh")
                .args(["-c", &format!("command -v {program}")])
                .output();
            which.is_ok_and(|output| output.status.success())
        };
        let program = PROGRAMS.iter().find(is_there)?;
        let profile = tempfile::tempdir().expect("a directory for the browser");
        // The program reads commands from file descriptor 3, and answers on 4.
        let script = format!(
            "exec {program} {OPTIONS} --user-data-dir=\"$0\" about:blank 3<&0 4>&1 < /dev/null \
             > /dev/null 2>&1"
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .arg(profile.path())
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the browser can be started");
        let mut browser = Self {
            to: child.stdin.take().expect("piped"),
            from: BufReader::new(child.stdout.take().expect("piped")),
            child,
            session: None,
            last: 0,
            events: VecDeque::new(),
            requested: Vec::new(),
            complaints: Vec::new(),
            _profile: profile,
        };
        let page = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({"targetId": page["targetId"], "flatten": true}),
        );
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.call("Page.setLifecycleEventsEnabled", json!({"enabled": true}));
        browser.size(1280, 860);
        Some(browser)
    }

    /// Calls a method; panics with its error.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        match self.try_call(method, params) {
            Ok(result) => result,
            Err(error) => panic!("{method}: {error}"),
        }
    }

    fn try_call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.last += 1;
        let id = self.last;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser reads");
        loop {
            let mut answer = self.receive();
            if answer["id"] != id {
                self.note(answer);
            } else if answer["error"].is_null() {
                return Ok(answer["result"].take());
            } else {
                return Err(answer["error"].to_string());
            }
        }
    }

    fn receive(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from
            .read_until(0, &mut bytes)
            .expect("the browser answers");
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    fn note(&mut self, event: Value) {
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                self.requested.push(url.to_owned());
            }
            Some("Runtime.exceptionThrown") => {
                self.complaints.push(params["exceptionDetails"].to_string());
            }
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.complaints.push(params["entry"].to_string());
            }
            _ => {}
        }
        self.events.push_back(event);
    }

    /// Sets the size of the window.
    pub fn size(&mut self, width: u32, height: u32) {
        let mobile = width < 600;
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}),
        );
    }

    /// Chooses light or dark.
    pub fn dark(&mut self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Turns scripts off or on, for the pages that are opened from now on.
    pub fn scripts(&mut self, on: bool) {
        self.call(
            "Emulation.setScriptExecutionDisabled",
            json!({"value": !on}),
        );
    }

    /// Opens an address and waits until it is loaded; returns how long that took.
    #[track_caller]
    pub fn open(&mut self, address: &str) -> Duration {
        self.events.clear();
        let start = Instant::now();
        let result = self.call("Page.navigate", json!({"url": address}));
        assert!(
            result["errorText"].is_null(),
            "{address}: {}",
            result["errorText"]
        );
        // A load that began before may end meanwhile.
        let document = result["loaderId"].clone();
        self.loaded(|loaded| document.is_null() || *loaded == document);
        start.elapsed()
    }

    /// Waits for the end of the load of a document that `is_meant` tells by its ID.
    fn loaded(&mut self, is_meant: impl Fn(&Value) -> bool) {
        loop {
            if let Some(event) = self.events.pop_front() {
                let params = &event["params"];
                let is_load = event["method"] == "Page.lifecycleEvent" && params["name"] == "load";
                if is_load && is_meant(&params["loaderId"]) {
                    return;
                }
            } else {
                let message = self.receive();
                self.note(message);
            }
        }
    }

    /// The value of an expression of the page.
    #[track_caller]
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression,
            "returnByValue": true,
            "awaitPromise": true,
        });
        let mut result = self.call("Runtime.evaluate", params);
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {}",
            result["exceptionDetails"]
        );
        result["result"]["value"].take()
    }

    /// The text that a person sees in what a selector chooses; empty if there is no such thing.
    #[track_caller]
    pub fn text(&mut self, selector: &str) -> String {
        let expression = format!("document.querySelector({selector:?})?.innerText ?? ''");
        self.eval(&expression)
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn wait(&mut self, expression: &str) {
        let start = Instant::now();
        loop {
            // The page may be between two documents.
            let params = json!({"expression": expression, "returnByValue": true});
            let result = self.try_call("Runtime.evaluate", params);
            if result.is_ok_and(|result| result["result"]["value"] == true) {
                return;
            }
            assert!(
                start.elapsed() < WAIT_TIMEOUT,
                "never true: {expression}\n{}",
                self.text("body")
            );
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    /// Clicks on what a selector chooses, and waits for the page that it leads to.
    #[track_caller]
    pub fn follow(&mut self, selector: &str) {
        self.events.clear();
        self.click(selector);
        self.loaded(|_| true);
    }

    /// Clicks on what a selector chooses.
    #[track_caller]
    pub fn click(&mut self, selector: &str) {
        let expression = format!(
            "(() => {{ const it = document.querySelector({selector:?}); if (!it) return false; \
             it.scrollIntoView({{block: 'center'}}); it.click(); return true }})()"
        );
        assert_eq!(
            self.eval(&expression),
            true,
            "no {selector}\n{}",
            self.text("body")
        );
    }

    /// Types into what a selector chooses.
    #[track_caller]
    pub fn fill(&mut self, selector: &str, text: &str) {
        let expression = format!(
            "(() => {{ const it = document.querySelector({selector:?}); if (!it) return false; \
             it.focus(); it.select?.(); return true }})()"
        );
        assert_eq!(self.eval(&expression), true, "no {selector}");
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Presses a key, as `Tab` or `Enter`.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            _ => panic!("{key} is not known here"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut params = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
            });
            if kind == "keyDown" && !text.is_empty() {
                params["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    /// Draws the page into a file, as PNG; the whole of it if `whole`, else what fits the window.
    pub fn draw(&mut self, file: &Path, whole: bool) {
        let params = json!({"format": "png", "captureBeyondViewport": whole});
        let drawn = if whole {
            let metrics = self.call("Page.getLayoutMetrics", json!({}));
            let size = &metrics["cssContentSize"];
            let mut params = params;
            params["clip"] = json!({
                "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1,
            });
            self.call("Page.captureScreenshot", params)
        } else {
            self.call("Page.captureScreenshot", params)
        };
        write_picture(file, &drawn);
    }

    /// Draws what fits the window into a file, as WebP of this quality of 100.
    pub fn draw_small(&mut self, file: &Path, quality: u32) {
        let params = json!({"format": "webp", "quality": quality});
        let drawn = self.call("Page.captureScreenshot", params);
        write_picture(file, &drawn);
    }

    /// Addresses that were asked for since the last call.
    pub fn requested(&mut self) -> Vec<String> {
        std::mem::take(&mut self.requested)
    }

    /// What the page has complained of since the last call: errors of scripts, breaches of its
    /// policy.
    pub fn complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complaints)
    }
}

fn write_picture(file: &Path, drawn: &Value) {
    let data = drawn["data"].as_str().unwrap_or_default();
    let picture = BASE64_STANDARD.decode(data).expect("base64");
    std::fs::write(file, picture).expect("the picture can be written");
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
