//! A workspace that spans mounts: every change works on each, moves and the trash work across them, and a killed change
//! is whole afterwards.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{LBX, PATH_FIXED, STATE_ID, Workspace, is_installed, make_fifo, skipped};
use crate::judge::{difference, files_below};

/// Runs a script in which `$LBX` is the binary and the folder `vol` of the workspace is another mount of the same file
/// system; returns `None` if mounting is not allowed.
fn with_mount(ws: &Workspace, script: &str) -> Option<Output> {
    let volume = ws.outside.join("volume");
    after_mount(ws, &format!("mount --bind {} vol", volume.display()), script)
}

/// Runs a script after a command that mounts something.
fn after_mount(ws: &Workspace, mount: &str, script: &str) -> Option<Output> {
    let script = format!("{mount} || exit 77\n{script}");
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", &script])
        .current_dir(&ws.root)
        .env_clear()
        .env("PATH", PATH_FIXED)
        .env("HOME", ws.outside.join("home"))
        .env("LBX_STATE_ID", STATE_ID)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("LBX", LBX)
        .output();
    let output = output.ok().filter(|output| output.status.code() != Some(77));
    let output = output.filter(|output| !String::from_utf8_lossy(&output.stderr).contains("unshare:"));
    if output.is_none() {
        skipped("no user namespace with mounts here");
    }
    output
}

/// Creates a workspace with a volume.
fn workspace() -> Workspace {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("other.txt", "other\n")]);
    let volume = ws.outside.join("volume");
    fs::create_dir(ws.path("vol")).unwrap();
    fs::create_dir_all(volume.join("tree/deep")).unwrap();
    fs::write(volume.join("in.txt"), "in\n").unwrap();
    fs::write(volume.join("tree/one.txt"), "one\n").unwrap();
    fs::write(volume.join("tree/deep/two.txt"), "two\n").unwrap();
    std::os::unix::fs::symlink("one.txt", volume.join("tree/link")).unwrap();
    ws
}

/// Returns the answers of a script's calls.
fn answers(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks that every call of a script succeeded without a warning.
fn all_calls_must_succeed(output: &Output) {
    for answer in answers(output) {
        assert_eq!((&answer["ok"], &answer["warnings"]), (&Value::Bool(true), &Value::Null), "{answer}");
    }
}

/// Returns true if no temporary file is left.
fn is_tidy(ws: &Workspace) -> bool {
    let files = files_below(&ws.outside);
    let waits = |name: &str| {
        name.contains(".lbx-tmp-") || name.contains("/staging/") || name.contains("journal/open/")
    };
    !files.iter().any(|path| waits(&path.display().to_string()))
}

#[test]
fn every_change_works_within_and_across_mounts() {
    let ws = workspace();
    let before = ws.tree();
    let script = r"
        $LBX write vol/new.txt --content new
        $LBX read vol/in.txt >/dev/null
        $LBX edit vol/in.txt --old-string in --new-string IN
        $LBX append vol/in.txt --content more
        $LBX move vol/tree here/tree
        $LBX move a.txt vol/a.txt
        $LBX delete vol/in.txt
        $LBX delete vol/new.txt
        find here vol ! -type d | sort > ../found
        $LBX undo --steps 4
        $LBX redo --steps 4
        $LBX restore vol/in.txt
        $LBX undo --steps 8
    ";
    let Some(output) = with_mount(&ws, script) else { return };
    for answer in answers(&output) {
        assert_eq!(answer["ok"], true, "{answer}");
        assert_eq!(answer["warnings"], Value::Null, "{answer}");
    }
    let found = fs::read_to_string(ws.outside.join("found")).unwrap();
    assert_eq!(found, "here/tree/deep/two.txt\nhere/tree/link\nhere/tree/one.txt\nvol/a.txt\n");
    assert_eq!(ws.tree(), before, "{}", difference(&before, &ws.tree()));
    let volume = ws.outside.join("volume");
    assert_eq!(fs::read_to_string(volume.join("in.txt")).unwrap(), "in\n");
    assert_eq!(fs::read_to_string(volume.join("tree/deep/two.txt")).unwrap(), "two\n");
    assert_eq!(fs::read_link(volume.join("tree/link")).unwrap().to_str(), Some("one.txt"));
    assert!(!volume.join("new.txt").exists() && is_tidy(&ws));
}

#[test]
fn command_that_writes_a_file_that_is_a_mount_point_is_undone() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("d/b.txt", "b\n")]);
    let host = ws.outside.join("host");
    fs::write(&host, "host\n").unwrap();
    // A folder is written to as well, so that the command has other changes.
    let script = "cat a.txt >&2; $LBX bash --direct 'echo more >> a.txt; echo new > d/new'; cat a.txt >&2; $LBX undo; cat a.txt >&2";
    let mount = format!("mount --bind {} a.txt", host.display());
    let Some(output) = after_mount(&ws, &mount, script) else { return };
    let [command, undo] = answers(&output).try_into().unwrap();
    assert_eq!((&command["ok"], &undo["ok"]), (&true.into(), &true.into()), "{command} {undo}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "host\nhost\nmore\nhost\n", "{command} {undo}");
}

#[test]
fn killed_move_across_mounts_is_all_or_nothing() {
    let mut whole = [0; 2];
    for (call, count) in [("renameat", 8), ("renameat2", 5), ("unlinkat", 6), ("mkdirat", 8)] {
        for number in 1..=count {
            let ws = workspace();
            let script = format!(
                "strace -f -qq -o /dev/null -e trace={call} -e inject={call}:signal=SIGKILL:when={number} $LBX move vol/tree here >/dev/null 2>&1\n\
                 $LBX append other.txt --content more\n\
                 find here vol -type f | sort > ../found"
            );
            let Some(output) = with_mount(&ws, &script) else { return };
            all_calls_must_succeed(&output);
            let found = fs::read_to_string(ws.outside.join("found")).unwrap();
            let is_done = found == "here/deep/two.txt\nhere/one.txt\nvol/in.txt\n";
            assert!(
                is_done || found == "vol/in.txt\nvol/tree/deep/two.txt\nvol/tree/one.txt\n",
                "{call} {number}: {found}"
            );
            assert!(is_tidy(&ws), "{call} {number}: {:?}", files_below(&ws.outside));
            whole[usize::from(is_done)] += 1;
        }
    }
    assert!(whole.iter().all(|count| *count > 0), "{whole:?}");
}

/// Runs a script in a workspace on an overlay file system, as in a container; the lower layer is the workspace itself.
fn on_overlay(ws: &Workspace, script: &str) -> Option<Output> {
    for folder in ["upper", "work"] {
        fs::create_dir(ws.outside.join(folder)).unwrap();
    }
    let mount = format!(
        "mount -t overlay overlay -o lowerdir={root},upperdir={outside}/upper,workdir={outside}/work,userxattr {root} && cd {root}",
        root = ws.root.display(),
        outside = ws.outside.display()
    );
    after_mount(ws, &mount, script)
}

#[test]
fn first_change_on_an_overlay_makes_the_state_of_the_next() {
    let ws = Workspace::with(&[("a.txt", "a\n"), (".lbx/config.toml", "gate = 'warn'\n")]);
    // The root of a mount is never copied up, so the workspace is below it.
    let mount = "mkdir ../tree ../upper ../work && cp -a . ../tree/ws &&
        mount -t overlay o -o lowerdir=../tree,upperdir=../upper,workdir=../work,userxattr ../tree && cd ../tree/ws";
    let script = "unset LBX_STATE_ID
        $LBX append a.txt --content b
        $LBX append a.txt --content c
        $LBX undo --steps 2
        ls -d .lbx/????????????????????????????????";
    let Some(output) = after_mount(&ws, mount, script) else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (answers, states): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('{'));
    assert_eq!((answers.len(), states.len()), (3, 1), "{output:?}");
    for answer in answers {
        let answer: Value = serde_json::from_str(answer).unwrap();
        assert_eq!(answer["ok"], true, "{answer:#}");
    }
}

#[test]
fn lock_timeout_names_no_holder_of_a_file_on_another_device() {
    let ws = Workspace::with(&[("a.txt", "a\n")]);
    let mount = "mkdir ../one ../two && mount -t tmpfs one ../one && mount -t tmpfs two ../two &&
        cp -a . ../one/ws && cd ../one/ws";
    let script = "$LBX write b.txt --content x
        inode=$(stat -c %i .lbx/lock)
        number=0
        while [ $number -lt 1000 ] && [ x$(stat -c %i ../../two/$number 2>/dev/null) != x$inode ]; do
            number=$((number + 1))
            touch ../../two/$number
        done
        flock ../../two/$number sleep 30 & other=$!
        flock .lbx/lock sleep 30 & holder=$!
        sleep 0.5
        $LBX write c.txt --content x --set limits.lock_seconds=1
        kill $other $holder
        echo $holder $number";
    let Some(output) = after_mount(&ws, mount, script) else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let (holder, number) = lines[2].split_once(' ').unwrap();
    assert!(number.parse::<u32>().unwrap() < 1000, "{output:?}");
    let refused: Value = serde_json::from_str(lines[1]).unwrap();
    let wanted = format!("process {holder} (flock) held the lock of the workspace for 1 s");
    assert_eq!(refused["error"]["message"], wanted.as_str(), "{output:?}");
}

#[test]
fn folder_on_an_overlay_is_moved_deleted_and_restored() {
    let files = [("a.txt", "a\n"), ("tree/one.txt", "one\n"), ("tree/deep/two.txt", "two\n")];
    let ws = Workspace::with(&files);
    fs::create_dir_all(ws.path("empty/er")).unwrap();
    std::os::unix::fs::symlink("one.txt", ws.path("tree/link")).unwrap();
    ws.chmod("tree/deep", 0o750);
    let listing = "find . -path ./.git -prune -o -path ./.lbx -prune -o -printf '%P %M %l\\n' | sort";
    let script = format!(
        r"
        {listing} > ../before
        $LBX move tree new/place
        $LBX move empty new/er/empty
        $LBX delete new --recursive
        {listing} > ../gone
        $LBX restore new
        {listing} > ../restored
        $LBX undo --steps 4
        {listing} > ../after
        $LBX redo --steps 4
        {listing} > ../again
    "
    );
    let Some(output) = on_overlay(&ws, &script) else { return };
    let answers = answers(&output);
    assert_eq!(answers.len(), 6, "{}", String::from_utf8_lossy(&output.stderr));
    for answer in answers {
        assert_eq!((&answer["ok"], &answer["warnings"]), (&Value::Bool(true), &Value::Null), "{answer}");
    }
    let [before, gone, restored, after, again] = ["before", "gone", "restored", "after", "again"]
        .map(|name| fs::read_to_string(ws.outside.join(name)).unwrap());
    assert!(
        restored.contains("new/place/deep drwxr-x---") && restored.contains("new/er/empty/er d"),
        "{restored}"
    );
    assert!(
        restored.contains("new/place/link lrwxrwxrwx one.txt") && !gone.contains("new"),
        "{gone}{restored}"
    );
    assert_eq!((after, again), (before, restored));
}

#[test]
fn file_link_or_fifo_replaces_a_folder_on_an_overlay() {
    let ws = Workspace::with(&[("tree/one.txt", "one\n"), ("tree/deep/two.txt", "two\n")]);
    let listing = "find . -path ./.git -prune -o -path ./.lbx -prune -o -printf '%P %M %l\n' | sort";
    let script: String = ["echo x > tree", "head -c 5000000 /dev/zero > tree", "ln -s x tree", "mkfifo tree"]
        .map(|new| {
            format!(
                "{listing} > ../before
                 $LBX bash --set bash.backend=namespaces --transaction 'rm -r tree; {new}'
                 {listing} > ../done
                 $LBX undo
                 {listing} | diff ../before -
                 $LBX redo
                 {listing} | diff ../done -
                 $LBX undo
                 {listing} | diff ../before -
                 cat tree/deep/two.txt > ../content\n"
            )
        })
        .concat();
    let Some(output) = on_overlay(&ws, &script) else { return };
    // The output of `diff` is not an answer.
    for answer in answers(&output) {
        assert_eq!((&answer["ok"], &answer["warnings"]), (&Value::Bool(true), &Value::Null), "{answer:#}");
    }
    assert_eq!(answers(&output).len(), 16);
    assert_eq!(fs::read_to_string(ws.outside.join("content")).unwrap(), "two\n");
}

#[test]
fn undo_of_a_move_to_another_mount_leaves_nothing_there() {
    let ws = Workspace::with(&[("tree/one.txt", "one\n"), ("tree/deep/two.txt", "two\n")]);
    let script = r"
        mkdir vol; mount -t tmpfs tmpfs vol
        truncate -s 30M tree/sparse; printf end >> tree/sparse
        $LBX move tree vol/place
        $LBX undo
        find vol > ../left
        cat tree/deep/two.txt > ../content
        $LBX redo
        cat vol/place/deep/two.txt >> ../content
        tail -c 5 vol/place/sparse | tr '\0' 0 >> ../content
        [ $(du -k vol/place/sparse | cut -f 1) -lt 1000 ] && echo ' sparse' >> ../content
    ";
    let Some(output) = on_overlay(&ws, script) else { return };
    all_calls_must_succeed(&output);
    let [left, content] = ["left", "content"].map(|name| fs::read_to_string(ws.outside.join(name)).unwrap());
    assert_eq!((left.as_str(), content.as_str()), ("vol\n", "two\ntwo\n00end sparse\n"));
}

#[test]
fn fifos_and_sockets_move_to_another_file_system() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("old/f", "f\n")]);
    make_fifo(&ws.path("pipe"));
    if ws.root.starts_with("/dev/shm") {
        skipped("it needs a /dev/shm of its own");
        return;
    }
    // The layer of a transaction is in memory here, so all its files come from another file system.
    let socket = r#"python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\"s\")""#;
    let command =
        format!("umask 0; mkfifo -m 620 p; mkdir d; mkfifo d/q; rm -r old; mkfifo old; rm pipe; {socket}");
    let listing = "find . -path ./.git -prune -o -path ./.lbx -prune -o -printf '%P %M\\n' | sort";
    let script = format!(
        r"
        mount -t tmpfs -o size=100m tmpfs /dev/shm
        {listing} > ../before
        $LBX bash --set bash.backend=namespaces --transaction '{command}'
        {listing} > ../done
        $LBX undo
        {listing} > ../after
        $LBX redo
        {listing} > ../again
        mkdir vol; mount -t tmpfs tmpfs vol
        $LBX move d vol/d
        $LBX move p vol/p
        find vol -printf '%P %M\n' | sort > ../moved
        $LBX undo --steps 2
        find vol -printf '%P %M\n' | sort > ../back
        {listing} > ../left
    "
    );
    let Some(output) = on_overlay(&ws, &script) else { return };
    let answers = answers(&output);
    assert_eq!(answers.len(), 6, "{}", String::from_utf8_lossy(&output.stderr));
    for answer in answers {
        assert_eq!(answer["ok"], true, "{answer:#}");
    }
    let [before, done, after, again, moved, back, left] =
        ["before", "done", "after", "again", "moved", "back", "left"]
            .map(|name| fs::read_to_string(ws.outside.join(name)).unwrap());
    for made in ["p prw--w----", "d/q prw-rw-rw-", "old prw-rw-rw-", "s srwxrwxrwx"] {
        assert!(done.lines().any(|line| line == made), "{made}: {done}");
    }
    assert!(!done.contains("pipe"), "{done}");
    assert_eq!((&after, &again), (&before, &done));
    assert!(moved.contains("d/q prw-rw-rw-") && moved.contains("p prw--w----"), "{moved}");
    assert_eq!((back.lines().count(), left.contains("d/q prw-rw-rw-")), (1, true), "{back}{left}");
}

#[test]
fn transaction_on_an_overlay_is_one_change_and_frees_memory() {
    let ws = Workspace::with(&[
        ("a.txt", "a\n"),
        ("b.txt", "b\n"),
        ("tree/one.txt", "one\n"),
        ("tree/deep/two.txt", "two\n"),
        (".gitignore", "*.log\n"),
    ]);
    if ws.root.starts_with("/dev/shm") {
        skipped("it needs a /dev/shm of its own");
        return;
    }
    let command = "echo more >> a.txt; rm -r tree; mkdir n; echo n > n/x; chmod 600 b.txt; echo log > x.log; \
                   head -c 5000000 /dev/zero > big; mkdir many; for i in $(seq 1100); do echo $i > many/$i; done";
    let listing = "find . -path ./.git -prune -o -path ./.lbx -prune -o -mindepth 1 \
                   \\( -type d -printf '%P %M\\n' -o -printf '%P %M %s %l\\n' \\) | sort";
    let run = format!("$LBX bash --set bash.backend=namespaces --transaction '{command}'");
    let script = format!(
        r"
        mount -t tmpfs -o size=100m tmpfs /dev/shm
        {listing} > ../before
        {run}
        {listing} > ../done
        cat n/x a.txt many/1100 > ../content
        $LBX undo
        {listing} > ../after
        $LBX redo
        {listing} > ../again
        $LBX bash --set bash.backend=namespaces --dry-run 'rm -r many'
        ls -A /dev/shm > ../left
        $LBX bash --set bash.backend=namespaces --transaction 'echo > made; sleep 60' >/dev/null 2>&1 &
        for i in $(seq 1000); do [ -e /dev/shm/*/upper/made ] && break; sleep 0.02; done
        kill -9 $!
        ls -A /dev/shm | wc -l > ../killed
        $LBX bash --layer $(ls -A /dev/shm | sed s/^lbx-//) --drop
        ls -A /dev/shm >> ../left
        mount -t tmpfs -o size=2m tmpfs /dev/shm
        $LBX bash --set bash.backend=namespaces --transaction 'head -c 3000000 /dev/zero > full; rm full; head -c 2500000 /dev/zero > full'
        mount -t ramfs ramfs /dev/shm
        $LBX bash --set bash.backend=namespaces --transaction true
    "
    );
    let Some(output) = on_overlay(&ws, &script) else { return };
    let answers = answers(&output);
    assert_eq!(answers.len(), 7, "{}", String::from_utf8_lossy(&output.stderr));
    for answer in &answers[..5] {
        assert_eq!(answer["ok"], true, "{answer:#}");
    }
    let files = ["before", "done", "after", "again", "content", "killed", "left"];
    let [before, done, after, again, content, killed, left] =
        files.map(|name| fs::read_to_string(ws.outside.join(name)).unwrap());
    assert_eq!(content, "n\na\nmore\n1100\n");
    assert!(done.contains("b.txt -rw-------") && done.contains("big -rw-r--r-- 5000000"), "{done}");
    assert!(!done.contains("tree"), "{done}");
    assert_eq!((&after, &again), (&before, &done));
    assert_eq!(
        (killed.trim(), left.as_str()),
        ("1", ""),
        "what is in memory goes with the call, or the next one"
    );
    let told = answers[5]["warnings"].to_string();
    assert!(told.contains("used up 2 MiB of memory in /dev/shm"), "{:#}", answers[5]);
    let error = &answers[6]["error"];
    assert_eq!(error["kind"], "invalid_request", "{error:#}");
    assert!(error["message"].as_str().unwrap().contains("/dev/shm is not in memory"), "{error:#}");
    assert!(error["suggested_action"].as_str().unwrap().contains("volume of the container"), "{error:#}");
}

#[test]
fn killed_move_on_an_overlay_is_all_or_nothing() {
    let mut whole = [0; 2];
    for (call, count) in [("renameat", 8), ("renameat2", 6), ("unlinkat", 6), ("mkdirat", 8)] {
        for number in 1..=count {
            let ws =
                Workspace::with(&[("other.txt", "other\n"), ("tree/one", "1\n"), ("tree/deep/two", "2\n")]);
            let script = format!(
                "strace -f -qq -o /dev/null -e trace={call} -e inject={call}:signal=SIGKILL:when={number} $LBX move tree here >/dev/null 2>&1\n\
                 $LBX append other.txt --content more\n\
                 find . -path ./.git -prune -o -path ./.lbx -prune -o -mindepth 1 -printf '%P\\n' | sort > ../found"
            );
            let Some(output) = on_overlay(&ws, &script) else { return };
            all_calls_must_succeed(&output);
            let found = fs::read_to_string(ws.outside.join("found")).unwrap();
            let is_done = found == "here\nhere/deep\nhere/deep/two\nhere/one\nother.txt\n";
            assert!(
                is_done || found == "other.txt\ntree\ntree/deep\ntree/deep/two\ntree/one\n",
                "{call} {number}: {found}"
            );
            whole[usize::from(is_done)] += 1;
        }
    }
    assert!(whole.iter().all(|count| *count > 0), "{whole:?}");
}

#[test]
fn bash_on_a_full_disk_names_its_snapshot() {
    let ws = Workspace::with(&[]);
    let mount = "mkdir ../small && mount -t tmpfs -o size=3m tmpfs ../small && cd ../small";
    let script = r"
        git init -q . && echo one > a.txt
        $LBX bash --direct 'echo two > a.txt; cat /dev/zero > fill' | tee ../answer
        rm fill
        $LBX snapshot
        $LBX diff --from $(grep -o 'diff --from [0-9a-f]*' ../answer | head -n 1 | cut -d ' ' -f 3)
    ";
    let Some(output) = after_mount(&ws, mount, script) else { return };
    let answers = answers(&output);
    assert_eq!(answers.len(), 3, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        (&answers[0]["ok"], &answers[0]["data"]["changed"]),
        (&true.into(), &Value::Null),
        "{:#}",
        answers[0]
    );
    let told = answers[0]["warnings"].to_string();
    assert!(
        told.contains("what this command changed is not recorded, and undo does not take it back"),
        "{told}"
    );
    assert!(told.contains("the old bytes are in the snapshot"), "{told}");
    let diff = answers[2]["data"]["diff"].to_string();
    assert!(diff.contains("-one") && diff.contains("+two"), "{:#}", answers[2]);
}

#[test]
fn changes_are_recorded_where_git_can_only_be_read() {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("b.txt", "b\n")]);
    let script = r"
        $LBX bash --direct 'echo two > a.txt; rm b.txt'
        $LBX undo
        $LBX log
        $LBX squash -m Mine > squashed || true
    ";
    let mount = "mount --bind .git .git && mount -o remount,ro,bind .git";
    let Some(output) = after_mount(&ws, mount, script) else { return };
    all_calls_must_succeed(&output);
    let answers = answers(&output);
    assert_eq!(answers[0]["data"]["changed"].as_array().unwrap().len(), 2, "{:#}", answers[0]);
    let tools: Vec<&str> = answers[2]["data"]["snapshots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|snapshot| snapshot["tool"].as_str().unwrap())
        .collect();
    assert_eq!(tools[..2], ["undo", "bash"], "{:#}", answers[2]);
    ws.holds("a.txt", "one\n");
    ws.holds("b.txt", "b\n");
    assert_eq!(ws.git(&["branch", "--list", "lbx-snapshots"]), "");
    let squashed: Value = serde_json::from_slice(&ws.read_bytes("squashed")).unwrap();
    assert_eq!(squashed["error"]["kind"], "permission_denied", "{squashed:#}");
    assert_eq!(
        squashed["error"]["message"],
        "no commit was made: .git cannot be written, so snapshots go elsewhere"
    );
}

#[test]
fn edited_file_on_another_mount_gets_nothing_from_its_folder() {
    if !is_installed("setfacl") {
        return skipped("no setfacl");
    }
    let ws = workspace();
    let script = r"
        mkdir vol/k && setfacl -d -m u:0:rw vol/k && echo one > vol/k/t && setfacl -b vol/k/t && chmod 640 vol/k/t
        $LBX append vol/k/t --content two > /dev/null
        getfacl -cs vol/k/t
    ";
    let Some(output) = after_mount(&ws, "mount -t tmpfs tmpfs vol", script) else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "a list of more than the mode");
}
