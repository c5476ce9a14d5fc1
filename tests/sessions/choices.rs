//! Random choices of a run: paths, requests, edits of other programs, and the moments of kills.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::calls::{Moment, is_served};
use crate::model::Request;
use crate::{OUTSIDE, Run, SESSIONS};

impl Run {
    /// Returns one of the names.
    fn name(&mut self) -> String {
        if let Some(focus) = &self.focus
            && self.random.below(2) == 0
        {
            return focus.clone();
        }
        (*self.random.of(self.names)).to_owned()
    }

    /// Returns a path that mostly exists in the workspace, of one kind of entry or of any.
    pub fn existing(&mut self, kinds: &str) -> String {
        let tree = self.ws.tree();
        let found: Vec<&str> = tree
            .iter()
            .filter(|(_, (kind, ..))| kinds.contains(*kind))
            .filter_map(|(path, _)| path.to_str())
            .filter(|path| !path.starts_with('.'))
            .collect();
        let of_ten = self.random.below(10);
        if found.is_empty() || of_ten == 0 || (of_ten < 6 && self.focus.is_some()) {
            return self.name();
        }
        found[self.random.below(found.len())].to_owned()
    }

    /// Returns a name that mostly does not exist.
    fn free(&mut self) -> String {
        for _ in 0..4 {
            let name = self.name();
            if !self.ws.path(&name).exists() {
                return name;
            }
        }
        self.name()
    }

    /// Writes a line as another program, or commits.
    pub fn meddle(&mut self) {
        if self.random.below(6) == 0 {
            self.ws.git(&["add", "-A"]);
            self.ws.git(&["commit", "-q", "--allow-empty", "-m", "by the user"]);
            self.steps.push("the user commits".to_owned());
            return;
        }
        let name = self.existing("df");
        let path = self.ws.path(&name);
        self.edits += 1;
        let line = format!("{OUTSIDE}{}\n", self.edits);
        let file: PathBuf = if path.is_dir() { path.join(format!("o{}", self.edits % 3)) } else { path };
        if file.parent().is_some_and(Path::is_dir) && !file.is_dir() {
            let old = fs::read_to_string(&file).unwrap_or_default();
            fs::write(&file, old + &line).unwrap();
            self.steps.push(format!("{} gets {line:?}", file.display()));
        }
    }

    /// Returns a random request of a random session.
    pub fn request(&mut self) -> Request {
        let session = *self.random.of(&SESSIONS);
        let (any, file, free) = (self.existing("df"), self.existing("f"), self.free());
        let n = self.random.below(1000);
        let (tool, arguments, is_replay) = match self.random.below(25) {
            0 => ("write", json!({"path": file, "content": format!("{n}\n")}), false),
            1 => ("write", json!({"path": free, "content": format!("{n}\n")}), false),
            2 => ("append", json!({"path": free, "content": format!("more {n}\n")}), false),
            3 | 4 => ("append", json!({"path": file, "content": format!("more {n}\n")}), false),
            5 => ("edit", json!({"path": file, "old_string": "more", "new_string": "less"}), false),
            6 | 7 => ("delete", json!({"path": any, "recursive": true}), false),
            8 | 9 => ("restore", json!({ "path": self.restorable() }), false),
            10 | 11 => ("move", json!({"from": any, "to": free}), false),
            12 => ("mkdir", json!({ "path": free }), false),
            13 | 14 => ("bash", json!({"command": format!("echo {n} >> {file}; rm -rf {any}")}), false),
            15 | 16 => ("undo", json!({"steps": 1 + self.random.below(4)}), true),
            17 | 18 => ("redo", json!({"steps": 1 + self.random.below(3)}), true),
            19 => ("undo", json!({"seq": 1 + self.random.below(6)}), true),
            20 => ("undo", json!({"path": any}), true),
            21 => ("undo", json!({"merge": true}), true),
            22 => {
                let id = format!("lbx-snapshots~{}", self.random.below(4));
                ("rewind", json!({"id": id, "yes": true}), true)
            }
            _ => {
                let patch = format!(
                    "*** Begin Patch\n*** Add File: {free}\n+{n}\n*** Delete File: {file}\n*** Add File: g/new-{n}\n+{n}\n*** End Patch\n"
                );
                ("patch", json!({ "patch": patch }), false)
            }
        };
        Request { session, tool, arguments, is_replay }
    }

    /// Returns a path that is in the trash, if there is one.
    fn restorable(&mut self) -> String {
        let entries = self.ws.json("trash", &json!({"limit": 0})).success()["data"]["entries"].take();
        let paths: Vec<&str> =
            entries.as_array().unwrap().iter().filter_map(|entry| entry["path"].as_str()).collect();
        if paths.is_empty() { self.name() } else { (*self.random.of(&paths)).to_owned() }
    }

    /// Returns a random moment within a call, mostly while it changes files, estimated from earlier calls.
    pub fn moment(&mut self, request: &Request) -> Moment {
        let pace = self.paces[usize::from(is_served(request))];
        let mut part = |end: usize| u32::try_from(self.random.below(end)).unwrap();
        match part(4) {
            0 => Moment { start: pace * part(400) / 1000, entry: None },
            1 => Moment { start: pace * (400 + part(700)) / 1000, entry: None },
            // An entry is open for some milliseconds, and the files change in the first of them.
            2 => Moment { start: pace * 2, entry: Some(Duration::from_micros(part(4000).into())) },
            _ => Moment { start: pace * 2, entry: Some(Duration::from_micros(part(300).into())) },
        }
    }

    /// Returns a reading request of a random session.
    pub fn reading(&mut self) -> Request {
        let session = *self.random.of(&SESSIONS);
        let (tool, arguments) = match self.random.below(3) {
            0 => ("ls", json!({})),
            1 => ("read", json!({"path": ".gitignore"})),
            _ => ("grep", json!({"pattern": "more"})),
        };
        Request { session, tool, arguments, is_replay: false }
    }
}
