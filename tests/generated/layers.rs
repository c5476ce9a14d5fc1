//! The layers of the engine, and the files within one, as the sources name them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The layers, each of which uses only those before it.
const LAYERS: [&str; 8] =
    ["workspace", "store", "journal", "history", "snapshot", "sandbox", "policy", "change"];

/// Adds the sources below a folder, tests aside: what they judge a layer with may stand on it.
fn add_sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_sources(&path, text);
        } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// Whether a text names something at `path`.
fn names(text: &str, path: &str) -> bool {
    let word_ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    text.split(path).skip(1).any(word_ends)
}

#[test]
fn each_layer_of_the_engine_uses_only_those_before_it() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine");
    for (place, layer) in LAYERS.iter().enumerate() {
        let mut text = String::new();
        add_sources(&engine.join(layer), &mut text);
        let root = std::fs::read_to_string(engine.join(layer).join("mod.rs")).unwrap();
        assert!(!text.contains("engine::{"), "{layer}: name each layer by a path of its own");
        for later in &LAYERS[place + 1..] {
            let is_used =
                names(&text, &format!("engine::{later}")) || names(&root, &format!("super::{later}"));
            assert!(!is_used, "engine::{layer} uses engine::{later}, which stands on it");
        }
    }
}

/// Adds the modules below a folder whose module is `module`, each with its source, tests and comments aside.
fn add_modules(folder: &Path, module: &str, modules: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            add_modules(&path, &format!("{module}::{name}"), modules);
        } else if name != "tests" {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap().lines();
            let code: Vec<&str> = code.map(|line| line.split("//").next().unwrap()).collect();
            let module = if name == "mod" { module.to_owned() } else { format!("{module}::{name}") };
            modules.insert(module, code.join("\n"));
        }
    }
}

/// The paths that `use` declares, groups taken apart.
fn paths_of(tree: &str) -> Vec<String> {
    let Some((before, group)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let (mut depth, mut from, mut paths) = (0, 0, Vec::new());
    for (at, byte) in group.bytes().enumerate() {
        let ends = depth == 0 && matches!(byte, b',' | b'}');
        if ends {
            paths.extend(paths_of(&group[from..at]));
            from = at + 1;
        }
        depth += i32::from(byte == b'{') - i32::from(byte == b'}');
        if depth < 0 {
            break;
        }
    }
    paths.iter().map(|path| format!("{}{path}", before.trim())).collect()
}

/// Every path that a source names from the root of the crate, from its own module or from the one above.
fn paths_in(code: &str) -> Vec<String> {
    // Who may see something is not what it uses.
    let mut parts = code.split("pub(in ");
    let first = parts.next().unwrap().to_owned();
    let code = parts.fold(first, |code, part| code + part.split_once(')').unwrap().1);
    let uses = code.split("use ").skip(1).filter_map(|rest| rest.split(';').next());
    let mut paths: Vec<String> = uses.flat_map(paths_of).collect();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start).filter(|(at, _)| !code[..*at].ends_with(':')) {
            let ends = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | ':');
            let path = code[at..].split(ends).next().unwrap();
            // One that a group follows was taken apart above.
            paths.extend((!path.ends_with("::")).then(|| path.to_owned()));
        }
    }
    paths
}

/// The module of `modules` that `path`, named in `module`, leads into.
fn module_of(path: &str, module: &str, modules: &BTreeMap<String, String>) -> Option<String> {
    let (mut from, mut rest) = (module.to_owned(), path);
    if rest.starts_with("crate::") {
        from.clear();
    }
    while let Some(above) = rest.strip_prefix("super::") {
        from.truncate(from.rfind("::")?);
        rest = above;
    }
    let rest = rest.trim_start_matches("self::");
    let mut found = if from.is_empty() { rest.to_owned() } else { format!("{from}::{rest}") };
    while !modules.contains_key(&found) {
        found.truncate(found.rfind("::")?);
    }
    Some(found)
}

#[test]
fn no_files_of_a_layer_use_each_other_in_a_circle() {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine");
    for layer in LAYERS {
        let mut modules = BTreeMap::new();
        add_modules(&engine.join(layer), &format!("crate::engine::{layer}"), &mut modules);
        let mut uses: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for (module, code) in &modules {
            let named = paths_in(code);
            let used = named.iter().filter_map(|path| module_of(path, module, &modules));
            uses.insert(module, used.filter(|used| used != module).collect());
        }
        assert!(uses.values().any(|used| !used.is_empty()), "{layer}: nothing uses anything");
        // What uses nothing that is left, or is used by nothing, stands in no circle.
        while let Some(free) = uses.keys().copied().find(|module| {
            let is_used = uses.values().any(|used| used.contains(*module));
            !is_used || uses[module].iter().all(|it| !uses.contains_key(it.as_str()))
        }) {
            uses.remove(free);
        }
        assert!(uses.is_empty(), "{layer}: these use each other in a circle: {uses:#?}");
    }
}
