//! Requests, and the resulting tree, computed without lbx.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::judge::Tree;

/// A call of a tool.
#[derive(Clone)]
pub struct Request {
    /// Session that makes the call.
    pub session: &'static str,
    /// Name of the tool.
    pub tool: &'static str,
    /// Arguments, without the session.
    pub arguments: Value,
    /// True for an undo, redo or rewind.
    pub is_replay: bool,
}

impl Request {
    /// Returns an argument that is text.
    pub fn text(&self, name: &str) -> &str {
        self.arguments[name].as_str().unwrap_or_default()
    }

    /// Returns the files to read before the call, so that it passes the gate.
    pub fn reads(&self) -> Vec<&str> {
        match self.tool {
            "write" | "edit" => vec![self.text("path")],
            "patch" => {
                self.text("patch").lines().filter_map(|line| line.strip_prefix("*** Delete File: ")).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Permission bits of new files and folders under the umask.
#[derive(Clone, Copy)]
pub struct NewModes {
    /// Permission bits of a file.
    pub file: u32,
    /// Permission bits of a folder.
    pub folder: u32,
}

/// Returns the tree after a successful call; `None` for a tool that is not modelled.
pub fn predict(before: &Tree, modes: NewModes, request: &Request, response: &Value) -> Option<Tree> {
    let mut tree = before.clone();
    if request.tool != "patch" && response["data"].to_string().contains("already_applied") {
        return Some(tree);
    }
    let path = Path::new(request.text("path"));
    let content = request.text("content");
    match request.tool {
        "write" => put(&mut tree, modes, path, content.to_owned()),
        "append" => {
            let old = text_at(&tree, path).unwrap_or_default();
            put(&mut tree, modes, path, old + content);
        }
        "edit" => {
            let old = text_at(&tree, path)?;
            put(
                &mut tree,
                modes,
                path,
                old.replacen(request.text("old_string"), request.text("new_string"), 1),
            );
        }
        "delete" => remove(&mut tree, path),
        "move" => {
            let (from, to) = (Path::new(request.text("from")), Path::new(response["data"]["to"].as_str()?));
            let moved: Vec<PathBuf> = tree.keys().filter(|path| path.starts_with(from)).cloned().collect();
            add_parents(&mut tree, modes, to);
            for path in moved {
                let entry = tree.remove(&path)?;
                let below = path.strip_prefix(from).ok()?;
                tree.insert(if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) }, entry);
            }
        }
        "mkdir" => {
            add_parents(&mut tree, modes, path);
            tree.entry(path.to_owned()).or_insert(('d', modes.folder, Vec::new()));
        }
        "patch" => {
            let (patch, deleted) = (request.text("patch"), request.reads());
            for path in &deleted {
                remove(&mut tree, Path::new(path));
            }
            for (line, next) in patch.lines().zip(patch.lines().skip(1)) {
                let added = line.strip_prefix("*** Add File: ");
                // A file that is added and then deleted does not exist.
                if let Some(path) = added.filter(|path| !deleted.contains(path)) {
                    put(&mut tree, modes, Path::new(path), format!("{}\n", next.strip_prefix('+')?));
                }
            }
        }
        _ => return None,
    }
    Some(tree)
}

/// Returns the text of a file in the tree.
fn text_at(tree: &Tree, path: &Path) -> Option<String> {
    let (kind, _, bytes) = tree.get(path)?;
    (*kind == 'f').then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// Writes a file into the tree. An existing file keeps its permission bits, and an empty folder is replaced.
fn put(tree: &mut Tree, modes: NewModes, path: &Path, text: String) {
    let mode = tree.get(path).filter(|entry| entry.0 == 'f').map_or(modes.file, |entry| entry.1);
    remove(tree, path);
    add_parents(tree, modes, path);
    tree.insert(path.to_owned(), ('f', mode, text.into_bytes()));
}

/// Adds the folders that a path needs.
fn add_parents(tree: &mut Tree, modes: NewModes, path: &Path) {
    for folder in path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
        tree.entry(folder.to_owned()).or_insert(('d', modes.folder, Vec::new()));
    }
}

/// Removes a path and everything below it.
fn remove(tree: &mut Tree, path: &Path) {
    tree.retain(|other, _| !other.starts_with(path));
}
