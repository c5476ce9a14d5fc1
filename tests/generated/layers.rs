//! The layers of the engine, as its sources name them.

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
