//! `sandbox`: named workspaces, here and in containers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::{Call, PATH_FIXED, Workspace, is_root, skipped};

#[test]
fn tools_accept_a_sandbox_name() {
    let ws = Workspace::with(&[("a.txt", "here\n")]);
    let other = Workspace::with(&[("a.txt", "there\n")]);
    let root = other.root.to_str().unwrap();
    let made = ws.lbx(&["sandbox", "create", "My App!", "--root", root]).ok();
    assert_eq!(made["sandboxes"], json!([{ "name": "my-app", "root": root }]));
    // Repeating it is not an error; another root is.
    ws.lbx(&["sandbox", "create", "my app", "--root", root]).ok();
    ws.lbx(&["sandbox", "create", "my-app", "--root", "."]).error("already_exists");
    assert_eq!(ws.lbx(&["sandbox", "list"]).ok()["sandboxes"][0]["name"], "my-app");
    for name in ["my-app", "My App!", "MY_APP"] {
        assert_eq!(ws.lbx(&["read", "a.txt", "--sandbox", name]).ok()["content"], "there\n", "{name}");
        assert_eq!(ws.lbx(&["--sandbox", name, "glob", "*.txt"]).ok()["paths"], json!(["a.txt"]));
        let by_field = ws.json("read", &json!({ "path": "a.txt", "sandbox": name })).ok();
        assert_eq!(by_field["content"], "there\n");
    }
    let variable = ws.call(&["read", "a.txt"]).env("LBX_SANDBOX", "my-app").run().ok();
    assert_eq!(variable["content"], "there\n");
    let edit = ["edit", "a.txt", "--old-string", "there", "--new-string", "elsewhere", "--sandbox", "my-app"];
    ws.lbx(&edit).success();
    other.holds("a.txt", "elsewhere\n");
    ws.holds("a.txt", "here\n");
    assert_eq!(
        ws.lbx(&["bash", "--sandbox", "my-app", "cat a.txt"]).success()["data"]["stdout"],
        "elsewhere\n"
    );
    let lines = "{\"tool\":\"read\",\"request\":{\"path\":\"a.txt\",\"sandbox\":\"my-app\"}}\n{\"tool\":\"read\",\"request\":{\"path\":\"a.txt\"}}\n";
    let batch = ws.lbx_stdin(&["batch"], lines);
    let answers: Vec<Value> = batch
        .stdout()
        .split(|&byte| byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    let contents: Vec<&Value> = answers.iter().map(|answer| &answer["data"]["content"]).collect();
    assert_eq!(contents, [&json!("elsewhere\n"), &json!("here\n")]);
    // The name is removed, and the files stay.
    ws.lbx(&["sandbox", "remove", "My-App"]).ok();
    other.holds("a.txt", "elsewhere\n");
    ws.lbx(&["read", "a.txt", "--sandbox", "my-app"]).error("sandbox_not_found");
}

#[test]
fn unknown_sandbox_error_suggests_similar_names() {
    let ws = Workspace::with(&[("a.txt", "here\n")]);
    for name in ["frontend", "backend", "docs"] {
        ws.lbx(&["sandbox", "create", name, "--root", "."]).ok();
    }
    let error = ws.lbx(&["read", "a.txt", "--sandbox", "Front End"]).error("sandbox_not_found");
    assert_eq!(error["message"], "sandbox not found: front-end");
    assert_eq!(error["details"]["near"][0], "frontend", "{error:#}");
    ws.lbx(&["sandbox", "remove", "nothing-like-it"]).error("sandbox_not_found");
    ws.json("read", &json!({ "path": "a.txt", "sandbox": "xyz" })).error("sandbox_not_found");
    for wrong in ["", "../..", "---"] {
        ws.lbx(&["sandbox", "create", wrong, "--root", "."]).error("invalid_request");
    }
    ws.lbx(&["sandbox", "create", "x"]).error("invalid_request");
    ws.lbx(&["sandbox", "create", "x", "--root", "none"]).error("not_found");
    ws.lbx(&["sandbox", "create", "x", "--root", ".git"]).error("protected_path");
    // A missing name does not prevent listing the others.
    let listed = ws.call(&["sandbox", "list"]).env("LBX_SANDBOX", "gone").run().ok();
    assert_eq!(listed["sandboxes"].as_array().unwrap().len(), 3);
}

#[test]
fn concurrently_created_sandboxes_are_all_kept() {
    let ws = Workspace::with(&[]);
    let makers: Vec<_> = (0..12)
        .map(|number| ws.call(&["sandbox", "create", &format!("s{number}"), "--root", "."]).spawn())
        .collect();
    for maker in makers {
        assert!(maker.wait_with_output().unwrap().status.success());
    }
    assert_eq!(ws.lbx(&["sandbox", "list"]).ok()["sandboxes"].as_array().unwrap().len(), 12);
}

#[test]
fn damaged_sandbox_list_fails_only_sandbox_calls() {
    let ws = Workspace::with(&[("a.txt", "here\n")]);
    let file = ws.outside.join("home/.local/state/lbx/sandboxes.json");
    for text in ["{", "{\"version\":99,\"sandboxes\":{}}", ""] {
        fs::write(&file, text).unwrap();
        ws.lbx(&["sandbox", "list"]).error("io_error");
        ws.lbx(&["read", "a.txt", "--sandbox", "x"]).error("io_error");
        ws.lbx(&["read", "a.txt"]).ok();
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "it is left as it is");
    }
}

/// Returns an engine with `exec` and `cp` like podman's, whose containers are folders; `None` if that is not possible.
fn engine(ws: &Workspace) -> Option<PathBuf> {
    if !is_root() {
        return None;
    }
    let programs = ws.outside.join("programs");
    let container = ws.outside.join("containers/one");
    for folder in ["tmp", "src", "root"] {
        fs::create_dir_all(container.join(folder)).unwrap();
    }
    fs::create_dir(&programs).unwrap();
    let containers = ws.outside.join("containers");
    let script = format!(
        "#!/bin/bash\n\
         case $1 in\n\
         exec) root={0}/$3; shift 3; [ -d $root ] || {{ echo \"no such container\" >&2; exit 125; }}\n\
         [ -x $root$1 ] || exit 127\n\
         exec env -i PATH=/bin:/usr/bin HOME=/root /usr/sbin/chroot $root \"$@\";;\n\
         cp) exec cp -L \"$2\" {0}/${{3%%:*}}${{3#*:}};;\n\
         esac\n",
        containers.display()
    );
    write_program(&programs.join("engine"), &script);
    Some(container)
}

/// Writes a program.
fn write_program(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Prepares a call that finds the engine.
fn with_engine(ws: &Workspace, arguments: &[&str]) -> Call {
    let path = format!("{}:{PATH_FIXED}", ws.outside.join("programs").display());
    ws.call(arguments).env("PATH", path)
}

#[test]
fn tools_work_on_the_files_of_a_container() {
    let ws = Workspace::with(&[("a.txt", "here\n")]);
    let Some(container) = engine(&ws) else { return };
    fs::write(container.join("src/a.txt"), "inside\n").unwrap();
    let create = ["sandbox", "create", "Box", "--container", "engine:one"];
    let made = with_engine(&ws, &create).run().ok();
    assert_eq!(made["sandboxes"], json!([{ "name": "box", "root": "/src", "container": "engine:one" }]));
    let call = |arguments: &[&str]| with_engine(&ws, &[&["--sandbox", "box"], arguments].concat());
    assert_eq!(call(&["read", "a.txt"]).run().ok()["content"], "inside\n");
    assert_eq!(call(&["read", "/src/a.txt"]).run().ok()["content"], "inside\n");
    call(&["read", "../etc/passwd"]).run().error("outside_workspace");
    call(&["edit", "a.txt", "--old-string", "inside", "--new-string", "it's; \"inside\""]).run().success();
    call(&["write", "sub/new.txt"]).stdin("from\nstdin\n").run().success();
    assert_eq!(fs::read(container.join("src/a.txt")).unwrap(), b"it's; \"inside\"\n");
    assert_eq!(fs::read(container.join("src/sub/new.txt")).unwrap(), b"from\nstdin\n");
    call(&["undo"]).run().success();
    assert!(!container.join("src/sub/new.txt").exists());
    assert_eq!(call(&["read", "-t", "a.txt"]).run().stdout(), b"it's; \"inside\"\n");
    let by_field = json!({ "path": "a.txt", "sandbox": "box" }).to_string();
    assert_eq!(with_engine(&ws, &["read", "--json", &by_field]).run().ok()["content"], "it's; \"inside\"\n");
    let refused = json!({ "path": "none.txt", "sandbox": "box" }).to_string();
    let error = with_engine(&ws, &["read", "--json", &refused]).run().error("not_found");
    assert_eq!(error["path"], "none.txt");
    ws.holds("a.txt", "here\n");
    // Its binary is copied again if it is missing.
    for entry in fs::read_dir(container.join("tmp")).unwrap().flatten() {
        fs::remove_file(entry.path()).unwrap();
    }
    assert_eq!(call(&["glob", "*.txt"]).run().ok()["paths"], json!(["a.txt"]));
    // A missing container is reported.
    fs::rename(&container, ws.outside.join("gone")).unwrap();
    let error = call(&["read", "a.txt"]).run().error("io_error");
    assert!(error["message"].as_str().unwrap().contains("no such container"), "{error:#}");
    with_engine(&ws, &["read", "--json", &by_field]).run().error("io_error");
    with_engine(&ws, &["sandbox", "create", "c", "--container", "engine:none"]).run().error("io_error");
    with_engine(&ws, &["sandbox", "create", "c", "--container", "engine"]).run().error("invalid_request");
}

#[test]
fn container_engine_is_never_run_from_a_workspace() {
    let ws = Workspace::with(&[("a.txt", "here\n")]);
    let evil = ws.outside.join("evil");
    let link = ws.outside.join("link");
    std::os::unix::fs::symlink(&ws.root, &link).unwrap();
    ws.write("venv/bin/engine", "");
    write_program(&ws.path("venv/bin/engine"), &format!("#!/bin/sh\ntouch {}\n", evil.display()));
    let path = format!("{}:{PATH_FIXED}", link.join("venv/bin").display());
    for words in [["--container", "engine:one"], ["--exec", "engine exec one"]] {
        let create = [&["sandbox", "create", "c"][..], &words].concat();
        let error = ws.call(&create).env("PATH", &path).run().error("io_error");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("venv/bin/engine lies in a workspace"), "{error:#}");
        assert!(!evil.exists(), "{words:?}");
    }
}

#[test]
fn sandbox_can_be_reached_by_an_exec_command() {
    let ws = Workspace::with(&[]);
    let Some(container) = engine(&ws) else { return };
    fs::write(container.join("src/a.txt"), "inside\n").unwrap();
    // Copying a file in uses a shell in the container.
    fs::create_dir(container.join("bin")).unwrap();
    let Some(busybox) =
        ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists())
    else {
        skipped("no busybox");
        return;
    };
    fs::copy(busybox, container.join("bin/busybox")).unwrap();
    for name in ["sh", "cat", "chmod"] {
        std::os::unix::fs::symlink("busybox", container.join("bin").join(name)).unwrap();
    }
    let exec = format!("env -i PATH=/bin HOME=/root /usr/sbin/chroot {}", container.display());
    ws.lbx(&["sandbox", "create", "far", "--exec", &exec]).ok();
    assert_eq!(ws.lbx(&["read", "a.txt", "--sandbox", "far"]).ok()["content"], "inside\n");
}

#[test]
fn server_call_can_name_another_sandbox() {
    use std::io::{BufRead as _, BufReader, Write as _};
    let ws = Workspace::with(&[("a.txt", "here\n")]);
    let other = Workspace::with(&[("a.txt", "there\n")]);
    ws.lbx(&["sandbox", "create", "other", "--root", other.root.to_str().unwrap()]).ok();
    let container = engine(&ws);
    let mut servers = vec![(vec!["mcp"], "here\n")];
    if let Some(container) = &container {
        fs::write(container.join("src/a.txt"), "inside\n").unwrap();
        with_engine(&ws, &["sandbox", "create", "box", "--container", "engine:one"]).run().ok();
        servers.push((vec!["--sandbox", "box", "mcp"], "inside\n"));
    }
    for (arguments, own) in servers {
        let mut server = with_engine(&ws, &arguments).stdin_never_closes().spawn();
        let mut to = server.stdin.take().unwrap();
        let mut from = BufReader::new(server.stdout.take().unwrap()).lines();
        let initialize = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        writeln!(
            to,
            "{}",
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize })
        )
        .unwrap();
        from.next().unwrap().unwrap();
        writeln!(to, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
        let mut read = |arguments: Value| {
            let params = json!({ "name": "read", "arguments": arguments });
            writeln!(
                to,
                "{}",
                json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params })
            )
            .unwrap();
            serde_json::from_str::<Value>(&from.next().unwrap().unwrap()).unwrap()["result"].clone()
        };
        assert_eq!(read(json!({ "path": "a.txt" }))["structuredContent"]["content"], own);
        if own == "here\n" {
            let there = read(json!({ "path": "a.txt", "sandbox": "other" }));
            assert_eq!(there["structuredContent"]["content"], "there\n", "{there:#}");
            let none = read(json!({ "path": "a.txt", "sandbox": "none" }));
            assert!(
                none["isError"] == true && none.to_string().contains("sandbox not found: none"),
                "{none:#}"
            );
            if container.is_some() {
                let inside = read(json!({ "path": "a.txt", "sandbox": "box" }));
                assert_eq!(inside["structuredContent"]["content"], "inside\n", "{inside:#}");
            }
        }
        drop(to);
        server.wait().unwrap();
    }
}

#[test]
fn server_reaches_only_sandboxes_listed_on_its_command_line() {
    let ws = Workspace::with(&[("a.txt", "here\n")]);
    for name in ["box", "other"] {
        let folder = ws.outside.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a.txt"), name).unwrap();
        ws.lbx(&["sandbox", "create", name, "--root", folder.to_str().unwrap()]).ok();
    }
    let root = ws.root.to_str().unwrap();
    let read = |flags: &[&str], name: &str| {
        let initialize = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let call = json!({ "name": "read", "arguments": { "path": "a.txt", "sandbox": name } });
        let messages = [
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }),
        ];
        let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
        let answers = ws.lbx_stdin(&[&["mcp", "--workspace", root], flags].concat(), text).lines();
        answers[1]["result"].to_string()
    };
    let refused = read(&[], "box");
    assert!(refused.contains("this server serves one workspace, and not the sandbox box"), "{refused}");
    assert!(read(&[], "").contains("here"));
    assert!(read(&["--sandboxes", "box"], "box").contains("\"content\":\"box\""));
    assert!(read(&["--sandboxes", "box"], "other").contains("sandbox_not_found"));
}
