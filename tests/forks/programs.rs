//! Programs that know nothing of lbx, in a fork.

use std::io::{BufRead as _, Write as _};

use crate::created::{forked, shell, within};

#[test]
fn program_in_a_fork_cannot_write_the_workspace() {
    let Some(ws) = forked(&["one"]) else { return };
    let before = ws.tree();
    let root = ws.root.display();
    let script = format!(
        "echo mine > src/a.txt; rm -r docs; echo x >> .env; echo h > .git/index; \
         umount {root}; umount -l {root}; unshare -Ur umount -l {root}; unshare -Urm umount -l {root}; \
         echo out > /proc/1/root{root}/src/a.txt; echo out > /proc/{}/root{root}/src/a.txt; pwd; cat src/a.txt",
        std::process::id()
    );
    assert_eq!(shell(&ws, "one", &script), format!("{root}\nmine\n"));
    assert_eq!(ws.tree(), before);
    ws.git(&["status"]);
}

#[test]
fn program_in_a_fork_reads_git_but_writes_no_history() {
    let Some(ws) = forked(&["one"]) else { return };
    let script = "git status --short; git log --format=%s; git rev-parse --abbrev-ref HEAD";
    assert_eq!(shell(&ws, "one", script), " M src/a.txt\nfirst\nmain\n");
    let tried = [
        "git commit -qam no",
        "git checkout -q -b other",
        "git reset -q --hard HEAD~0 && git update-ref refs/heads/main HEAD^{tree}",
        "git config core.hooksPath /tmp",
        "echo x > .git/hooks/pre-commit",
        "git branch -f main HEAD",
    ];
    for command in tried {
        let denied = shell(&ws, "one", &format!("{command} 2>/dev/null || echo denied"));
        assert!(denied.ends_with("denied\n"), "{command}: {denied}");
    }
    assert_eq!(shell(&ws, "one", "git log --format=%s"), "first\n");
}

#[test]
fn commits_in_the_workspace_do_not_move_the_head_of_a_fork() {
    let Some(ws) = forked(&["one"]) else { return };
    ws.git(&["commit", "-qam", "second"]);
    ws.git(&["checkout", "-q", "-b", "topic"]);
    ws.git(&["gc", "-q"]);
    assert_eq!(
        shell(&ws, "one", "git log --format=%s; cat .git/HEAD; git status --short"),
        "first\nref: refs/heads/main\n M src/a.txt\n"
    );
}

#[test]
fn program_in_a_fork_keeps_its_folder_status_and_session() {
    let Some(ws) = forked(&["one"]) else { return };
    let program = ["fork", "exec", "one", "--", "sh", "-c", "pwd; echo $LBX_SESSION; exit 42"];
    let ran = ws.call(&program).in_folder(&ws.path("src")).spawn().wait_with_output().unwrap();
    assert_eq!(ran.status.code(), Some(42));
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("{}\none\n", ws.path("src").display()));
    let missing =
        ws.call(&["fork", "exec", "one", "--", "no-such-program"]).spawn().wait_with_output().unwrap();
    assert_eq!(missing.status.code(), Some(125));
    let told = String::from_utf8(missing.stderr).unwrap();
    assert!(told.contains("no-such-program"), "{told}");
}

#[test]
fn running_program_does_not_see_later_changes() {
    let Some(ws) = forked(&["one"]) else { return };
    let script = "ls src docs >/dev/null; echo started; read line; cat src/a.txt src/b.txt; ls -A . src docs";
    let mut running =
        ws.call(&["fork", "exec", "one", "--", "sh", "-c", script]).stdin_never_closes().spawn();
    let mut stdout = std::io::BufReader::new(running.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut String::new()).unwrap();
    ws.lbx(&["read", "src/a.txt"]).ok();
    ws.lbx(&["edit", "src/a.txt", "--old-string", "two", "--new-string", "later"]).ok();
    ws.lbx(&["write", "src/later.txt", "--content", "later"]).ok();
    ws.lbx(&["delete", "src/b.txt"]).ok();
    ws.lbx(&["move", "docs/c.md", "docs/later.md"]).ok();
    ws.lbx(&["write", "later/new.txt", "--content", "later"]).ok();
    std::io::Write::write_all(running.stdin.as_mut().unwrap(), b"go\n").unwrap();
    let mut seen = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut seen).unwrap();
    running.wait().unwrap();
    assert!(seen.starts_with("one\ntwo\nthree\nuncommitted\nb\n"), "{seen}");
    assert!(!seen.contains("later"), "{seen}");
}

#[test]
fn lbx_works_inside_a_program_of_a_fork() {
    let Some(ws) = forked(&["one"]) else { return };
    let lbx = crate::common::LBX;
    let script = format!(
        "{lbx} write in.txt --content 1 >/dev/null; {lbx} bash 'cat in.txt > out.txt' >/dev/null; cat in.txt out.txt; {lbx} undo --text"
    );
    assert_eq!(shell(&ws, "one", &script), "11undo: bash: out.txt (change 2)\n");
    let log = ws.git(&["log", "--format=%s", "--all", "--", "in.txt"]);
    assert_eq!(log, "", "the snapshots of a fork are in the workspace's repository");
}

#[test]
fn running_batch_in_a_fork_does_not_see_later_changes() {
    let Some(ws) = forked(&["one"]) else { return };
    let mut running = ws.call(&["--sandbox", "one", "batch"]).stdin_never_closes().spawn();
    let mut stdout = std::io::BufReader::new(running.stdout.take().unwrap());
    let mut ask = |request: &str| {
        writeln!(running.stdin.as_mut().unwrap(), "{request}").unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        serde_json::from_str::<serde_json::Value>(&line).unwrap()
    };
    let listed = ask(r#"{"tool":"ls","request":{"path":"src"}}"#);
    ws.lbx(&["write", "src/later.txt", "--content", "later"]).ok();
    ws.lbx(&["read", "src/b.txt"]).ok();
    ws.lbx(&["edit", "src/b.txt", "--old-string", "b", "--new-string", "later"]).ok();
    assert_eq!(ask(r#"{"tool":"ls","request":{"path":"src"}}"#)["data"], listed["data"]);
    assert_eq!(ask(r#"{"tool":"read","request":{"path":"src/b.txt"}}"#)["data"]["content"], "b\n");
    drop(running.stdin.take());
    running.wait().unwrap();
}

#[test]
fn calls_and_programs_share_one_mount_of_a_fork() {
    let Some(ws) = forked(&["one"]) else { return };
    let script =
        "echo started; read line; cat outside.txt; echo mine >> src/b.txt && rm docs/c.md && echo fine";
    let mut running =
        ws.call(&["fork", "exec", "one", "--", "sh", "-c", script]).stdin_never_closes().spawn();
    let mut stdout = std::io::BufReader::new(running.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let ws = &ws;
            scope.spawn(move || {
                let line = format!("{number}\n");
                within(ws, "one", &["append", "outside.txt", "--content", &line]).ok();
            });
        }
    });
    writeln!(running.stdin.as_mut().unwrap(), "go").unwrap();
    let mut seen = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut seen).unwrap();
    running.wait().unwrap();
    assert!(seen.lines().count() == 7 && seen.ends_with("fine\n"), "{seen}");
    assert_eq!(shell(&ws, "one", "cat src/b.txt; wc -l < outside.txt; ls docs"), "b\nmine\n6\n");
}
