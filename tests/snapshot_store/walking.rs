//! A scan records what `git add -A` would, for any work tree.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use lbx::engine::snapshot::SkipReason;

use crate::place::Place;
use crate::scanning::{scan, tip_tree, wanted_tree};

/// Pseudo-random numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[usize::try_from(self.roll(from.len() as u64)).unwrap()]
    }
}

const NAMES: [&str; 9] = ["a", "a.txt", "a-b", "b", "b.o", "build", "c", "Ä", "z.log"];
const RULES: [&str; 8] =
    ["*.o\n", "build/\n", "/a\n", "!b.o\n", "c/**/a\n", "*.log\n!z.log\n", "a-?\n", "*\n!*/\n!b\n"];

/// Makes a random change in the work tree.
fn stir(place: &Place, dice: &mut Dice) {
    let depth = dice.roll(3);
    let mut path = (0..depth).map(|_| dice.pick(&NAMES).to_owned() + "/").collect::<String>();
    path += if dice.roll(6) == 0 { ".gitignore" } else { dice.pick(&NAMES) };
    let on_disk = place.path(&path);
    let parent = on_disk.parent().unwrap();
    let is_dir = fs::symlink_metadata(&on_disk).is_ok_and(|it| it.is_dir());
    match dice.roll(10) {
        0 | 1 if is_dir => fs::remove_dir_all(&on_disk).unwrap(),
        0 | 1 => drop(fs::remove_file(&on_disk)),
        _ if is_dir || fs::create_dir_all(parent).is_err() => {}
        _ if path.ends_with(".gitignore") => fs::write(on_disk, dice.pick(&RULES)).unwrap(),
        2 => {
            let _ = fs::remove_file(&on_disk);
            symlink(dice.pick(&NAMES), on_disk).unwrap();
        }
        3 if fs::symlink_metadata(&on_disk).is_ok_and(|it| it.is_file()) => {
            fs::set_permissions(on_disk, fs::Permissions::from_mode(0o755)).unwrap();
        }
        _ if on_disk.is_symlink() => {}
        _ => fs::write(on_disk, format!("{}\n", dice.roll(4))).unwrap(),
    }
}

#[test]
fn random_scans_equal_git_add() {
    for seed in 0..5 {
        let mut dice = Dice(seed);
        let place = Place::with(&[("a.txt", "a\n"), ("b/c", "c\n")]);
        for round in 0..10 {
            for _ in 0..dice.roll(25) {
                stir(&place, &mut dice);
            }
            let wanted = wanted_tree(&place);
            scan(&place).unwrap();
            let made = place.try_git(&["rev-parse", "-q", "--verify", "lbx-snapshots"]).status.success();
            let tree = if made { tip_tree(&place) } else { place.git(&["rev-parse", "HEAD^{tree}"]) };
            assert_eq!(tree, wanted, "seed {seed} round {round}\n{}", place.git(&["diff", &wanted, &tree]));
            assert_eq!(scan(&place).unwrap().id, None);
        }
        place.fsck();
    }
}

#[test]
fn scan_finds_all_edits_in_quick_succession() {
    let place = Place::with(&[("a.txt", "00\n")]);
    let path = place.path("a.txt");
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    for round in 1..40_u8 {
        fs::write(&path, format!("{round:02}\n")).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert!(scan(&place).unwrap().id.is_some(), "{round}");
        assert_eq!(place.shown("a.txt"), format!("{round:02}"));
    }
}

#[test]
fn scan_finds_edits_hidden_by_index_flags() {
    let place = Place::with(&[("assumed", "a\n"), ("skipped", "s\n"), ("intended", "i\n")]);
    place.git(&["rm", "-q", "--cached", "intended"]);
    place.git(&["commit", "-q", "-m", "without"]);
    place.git(&["add", "-N", "intended"]);
    place.git(&["update-index", "--assume-unchanged", "assumed"]);
    place.git(&["update-index", "--skip-worktree", "skipped"]);
    place.git(&["config", "core.trustctime", "false"]);
    place.git(&["config", "core.checkStat", "minimal"]);
    let before = place.frozen();
    place.write("assumed", "b\n");
    place.write("skipped", "t\n");
    scan(&place).unwrap();
    assert_eq!((place.shown("assumed"), place.shown("skipped")), ("b".into(), "t".into()));
    assert_eq!(place.shown("intended"), "i");
    assert_eq!(place.frozen(), before);
}

#[test]
fn ignore_rules_outside_a_sparse_checkout_still_apply() {
    let place = Place::with(&[("in/a", "a\n"), ("out/.gitignore", "*.key\n"), ("out/b", "b\n")]);
    place.git(&["sparse-checkout", "set", "--cone", "in"]);
    assert!(!place.path("out").exists());
    place.write("out/x.key", "secret\n");
    place.write("out/new", "new\n");
    assert_eq!(place.put("out/y.key", "secret\n").left_out[0].reason, SkipReason::Ignored);
    scan(&place).unwrap();
    assert_eq!(place.listed(), ["in/a", "out/.gitignore", "out/b", "out/new"]);
}

#[test]
fn fifo_as_gitignore_does_not_block_a_scan() {
    let place = Place::with(&[("a", "a\n"), ("t/x", "x\n")]);
    for folder in ["t", "u", "v/w"] {
        fs::create_dir_all(place.path(folder)).unwrap();
        place.write(&format!("{folder}/new"), "new\n");
        place.write(&format!("{folder}/deep/new"), "new\n");
        let fifo = place.path(folder).join(".gitignore");
        assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    }
    place.write("b", "b\n");
    let recorded = scan(&place).unwrap();
    let mut reasons: Vec<_> = recorded.left_out.iter().map(|it| (it.path.as_str(), &it.reason)).collect();
    reasons.sort_by_key(|(path, _)| *path);
    let rule = |path: &str| SkipReason::Rules(format!("{path}/.gitignore"));
    assert_eq!(reasons, [("t", &rule("t")), ("u", &rule("u")), ("v/w", &rule("v/w"))]);
    assert_eq!(place.listed(), ["a", "b", "t/x"]);
}

#[test]
fn scan_records_only_the_policy_from_the_lbx_directory() {
    let place = Place::with(&[("a", "a\n")]);
    fs::write(place.path(".lbx/.gitignore"), "*\n!/config.toml\n").unwrap();
    fs::write(place.path(".lbx/config.toml"), "gate = \"strict\"\n").unwrap();
    fs::write(place.path(".lbx/other.toml"), "x\n").unwrap();
    place.write("a", "b\n");
    scan(&place).unwrap();
    assert_eq!(place.listed(), [".lbx/config.toml", "a"]);
    assert_eq!(tip_tree(&place), wanted_tree(&place));
    place.git(&["add", "-A"]);
    place.git(&["commit", "-q", "-m", "policy"]);
    fs::write(place.path(".lbx/config.toml"), "gate = \"warn\"\n").unwrap();
    fs::write(place.path(".lbx/.gitignore"), "").unwrap(); // even so
    scan(&place).unwrap();
    assert_eq!(place.shown(".lbx/config.toml"), "gate = \"warn\"");
    assert_eq!(place.listed(), [".lbx/config.toml", "a"]);
    fs::remove_file(place.path(".lbx/config.toml")).unwrap();
    scan(&place).unwrap();
    assert_eq!(place.listed(), ["a"]);
}

#[test]
fn scan_ignores_files_with_only_a_new_mtime() {
    let place = Place::with(&[("a", "a\n")]);
    for number in 0..120 {
        place.write(&format!("many/{number}"), "x\n");
    }
    place.commit(&[]);
    scan(&place).unwrap();
    for number in 0..120 {
        place.write(&format!("many/{number}"), "x\n");
    }
    place.write("a", "b\n");
    sleep(Duration::from_millis(50));
    let recorded = scan(&place).unwrap();
    assert_eq!(place.git(&["diff", "--name-only", "HEAD", "lbx-snapshots"]), "a");
    assert_eq!(recorded.left_out, []);
}

#[test]
fn parallel_scan_equals_git_add() {
    let place = Place::unborn(&[]);
    for number in 0..3_000 {
        place.write(&format!("d{}/e{}/f{number}", number % 13, number % 7), format!("{number}\n"));
    }
    place.commit(&[]);
    scan(&place).unwrap();
    for number in (0..3_000).step_by(37) {
        place.write(&format!("d{}/e{}/f{number}", number % 13, number % 7), "changed\n");
        place.write(&format!("d{}/new{number}", number % 13), "new\n");
    }
    fs::remove_dir_all(place.path("d3/e4")).unwrap();
    scan(&place).unwrap();
    assert_eq!(tip_tree(&place), wanted_tree(&place));
    assert_eq!(scan(&place).unwrap().id, None);
}
