//! Order of the crate's parts and of the engine's layers, and of the files within them, as the sources use each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The parts of the crate, each of which uses only those before it.
const PARTS: [&str; 18] = [
    "limits", "platform", "buffer", "sha256", "message", "error", "control", "text", "engine", "request",
    "envelope", "search", "tools", "app", "dialect", "catalog", "cli", "mcp",
];

/// Layers of the engine; each uses only those before it.
const LAYERS: [&str; 8] =
    ["workspace", "store", "journal", "history", "snapshot", "sandbox", "policy", "change"];

/// Modules of the crate, each with its source. Tests and comments are left out: tests may use anything.
type Modules = BTreeMap<String, String>;

/// Reads the modules of the sources.
fn modules() -> Modules {
    let mut modules = BTreeMap::new();
    add_modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "crate", &mut modules);
    for of_the_crate in ["crate::lib", "crate::main", "crate::random"] {
        modules.remove(of_the_crate).unwrap();
    }
    modules
}

/// Adds the modules below a folder whose module is `module`.
fn add_modules(folder: &Path, module: &str, modules: &mut Modules) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name.ends_with("tests") || path.extension().is_some_and(|kind| kind != "rs") {
            continue;
        }
        if path.is_dir() {
            add_modules(&path, &format!("{module}::{name}"), modules);
        } else {
            let text = std::fs::read_to_string(&path).unwrap().replace("r#", "");
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap().lines();
            let code: Vec<&str> = code.map(|line| line.split("//").next().unwrap()).collect();
            let module = if name == "mod" { module.to_owned() } else { format!("{module}::{name}") };
            modules.insert(module, code.join("\n"));
        }
    }
}

/// Returns the paths that `use` declares, with groups expanded.
fn paths_of(tree: &str) -> Vec<String> {
    let Some((before, group)) = tree.split_once('{') else {
        return tree.split(" as ").take(1).map(|path| path.trim().to_owned()).collect();
    };
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

/// Returns every path that a source names from the root of the crate, from its own module or from the parent module.
fn paths_in(code: &str) -> Vec<String> {
    // A visibility is not a use.
    let mut parts = code.split("pub(in ");
    let first = parts.next().unwrap().to_owned();
    let code = parts.fold(first, |code, part| code + part.split_once(')').unwrap().1);
    let uses = code.split("use ").skip(1).filter_map(|rest| rest.split(';').next());
    let mut paths: Vec<String> = uses.flat_map(paths_of).collect();
    let below = code.split("mod ").skip(1).filter_map(|rest| rest.split_once(';'));
    let below = below.map(|(name, _)| format!("{name}::"));
    let starts = below.chain(["crate::", "super::", "self::"].map(str::to_owned));
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for start in starts {
        let is_start = |at: usize| !code[..at].ends_with(|before| is_word(before) || before == ':');
        for (at, _) in code.match_indices(&start).filter(|(at, _)| is_start(*at)) {
            let path = code[at..].split(|c: char| !is_word(c) && c != ':').next().unwrap();
            // A path before a group was expanded above.
            paths.extend((!path.ends_with("::")).then(|| path.to_owned()));
        }
    }
    paths
}

/// Returns the module of `modules` that `path`, used in `module`, leads into, and the name used there.
fn resolved(path: &str, module: &str, modules: &Modules) -> Option<(String, String)> {
    let (mut from, mut rest) = (module.to_owned(), path);
    if rest.starts_with("crate::") {
        from.clear();
    }
    while let Some(above) = rest.strip_prefix("super::") {
        from.truncate(from.rfind("::")?);
        rest = above;
    }
    let rest = rest.trim_start_matches("self::");
    let whole = if from.is_empty() { rest.to_owned() } else { format!("{from}::{rest}") };
    let mut found = whole.clone();
    while !modules.contains_key(&found) {
        found.truncate(found.rfind("::")?);
    }
    let item = whole[found.len()..].trim_start_matches("::").split("::").next().unwrap().to_owned();
    Some((found, item))
}

/// Returns true if a source defines a type of that name.
fn defines_type(code: &str, name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    ["struct", "enum", "trait", "type"].iter().any(|kind| {
        let defined = format!("{kind} {name}");
        code.match_indices(&defined).any(|(at, _)| ends(&code[at + defined.len()..]))
    })
}

/// Returns the modules that each module uses. A folder's `mod.rs` uses its files, and they use the types that it
/// defines itself; that does not count as a cycle.
fn uses(modules: &Modules) -> BTreeMap<&str, BTreeSet<String>> {
    let of_module = |(module, code): (&String, &String)| {
        let is_used = |(used, item): &(String, String)| {
            let is_front = module.starts_with(&format!("{used}::"));
            used != module && !(is_front && defines_type(&modules[used], item))
        };
        let named = paths_in(code);
        let used = named.iter().filter_map(|path| resolved(path, module, modules));
        used.filter(is_used).map(|(used, _)| used).collect()
    };
    modules.iter().map(|entry| (entry.0.as_str(), of_module(entry))).collect()
}

/// Asserts that each module of `order` below `above` uses only those before it.
fn must_be_in_order(above: &str, order: &[&str]) {
    let modules = modules();
    let uses = uses(&modules);
    let place_of = |module: &str| {
        let below = module.strip_prefix(above)?.strip_prefix("::")?;
        let name = below.split("::").next()?;
        Some(
            order
                .iter()
                .position(|part| *part == name)
                .unwrap_or_else(|| panic!("{name} has no place in the order")),
        )
    };
    assert!(order.iter().all(|part| uses.keys().any(|it| it.starts_with(&format!("{above}::{part}")))));
    for (module, used) in &uses {
        let Some(place) = place_of(module) else { continue };
        let later: Vec<&String> =
            used.iter().filter(|used| place_of(used).is_some_and(|it| it > place)).collect();
        assert!(later.is_empty(), "{module} uses what stands on it: {later:?}");
    }
}

#[test]
fn crate_layers_use_only_lower_layers() {
    must_be_in_order("crate", &PARTS);
}

#[test]
fn engine_layers_use_only_lower_layers() {
    must_be_in_order("crate::engine", &LAYERS);
}

#[test]
fn modules_have_no_circular_imports() {
    let modules = modules();
    let mut uses = uses(&modules);
    assert!(uses.values().filter(|used| used.len() > 1).count() > 100, "the sources name what they use");
    // A module that uses no remaining module, or that none of them uses, is not part of a cycle.
    loop {
        let left = uses.len();
        let is_left: BTreeSet<&str> = uses.keys().copied().collect();
        uses.retain(|_, used| used.iter().any(|used| is_left.contains(used.as_str())));
        let is_used: BTreeSet<String> = uses.values().flatten().cloned().collect();
        uses.retain(|module, _| is_used.contains(*module));
        if uses.len() == left {
            break;
        }
    }
    let in_circles: BTreeSet<String> = uses.keys().map(|module| (*module).to_owned()).collect();
    uses.values_mut().for_each(|used| used.retain(|used| in_circles.contains(used)));
    assert!(uses.is_empty(), "these use each other in a circle: {uses:#?}");
}
