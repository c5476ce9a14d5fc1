//! Dependencies of lbx: their number, licences and sources. `.ci/deny.toml` has the rules. cargo-deny applies them too,
//! with the advisories that only it can look up.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail, and its name says what it is about"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use toml::de::{DeTable, DeValue};

/// Folder of this package.
const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");
/// Source of all packages.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Target of the build.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Largest number of packages in the binary, including lbx.
const PACKAGES_MAX: usize = 175;

/// Returns a file of this package.
fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(PACKAGE).join(path)).unwrap()
}

/// Returns the texts of a list in the rules; with `field`, that field of each item.
fn ruled(section: &str, key: &str, field: Option<&str>) -> Vec<String> {
    let rules = text(".ci/deny.toml");
    let rules = DeValue::Table(DeTable::parse(&rules).unwrap().into_inner());
    let list = rules.get(section).and_then(|section| section.get_ref().get(key)).unwrap().get_ref();
    let named = |item: &DeValue<'_>| match field {
        Some(field) => item.get(field).unwrap().get_ref().as_str().unwrap().to_owned(),
        None => item.as_str().unwrap().to_owned(),
    };
    list.as_array().unwrap().iter().map(|item| named(item.get_ref())).collect()
}

/// Returns the output of cargo, without network.
fn cargo(arguments: &[&str]) -> String {
    let offline = ["--locked", "--offline"];
    let output =
        Command::new(env!("CARGO")).args(arguments).args(offline).current_dir(PACKAGE).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the packages in the binary: name and version to licence.
fn built_from() -> BTreeMap<(String, String), String> {
    let format = ["tree", "-e", "normal,build", "--prefix", "none", "--format", "{p}|{l}"];
    let listed = cargo(&[&format[..], &["--target", TARGET]].concat());
    listed
        .lines()
        .map(|line| {
            let (package, licence) = line.split_once('|').unwrap();
            let mut words = package.split(' ');
            let name = words.next().unwrap().to_owned();
            let version = words.next().unwrap().trim_start_matches('v').to_owned();
            ((name, version), licence.trim_end_matches(" (*)").to_owned())
        })
        .collect()
}

/// Returns cargo's metadata of the packages for Linux, including those of tests. Packages for other systems may be
/// missing on this machine.
fn metadata() -> Vec<Value> {
    let arguments = ["metadata", "--format-version", "1", "--filter-platform", TARGET];
    let known: Value = serde_json::from_str(&cargo(&arguments)).unwrap();
    known["packages"].as_array().unwrap().clone()
}

#[test]
fn package_count_is_bounded_and_documented() {
    let count = built_from().len();
    assert!(count <= PACKAGES_MAX, "{count}");
    let stated = format!("{count} packages");
    assert!(text("ARCHITECTURE.md").contains(&stated), "ARCHITECTURE.md does not say `{stated}`");
}

#[test]
fn every_license_is_allowed() {
    let allowed = ruled("licenses", "allow", None);
    let allowed: BTreeSet<&str> = allowed.iter().map(String::as_str).collect();
    let refused: Vec<_> =
        built_from().into_iter().filter(|(_, licence)| !may_be_used(licence, &allowed)).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

/// Returns true if an SPDX expression is allowed: each part of an AND by one choice of its ORs. Old packages write `/`
/// for OR.
fn may_be_used(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let parts = expression.split(" AND ").map(|part| part.trim_matches(['(', ')', ' ']));
    let can_be_met = |part: &str| {
        part.split('/').flat_map(|part| part.split(" OR ")).any(|choice| allowed.contains(choice.trim()))
    };
    parts.into_iter().all(can_be_met)
}

#[test]
fn license_expressions_with_and_or_are_evaluated() {
    let allowed = BTreeSet::from(["MIT", "Unicode-3.0"]);
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("", false),
        ("GPL-3.0 OR MIT", true),
        ("Apache-2.0 / MIT", true),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("(MIT OR Apache-2.0) AND GPL-3.0", false),
    ] {
        assert_eq!(may_be_used(expression, &allowed), met, "{expression}");
    }
}

#[test]
fn banned_and_duplicate_packages_need_an_exception() {
    let packages = built_from();
    for banned in ruled("bans", "deny", Some("crate")) {
        assert!(!packages.keys().any(|(name, _)| *name == banned), "{banned}");
    }
    // Exceptions as `name@version`; the version may be a prefix.
    let skipped = ruled("bans", "skip", Some("crate"));
    let skipped: Vec<(&str, &str)> = skipped.iter().map(|skip| skip.split_once('@').unwrap()).collect();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, version) in packages.keys() {
        let has_a_reason =
            skipped.iter().any(|(of, since)| of == name && version.starts_with(&format!("{since}.")));
        if !has_a_reason {
            versions.entry(name).or_default().push(version);
        }
    }
    versions.retain(|_, of_one| of_one.len() > 1);
    assert!(versions.is_empty(), "{versions:?}");
}

#[test]
fn packages_share_one_registry_and_lbx_has_no_build_script() {
    for package in metadata() {
        let name = package["name"].as_str().unwrap();
        if name == "lbx" {
            let targets = package["targets"].as_array().unwrap();
            assert!(
                !targets.iter().any(|target| target["kind"][0] == "custom-build"),
                "lbx has a build script"
            );
        } else {
            assert_eq!(package["source"], REGISTRY, "{name}");
        }
    }
    let locked = text("Cargo.lock");
    let from_registry = format!("\nsource = \"{REGISTRY}\"\n");
    for named in [&from_registry[..], "\nchecksum = "] {
        assert_eq!(locked.matches("\nsource = ").count(), locked.matches(named).count(), "{named}");
    }
}

#[test]
fn packages_need_no_newer_compiler_than_stated() {
    let numbers =
        |version: &str| -> Vec<u32> { version.split('.').map(|part| part.parse().unwrap()).collect() };
    let packages = metadata();
    let own = packages.iter().find(|package| package["name"] == "lbx").unwrap();
    let stated = numbers(own["rust_version"].as_str().unwrap());
    let built = built_from();
    for package in &packages {
        let key =
            (package["name"].as_str().unwrap().to_owned(), package["version"].as_str().unwrap().to_owned());
        if let (true, Some(needed)) = (built.contains_key(&key), package["rust_version"].as_str()) {
            assert!(numbers(needed) <= stated, "{key:?} needs {needed}");
        }
    }
}
