//! Files outside the workspace that a command sees: programs, toolchains, and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::common::{Answer, PATH_FIXED, Workspace};
use crate::confined::{as_unprivileged_user, guarded};
use crate::support::{all_backends, backends, bash, with};

/// Connects to the socket given as the last argument.
const CONNECT: &str = "python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])'";

/// Returns the backends that confine, including those with gaps.
fn confining() -> Vec<&'static str> {
    all_backends().iter().copied().filter(|name| *name != "none").collect()
}

/// Returns the output of a command.
fn output(ws: &Workspace, backend: &str, command: &str) -> String {
    printed(&bash(ws, backend, command))
}

/// Returns the output in an answer.
fn printed(answer: &Answer) -> String {
    answer.success()["data"]["stdout"].as_str().unwrap().to_owned()
}

/// Checks that a command fails and that its answer shows no secret.
fn refused(answer: &Answer, what: &str) {
    let answer = answer.success();
    assert_ne!(answer["data"]["exit_code"], 0, "{what}: {answer:#}");
    assert!(!answer.to_string().contains("SECRET"), "{what}: {answer:#}");
}

#[test]
fn rest_of_the_disk_is_hidden_from_commands() {
    for backend in confining() {
        let ws = guarded();
        let home = ws.outside.join("home");
        for path in [".claude.json", "Documents/plan", ".config/Code/state", ".histories", ".ssh/config"] {
            fs::create_dir_all(home.join(path).parent().unwrap()).unwrap();
            fs::write(home.join(path), "SECRET\n").unwrap();
        }
        fs::create_dir(ws.outside.join("other")).unwrap();
        fs::write(ws.outside.join("other/project"), "SECRET\n").unwrap();
        for command in [
            "cat ~/.claude.json",
            "cat ~/Documents/plan",
            "cat ~/.config/Code/state",
            "cat ~/.histories",
            "cat ../other/project",
            "cat /etc/machine-id /etc/shadow",
            "ls /var/log",
            "ls /home /srv /mnt /media /boot && false",
            "cat /var/lib/dbus/machine-id",
            "grep -r SECRET ~ .. 2>/dev/null",
        ] {
            refused(&bash(&ws, backend, command), &format!("{backend}: {command}"));
        }
    }
    for backend in backends() {
        let ws = guarded();
        fs::write(ws.outside.join("home/.bash_history"), "SECRET\n").unwrap();
        assert_eq!(
            output(&ws, backend, "ls -A ~; ls -A /run | grep -v lbx; ls -A ..; true"),
            ".cache\n.npm\ngo\nhome\nws\n",
            "{backend}"
        );
        let roots = output(&ws, backend, "ls /root /var/lib 2>/dev/null; true");
        assert!(!roots.contains("docker") && !roots.contains("systemd"), "{backend}: {roots}");
    }
}

#[test]
fn toolchains_in_the_home_are_read_only() {
    for backend in confining() {
        let ws = guarded();
        let home = ws.outside.join("home");
        for folder in
            [".cargo/bin", ".nvm/versions", ".local/bin", ".local/share/uv", ".local/share/keyrings"]
        {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        fs::write(home.join(".cargo/bin/tool"), "#!/bin/sh\necho worked\n").unwrap();
        fs::set_permissions(home.join(".cargo/bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(home.join(".cargo/credentials.toml"), "SECRET\n").unwrap();
        fs::write(home.join(".local/share/keyrings/login"), "SECRET\n").unwrap();
        fs::write(home.join(".gitconfig"), "[user]\nname = Ada\n").unwrap();
        // Package managers often make their folder a symlink.
        fs::create_dir(ws.outside.join("go-1.19")).unwrap();
        fs::write(ws.outside.join("go-1.19/VERSION"), "go1.19\n").unwrap();
        std::os::unix::fs::symlink("../go-1.19", home.join("go")).unwrap();
        let command =
            "~/.cargo/bin/tool; git config user.name; cat ~/go/VERSION; ls -d ~/.nvm/versions > /dev/null";
        assert_eq!(output(&ws, backend, command), "worked\nAda\ngo1.19\n", "{backend}");
        for command in [
            "cat ~/.cargo/credentials.toml && [ -s ~/.cargo/credentials.toml ]",
            "cat ~/.local/share/keyrings/login",
            "echo x > ~/.cargo/bin/tool",
            "echo x > ~/.nvm/versions/new",
            "echo x > ~/new",
        ] {
            refused(&bash(&ws, backend, command), &format!("{backend}: {command}"));
        }
    }
}

#[test]
fn environment_variables_show_toolchains_but_never_the_home() {
    for backend in confining() {
        let ws = guarded();
        let tool = ws.outside.join("venv");
        for folder in ["bin", "lib/python3", "data"] {
            fs::create_dir_all(tool.join(folder)).unwrap();
        }
        fs::write(tool.join("bin/x"), "").unwrap();
        fs::write(tool.join("lib/python3/y"), "").unwrap();
        fs::write(tool.join("data/z"), "SECRET").unwrap();
        fs::write(ws.outside.join("home/mine"), "SECRET").unwrap();
        let setting = format!("bash.backend={backend}");
        let run = |variables: &[(&str, &Path)], arguments: &[&str]| {
            let call = ws.call(&["bash", "--set", &setting]).arguments(arguments);
            variables.iter().fold(call, |call, (name, value)| call.env(name, value)).run()
        };
        let path = format!("{}:{PATH_FIXED}", tool.join("bin").display());
        let command = "cat ../venv/bin/x ../venv/lib/python3/y && cat ../venv/data/z";
        let seen = run(&[("PATH", Path::new(&path))], &[command]).success();
        assert!(seen["data"]["stderr"].as_str().unwrap().contains("data/z"), "{backend}: {seen:#}");
        assert!(!seen.to_string().contains("lib/python3/y:"), "{backend}: {seen:#}");
        let command = "cat ../home/mine ../venv/data/z";
        let home = ws.outside.join("home");
        for variables in [
            [("GOPATH", home.as_path())],
            [("CARGO_HOME", ws.outside.as_path())],
            [("VIRTUAL_ENV", Path::new("/"))],
            [("PYENV_ROOT", Path::new(".."))],
        ] {
            refused(&run(&variables, &[command]), &format!("{backend}: {variables:?}"));
        }
        let all = [("JAVA_HOME", Path::new("/etc"))];
        refused(&run(&all, &["cat /etc/login.defs"]), &format!("{backend}: {all:?}"));
        // Variables from a request apply to the command only.
        let given = format!("VIRTUAL_ENV={}", tool.display());
        refused(&run(&[], &["--env", &given, command]), backend);
    }
}

#[test]
fn bash_readable_shows_directories_and_single_files() {
    for backend in confining() {
        let ws = guarded();
        let home = ws.outside.join("home");
        fs::write(home.join(".npmrc"), "registry=https://packages.example.net\n").unwrap();
        fs::create_dir_all(ws.outside.join("data/deep")).unwrap();
        fs::write(ws.outside.join("data/deep/set.csv"), "1,2\n").unwrap();
        fs::write(ws.outside.join("data/.netrc"), "mine\n").unwrap();
        fs::create_dir(home.join("keys")).unwrap();
        fs::write(home.join("keys/ring"), "SECRET\n").unwrap();
        std::os::unix::fs::symlink("keys", home.join(".gnupg")).unwrap();
        let backend_setting = format!("bash.backend={backend}");
        let readable = format!("bash.readable={}", ws.outside.join("data").display());
        let run = |more: &[&str], command: &str| {
            let call = ws.call(&["bash", "--set", &backend_setting]).arguments(more);
            call.arguments(&[command]).run()
        };
        refused(&run(&[], "cat ~/.npmrc"), backend);
        let shown = run(&["--set", "bash.readable=~/.npmrc"], "cat ~/.npmrc");
        assert_eq!(printed(&shown), "registry=https://packages.example.net\n", "{backend}");
        let shown = run(&["--set", &readable], "cat ../data/deep/set.csv; echo x > ../data/new");
        assert_eq!(printed(&shown), "1,2\n", "{backend}");
        assert!(!ws.outside.join("data/new").exists());
        // A listed folder still hides files that are hidden by default or by the policy.
        let folder = format!("bash.readable={}", home.display());
        refused(&run(&["--set", &folder], "cat ~/.netrc && [ -s ~/.netrc ]"), backend);
        refused(&run(&["--set", &folder], "cat ~/keys/ring"), backend);
        let both = ["--set", "bash.readable=~/.npmrc", "--set", "bash.hidden=~/.npmrc"];
        refused(&run(&both, "cat ~/.npmrc && [ -s ~/.npmrc ]"), backend);
        // A missing path is a finding of `doctor`, not of every call.
        let missing = ["--set", "bash.readable=~/none"];
        assert!(!run(&missing, "true").success()["warnings"].to_string().contains("none"), "{backend}");
        let found = ws.lbx(&["doctor", missing[0], missing[1]]).ok()["findings"].to_string();
        assert!(found.contains("bash.readable names \\\"~/none\\\", which commands do not get"), "{found}");
        // A workspace cannot widen its own access.
        ws.write(".lbx/config.toml", "bash.readable = ['/']\n");
        let error = ws.lbx(&["bash", "true"]).error("invalid_request");
        assert!(error["message"].as_str().unwrap().contains("user's own file"), "{error:#}");
    }
}

#[test]
fn commands_cannot_reach_host_sockets_and_fifos() {
    for backend in backends() {
        let ws = guarded();
        let home = ws.outside.join("home");
        fs::create_dir_all(home.join(".colima")).unwrap();
        let places = [home.join(".colima/docker.sock"), ws.outside.join("s.sock"), ws.path("in.sock")];
        let listeners = places.each_ref().map(|place| UnixListener::bind(place).unwrap());
        listeners.iter().for_each(|listener| listener.set_nonblocking(true).unwrap());
        for place in &places {
            let command = format!("{CONNECT} {}", place.display());
            for request in [json!({ "command": command }), json!({ "command": command, "direct": true })] {
                refused(&with(&ws, backend, &request), &format!("{backend}: {}", place.display()));
            }
        }
        assert!(listeners.iter().all(|listener| listener.accept().is_err()), "{backend}");
        // The policy can list one.
        let settings = [format!("bash.backend={backend}"), format!("bash.readable={}", places[0].display())];
        let command = format!("{CONNECT} {}", places[0].display());
        let arguments = ["bash", "--set", &settings[0], "--set", &settings[1], &command];
        assert_eq!(ws.lbx(&arguments).ok()["exit_code"], 0, "{backend}");
        assert!(listeners[0].accept().is_ok(), "{backend}");
        // A socket without a listener is no danger, and its program must be able to replace it.
        drop(listeners);
        let setting = format!("bash.backend={backend}");
        let removed = ws.lbx(&["bash", "--direct", "--set", &setting, "rm in.sock"]).ok();
        assert_eq!(removed["exit_code"], 0, "{backend}: {removed:#}");
        // A socket in use cannot be removed either, and the command gets the reason.
        let _used = UnixListener::bind(ws.path("used.sock")).unwrap();
        let removed = ws.lbx(&["bash", "--direct", "--set", &setting, "rm used.sock"]);
        removed.warned("used.sock may lead to another program, so commands do not reach it");
        let fifos = [home.join("fifo"), ws.path("fifo")];
        for fifo in &fifos {
            assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
            let command = format!("timeout 0.3 sh -c 'echo x > {}'", fifo.display());
            for request in [json!({ "command": command }), json!({ "command": command, "direct": true })] {
                refused(&with(&ws, backend, &request), &format!("{backend}: {}", fifo.display()));
            }
        }
    }
}

#[test]
fn too_many_fifos_block_a_direct_command() {
    for backend in backends() {
        let ws = guarded();
        let make = "import os; os.mkdir('f'); [os.mkfifo(f'f/{n}') for n in range(4097)]";
        assert!(Command::new("python3").args(["-c", make]).current_dir(&ws.root).status().unwrap().success());
        let error = with(&ws, backend, &json!({ "command": "true", "direct": true })).error("command_denied");
        assert!(error.to_string().contains("more than 4096 sockets and FIFOs"), "{backend}: {error:#}");
    }
}

#[test]
fn tmpfs_of_commands_is_bounded() {
    for backend in backends() {
        let ws = guarded();
        let command = "df --output=size,target -B1M | awk '$2 == \"/dev/shm\" { print $1 }'";
        assert_eq!(output(&ws, backend, command), "512\n", "{backend}");
    }
}

#[test]
fn git_works_in_worktrees_submodules_and_shared_clones() {
    for backend in confining() {
        let ws = guarded();
        ws.git(&["worktree", "add", "-q", "../linked"]);
        ws.git(&["clone", "-q", "--shared", ".", "../shared"]);
        ws.git(&["clone", "-q", ".", "../outer"]);
        let outer = ws.outside.join("outer");
        let add = ["-C", outer.to_str().unwrap(), "-c", "protocol.file.allow=always", "submodule", "--quiet"];
        ws.git(&[&add[..], &["add", ws.root.to_str().unwrap(), "part"]].concat());
        for place in ["linked", "shared", "outer/part"] {
            let folder = ws.outside.join(place);
            let setting = format!("bash.backend={backend}");
            let command = "git log --format=%s && git status --short";
            let answer = ws.call(&["bash", "--set", &setting, command]).in_folder(&folder).run();
            assert_eq!(printed(&answer), "first\n", "{backend}: {place}");
            let command = "git commit -q --allow-empty -m no";
            let call = ws.call(&["bash", "--set", &setting, command]).in_folder(&folder);
            refused(&call.run(), &format!("{backend}: {place}"));
        }
    }
}

#[test]
fn unprivileged_commands_see_no_more_of_the_disk() {
    for backend in confining() {
        let ws = guarded();
        fs::write(ws.outside.join("home/mine"), "SECRET\n").unwrap();
        let command =
            "cat ../home/mine ../guarded; cat /etc/machine-id; ls /var/log; git log --format=%s; sort a.txt";
        let Some(answer) = as_unprivileged_user(&ws, backend, command) else { return };
        assert_eq!(answer["data"]["stdout"], "first\none\n", "{backend}: {answer:#}");
    }
}
