//! Files and services that a command cannot reach, under every backend that works here.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Call, LBX, LOOSEN, PATH_FIXED, Workspace, is_root, kill, skipped};
use crate::support::{all_backends, backends, bash, direct, has_backend, output};

/// Creates a workspace next to a file that must not change, with secrets in the home folder.
///
/// It is not in `/tmp`, where a command has its own folder, wherever the project lies.
pub fn guarded() -> Workspace {
    let mut parent = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    if parent.starts_with("/tmp") || parent.starts_with("/var/tmp") {
        // The account without privileges that some of these tests use cannot enter root's home folder, and commands
        // see all of /opt.
        let home = std::env::home_dir().unwrap().join(".cache");
        parent = if rustix::process::geteuid().is_root() { PathBuf::from("/srv") } else { home };
        fs::create_dir_all(&parent).unwrap();
    }
    let ws = Workspace::within(&parent, &[("a.txt", "one\n"), ("sub/b.txt", "two\n")]);
    fs::write(ws.outside.join("guarded"), "untouched\n").unwrap();
    fs::set_permissions(ws.outside.join("guarded"), fs::Permissions::from_mode(0o666)).unwrap();
    fs::create_dir(ws.outside.join("home/.ssh")).unwrap();
    fs::write(ws.outside.join("home/.ssh/id_ed25519"), "SECRET\n").unwrap();
    fs::write(ws.outside.join("home/.netrc"), "SECRET\n").unwrap();
    ws
}

/// Returns everything that a command could change of a file outside.
pub fn standing(path: &Path) -> (Vec<u8>, u32, i64, u64) {
    let stat = fs::metadata(path).unwrap();
    (fs::read(path).unwrap(), stat.mode(), stat.mtime_nsec() + stat.mtime(), stat.nlink())
}

/// Commands that write outside, in a workspace that [`outside_guarded`] created.
pub const WRITES_OUTSIDE: [&str; 8] = [
    "echo x >> ../guarded",
    "echo x >> link",
    "echo x > folder/new",
    "rm ../guarded",
    "mv ../guarded .",
    "truncate -s 0 ../guarded",
    "ln ../guarded hard && echo x >> hard",
    "mkdir ../new",
];

/// Creates a workspace next to a protected file, with links to the file and to its folder. Returns the file as well.
pub fn outside_guarded() -> (Workspace, PathBuf) {
    let ws = guarded();
    let file = ws.outside.join("guarded");
    ws.link(&file, "link");
    ws.link(&ws.outside, "folder");
    (ws, file)
}

#[test]
fn commands_cannot_write_outside_the_workspace() {
    for backend in backends() {
        let (ws, guarded) = outside_guarded();
        let before = standing(&guarded);
        let other_ways = [
            "dd if=/dev/zero of=../guarded count=1",
            "chmod 777 ../guarded",
            "touch -d 2000-01-01 ../guarded",
            "echo x > /proc/1/root/etc/evil",
            "echo x > \"/proc/$$/cwd/../guarded\"",
            "python3 -c 'import os; os.utime(\"../guarded\", (1, 1))'",
            "python3 -c 'import os; os.setxattr(\"../guarded\", \"user.x\", b\"y\")'",
            "mount -o remount,rw / && echo x >> ../guarded",
            "echo 1 > /proc/sys/kernel/panic",
            "echo x > /etc/lbx-was-here",
        ];
        for command in WRITES_OUTSIDE.into_iter().chain(other_ways) {
            let answer = bash(&ws, backend, command).success();
            assert_ne!(answer["data"]["exit_code"], 0, "{backend}: {command}: {answer:#}");
        }
        assert_eq!(standing(&guarded), before, "{backend}");
        let names: Vec<_> =
            fs::read_dir(&ws.outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 3, "{backend}: {names:?}");
        assert!(!Path::new("/etc/lbx-was-here").exists());
    }
}

#[test]
fn commands_cannot_write_git_repositories_or_lbx_state() {
    for backend in backends() {
        let ws = guarded();
        ws.git(&["init", "-q", "sub/nested"]);
        ws.git(&["init", "-q", "--bare", "sub/bare"]);
        ws.lbx(&["read", "a.txt"]).ok();
        let head = ws.git(&["rev-parse", "HEAD"]);
        let config = ws.read_bytes(".git/config");
        for command in [
            "echo '[core]' >> .git/config",
            "git -c user.name=x -c user.email=x commit -q --allow-empty -m no",
            "git update-ref HEAD HEAD~0 && git update-ref refs/heads/new HEAD",
            "git config core.fsmonitor evil",
            "rm -rf .git",
            "mv .git elsewhere",
            "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
            "chmod 777 .git/config",
            "rm -rf .lbx",
            "mv .lbx elsewhere",
            "echo x > .lbx/config.toml",
            "echo x >> sub/nested/.git/config",
            "rm -rf sub/nested/.git",
            "rm -rf sub",
            "echo x >> sub/bare/config",
            "echo x > sub/bare/hooks/post-update",
            "umount .git && echo x >> .git/config",
            "unshare -Urm sh -c 'umount .git && echo x >> .git/config'",
            "unshare -Urm sh -c 'mount -o remount,bind,rw .git && echo x >> .git/config'",
            "ln .git/config config && echo x >> config",
            "cp -al .git copy",
            "mv sub s2; echo x >> s2/nested/.git/config; status=$?; mv s2 sub; exit $status",
        ] {
            let answer = direct(&ws, backend, command).success();
            assert_ne!(answer["data"]["exit_code"], 0, "{backend}: {command}: {answer:#}");
            assert_ne!(answer["data"]["stderr"], "", "{backend}: {command} fails without a word");
        }
        assert_eq!(
            (ws.git(&["rev-parse", "HEAD"]), ws.read_bytes(".git/config")),
            (head, config),
            "{backend}"
        );
        assert!(ws.path("sub/nested/.git/HEAD").exists() && ws.path("sub/bare/HEAD").exists());
        ws.git(&["fsck", "--strict"]);
        // It does not see the names with which a state could be forged elsewhere either.
        let listed = output(&ws, backend, "ls -A .lbx");
        assert_eq!(listed["stdout"], ".gitignore\n", "{backend}");
    }
}

#[test]
fn worktrees_and_plain_directories_are_protected() {
    for backend in backends() {
        let ws = guarded();
        ws.git(&["worktree", "add", "-q", "../tree"]);
        let tree = ws.outside.join("tree");
        let setting = format!("bash.backend={backend}");
        let call =
            |command: &str| ws.call(&["bash", "--set", &setting, command]).in_folder(&tree).run().success();
        for command in ["rm .git", "echo x > .git", "git commit --allow-empty -m no", "git tag x"] {
            assert_ne!(call(command)["data"]["exit_code"], 0, "{backend}: {command}");
        }
        assert_eq!(call("git status --short")["data"]["stdout"], "", "{backend}");

        let bare = Workspace::bare(&[("a.txt", "one\n")]);
        for command in ["git init -q .", "mkdir .git/hooks", "ln -s /tmp .git"] {
            let answer = bash(&bare, backend, command).success();
            assert_ne!(answer["data"]["exit_code"], 0, "{backend}: {command}: {answer:#}");
        }
        assert!(!bare.path(".git").exists(), "{backend}: nothing is left in its place");
    }
}

/// Permission bits of a folder that its owner cannot list.
const SHUT: [u32; 3] = [0, 0o300, 0o600];

#[test]
fn protected_files_in_an_unreadable_directory_stay_protected() {
    for (backend, mode) in backends().into_iter().flat_map(|backend| SHUT.map(|mode| (backend, mode))) {
        let ws = guarded();
        ws.write(".lbx/config.toml", "protect = ['/sub/b.txt']\n");
        ws.write("nested/HEAD", "no repository\n");
        ws.git(&["init", "-q", "nested"]);
        ws.chmod("sub", mode);
        ws.chmod("nested", mode);
        let setting = format!("bash.backend={backend}");
        let command =
            "chmod 755 sub nested; echo two >> sub/b.txt; echo evil >> nested/.git/config; mv sub other";
        let Some(call) = ws.call_unprivileged(&["bash", "--direct", "--set", &setting, command]) else {
            return;
        };
        let data = call.run().warned("off limits for this command, since lbx cannot look into it: nested, sub. A command with `transaction` can open it by chmod u+rwx");
        ws.chmod("sub", 0o755);
        ws.chmod("nested", 0o755);
        ws.holds("sub/b.txt", "two\n");
        assert!(
            !String::from_utf8_lossy(&ws.read_bytes("nested/.git/config")).contains("evil"),
            "{backend} {mode:o}"
        );
        assert_eq!(data["changed"], serde_json::json!([]), "{backend} {mode:o}");
    }
}

#[test]
fn protected_paths_are_read_only_for_commands() {
    for backend in backends() {
        let ws = guarded();
        ws.write(".lbx/config.toml", "protect = ['/sub', '*.key', '/conf/x/p.json']\n");
        ws.write("conf/x/p.json", "{}\n");
        ws.write("deep/er/x.key", "key\n");
        for command in ["echo x > sub/b.txt", "rm -rf sub", "echo x > deep/er/x.key", "echo x > sub/new"] {
            let answer = direct(&ws, backend, command).success();
            assert_ne!(answer["data"]["exit_code"], 0, "{backend}: {command}: {answer:#}");
        }
        for command in ["mv conf c2", "mv conf/x c2", "mv deep c2", "rm -rf conf"] {
            let answer = direct(&ws, backend, command).success();
            assert_ne!(answer["data"]["exit_code"], 0, "{backend}: {command}: {answer:#}");
        }
        ws.holds("sub/b.txt", "two\n");
        ws.holds("deep/er/x.key", "key\n");
        ws.holds("conf/x/p.json", "{}\n");
        // A missing file cannot be made read-only, and a warning says so.
        let answer = direct(&ws, backend, "echo x > new.key; echo x > other").success();
        let warned = answer["warnings"].to_string();
        assert!(warned.contains("new.key") && !warned.contains("other"), "{backend}: {answer:#}");
        // The policy of an outer workspace also applies in an inner one.
        fs::create_dir_all(ws.path("inner/.lbx")).unwrap();
        ws.write("inner/in.key", "key\n");
        let setting = format!("bash.backend={backend}");
        let call =
            ws.call(&["bash", "--direct", "--set", &setting, "echo x > in.key"]).in_folder(&ws.path("inner"));
        let answer = call.run().success();
        assert_ne!(answer["data"]["exit_code"], 0, "{backend}: {answer:#}");
    }
}

#[test]
fn commands_cannot_read_secrets() {
    for backend in backends() {
        let ws = guarded();
        fs::create_dir(ws.outside.join("home/mine")).unwrap();
        fs::write(ws.outside.join("home/mine/key"), "SECRET\n").unwrap();
        let call = |command: &str| {
            let settings = [format!("bash.backend={backend}"), "bash.hidden=~/mine".to_owned()];
            let call = ws.call(&["bash", "--set", &settings[0], "--set", &settings[1], command]);
            call.env("AWS_SECRET_ACCESS_KEY", "SECRET").env("MY_TOKEN", "SECRET").run().success()
        };
        for command in [
            "cat ~/.ssh/id_ed25519",
            "cat ~/.ssh/*",
            "cat ~/.netrc",
            "cat ~/mine/key",
            "cat ../home/mine/key ../home/.ssh/id_ed25519",
            "env; cat /proc/self/environ; false",
            "cat /proc/1/environ",
            "cat /proc/*/environ; false",
        ] {
            let answer = call(command);
            assert_ne!(answer["data"]["exit_code"], 0, "{backend}: {command}: {answer:#}");
            assert!(!answer.to_string().contains("SECRET"), "{backend}: {command}: {answer:#}");
        }
    }
}

#[test]
fn commands_have_no_network_by_default() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    tcp.set_nonblocking(true).unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    for backend in backends() {
        let ws = guarded();
        let _socket = UnixListener::bind(ws.outside.join("socket")).unwrap();
        bash(&ws, backend, &format!("echo x > /dev/udp/127.0.0.1/{udp_port}")).success();
        for command in [
            format!("echo x > /dev/tcp/127.0.0.1/{tcp_port}"),
            "echo x > /dev/udp/192.0.2.1/53".to_owned(),
            "echo x > /dev/tcp/192.0.2.1/53".to_owned(),
        ] {
            let answer = bash(&ws, backend, &command).success();
            assert_ne!(answer["data"]["exit_code"], 0, "{backend}: {command}: {answer:#}");
        }
        assert!(tcp.accept().is_err() && udp.recv(&mut [0; 8]).is_err(), "{backend}");
        // A command reaches its own servers.
        let own = "python3 -c '
import socket, threading
server = socket.create_server((\"127.0.0.1\", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b\"hello\")).start()
print(socket.create_connection(server.getsockname()).recv(9))'";
        assert_eq!(output(&ws, backend, own)["stdout"], "b'hello'\n", "{backend}");
        // No socket family leads out of its network, not even to the host of a virtual machine.
        for family in ["AF_VSOCK", "AF_PACKET", "AF_ALG", "AF_BLUETOOTH", "AF_TIPC"] {
            let made =
                format!("python3 -c 'import socket; socket.socket(socket.{family}, socket.SOCK_DGRAM)'");
            let answer = bash(&ws, backend, &made).success();
            assert_ne!(answer["data"]["exit_code"], 0, "{backend}: {family}: {answer:#}");
        }
        let kept = "python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW); socket.socketpair()'";
        assert_eq!(output(&ws, backend, kept)["exit_code"], 0, "{backend}");
        // Only the policy enables it.
        let asked = ["bash", "--set", &format!("bash.backend={backend}"), "--network=true", "true"];
        ws.lbx(&asked).error("command_denied");
        let command = format!("echo x > /dev/tcp/127.0.0.1/{tcp_port}");
        let allowed = ["bash", "--set", &format!("bash.backend={backend}"), "--set", "bash.network=allow"];
        let call = |more: &[&str]| ws.lbx(&[&allowed, more].concat()).ok()["exit_code"].clone();
        assert_eq!(call(&["--network=true", &command]), 0, "{backend}");
        assert_ne!(call(&["--network=false", &command]), 0, "{backend}");
        tcp.accept().unwrap();
    }
}

#[test]
fn commands_cannot_reach_other_processes() {
    for backend in backends() {
        let ws = guarded();
        let mut other = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let pid = other.id();
        let seen =
            output(&ws, backend, "ls -d /proc/[0-9]* | wc -l")["stdout"].as_str().unwrap().trim().to_owned();
        assert!(seen.parse::<u32>().unwrap() <= 5, "{backend}: {seen}");
        for command in [format!("kill -9 {pid}"), format!("cat /proc/{pid}/maps"), "strace -p 1".to_owned()] {
            let answer = bash(&ws, backend, &command).success();
            assert_ne!(answer["data"]["exit_code"], 0, "{backend}: {command}: {answer:#}");
        }
        bash(&ws, backend, "kill -9 -1").success();
        assert!(other.try_wait().unwrap().is_none(), "{backend}");
        kill(pid);
        other.wait().unwrap();
    }
}

#[test]
fn ordinary_commands_work_in_the_sandbox() {
    for backend in backends() {
        let ws = guarded();
        ws.write("Makefile", "all:\n\tcp a.txt made\n");
        for (command, stdout) in [
            ("git status --short", "?? Makefile\n"),
            ("git log --format=%s", "first\n"),
            ("python3 -c 'print(6*7)'", "42\n"),
            ("make -s && cat made && rm made", "one\n"),
            ("cp -r sub s2 && mv s2 s3 && cat s3/b.txt && chmod 700 s3 && rm -rf s3", "two\n"),
            ("ln -s a.txt l && ln a.txt h && cat l h && rm l h", "one\none\n"),
            (
                "echo x > /tmp/t && cat /tmp/t && mktemp -d > /dev/null && echo y > /dev/shm/s && cat /dev/shm/s",
                "x\ny\n",
            ),
            ("tar cf - sub | tar tf - | tail -1", "sub/b.txt\n"),
            (
                "stat -c %U . > /dev/null && test -w . && id -u",
                &format!("{}\n", rustix::process::geteuid().as_raw()),
            ),
            ("echo é | tr -d '\\n' | wc -c; tty; true", "2\nnot a tty\n"),
        ] {
            let answer = output(&ws, backend, command);
            assert_eq!(
                (&answer["stdout"], &answer["exit_code"]),
                (&stdout.into(), &0.into()),
                "{command}: {answer:#}"
            );
        }
    }
}

#[test]
fn only_the_user_policy_adds_writable_directories() {
    for backend in backends() {
        let ws = guarded();
        let cache = ws.outside.join("cache");
        fs::create_dir(&cache).unwrap();
        let settings = [format!("bash.backend={backend}"), format!("bash.writable={}", cache.display())];
        let arguments = [
            "bash",
            "--set",
            &settings[0],
            "--set",
            &settings[1],
            "echo x > ../cache/new; echo x > ../guarded",
        ];
        let answer =
            ws.lbx(&arguments).warned("../guarded is read-only for commands: the setting `bash.writable`");
        assert!(answer["stderr"].as_str().unwrap().contains("guarded"), "{answer:#}");
        assert!(cache.join("new").exists(), "{backend}");
        // `doctor` reports one that does not exist; commands run without it.
        fs::remove_dir_all(&cache).unwrap();
        assert!(!ws.lbx(&arguments).success()["warnings"].to_string().contains("cache"), "{backend}");
        let findings = ws.lbx(&["doctor", "--set", &settings[1]]).ok()["findings"].to_string();
        let told = format!("bash.writable names \\\"{}\\\", which commands do not get", cache.display());
        assert!(findings.contains(&told), "{findings}");
        for line in [
            format!("bash.writable = ['{}']", cache.display()),
            "bash.env = ['MY_TOKEN']".to_owned(),
            "bash.backend = 'none'".to_owned(),
            "bash.network = 'allow'".to_owned(),
        ] {
            ws.write(".lbx/config.toml", format!("{line}\n"));
            let error = ws.lbx(&["bash", "true"]).error("invalid_request");
            assert!(error["message"].as_str().unwrap().contains("user's own file"), "{error:#}");
        }
    }
}

/// Runs a command as an account that owns the workspace and nothing else; `None` without root.
pub fn as_unprivileged_user(ws: &Workspace, backend: &str, command: &str) -> Option<serde_json::Value> {
    as_user_of(ws, backend, "--clear-groups", command)
}

/// Does so as an account that is also in other groups; the folder `shared` is of the first of them.
fn as_user_of(ws: &Workspace, backend: &str, groups: &str, command: &str) -> Option<serde_json::Value> {
    if !is_root() {
        return None;
    }
    let own = Command::new("chown").args(["-R", "65534:65534"]).arg(&ws.outside).status().unwrap();
    assert!(own.success());
    if let Some(group) = groups.strip_prefix("--groups=") {
        let own = Command::new("chgrp").args(["-R", group]).arg(ws.path("shared")).status().unwrap();
        assert!(own.success());
    }
    let run = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", groups, "--", LBX, "bash"])
        .args(["--set", &format!("bash.backend={backend}"), command])
        .current_dir(&ws.root)
        .env_clear()
        .env("LBX_STATE_ID", crate::common::STATE_ID)
        .env("PATH", PATH_FIXED)
        .env("HOME", ws.outside.join("home"))
        .output()
        .unwrap();
    Some(serde_json::from_slice(&run.stdout).unwrap())
}

#[test]
fn file_of_another_group_gets_a_hint_about_direct() {
    for backend in backends() {
        let ws = Workspace::with(&[("shared/a.txt", "a\n")]);
        ws.chmod("shared/a.txt", 0o664);
        let write = "echo b >> shared/a.txt";
        let Some(answer) = as_user_of(&ws, backend, "--groups=100", write) else { return };
        if answer["data"]["exit_code"] == 0 {
            // The command works on the files themselves.
            ws.holds("shared/a.txt", "a\nb\n");
            continue;
        }
        let hint = "a layer cannot take files of another account or group: `direct` runs the command";
        assert!(answer["warnings"].to_string().contains(hint), "{backend}: {answer:#}");
        ws.holds("shared/a.txt", "a\n");
    }
}

#[test]
fn unprivileged_user_is_sandboxed() {
    for backend in backends() {
        let ws = guarded();
        let command = "id -u; touch new && ls new; touch .git/x ../x; ls ~/.ssh; rm new";
        let Some(answer) = as_unprivileged_user(&ws, backend, command) else { return };
        assert_eq!(answer["data"]["stdout"], "65534\nnew\n", "{backend}: {answer:#}");
        let stderr = answer["data"]["stderr"].as_str().unwrap();
        assert!(stderr.contains(".git/x") && stderr.contains("../x"), "{backend}: {answer:#}");
    }
}

#[test]
fn file_memory_and_process_limits_apply() {
    for backend in backends() {
        let ws = guarded();
        let call = |setting: &str, command: &str| {
            let backend = format!("bash.backend={backend}");
            ws.lbx(&["bash", "--set", &backend, "--set", setting, command]).success()["data"].clone()
        };
        let big = call(
            "bash.file_bytes=1000000",
            "head -c 2000000 /dev/zero > big; echo $?; stat -c %s big; rm big",
        );
        assert!(big["stdout"].as_str().unwrap().ends_with("\n1000000\n"), "{backend}: {big:#}");
        let memory = call("bash.memory_bytes=200000000", "python3 -c 'bytearray(400000000)'");
        assert_ne!(memory["exit_code"], 0, "{backend}: {memory:#}");
        let many = "for i in $(seq 1000); do sleep 60 & done; echo all; wait";
        let processes = ws.lbx(&[
            "bash",
            "--set",
            &format!("bash.backend={backend}"),
            "--set",
            "bash.processes=400",
            "--timeout-ms=20000",
            many,
        ]);
        let processes = processes.success();
        let told = processes["data"]["stderr"].as_str().unwrap().contains("fork")
            || processes.to_string().contains("it had more than 400 processes at once (bash.processes)");
        assert!(told && processes["data"]["duration_ms"].as_u64() < Some(19_000), "{backend}: {processes:#}");
    }
}

/// The kernel counts no processes of root by user, but since Linux 6.14 those of a namespace. A bomb without a bound ends
/// in `io_error`.
#[test]
fn fork_bomb_of_root_ends_at_its_bound() {
    if !has_backend("namespaces") {
        return;
    }
    let ws = guarded();
    let call = |command: &str| {
        let settings = ["--set", "bash.backend=namespaces", "--set", "bash.processes=300"];
        ws.lbx(&[&["bash"], &settings[..], &["--timeout-ms=3000", command]].concat()).success()["data"]
            .clone()
    };
    if call("cat /proc/sys/kernel/pid_max")["stdout"] != "600\n" {
        return skipped("no bound of the processes in a namespace (Linux 6.14)");
    }
    let bomb = call("b() { b | b; }; b");
    assert!(bomb["stderr"].as_str().unwrap().contains("fork"), "{bomb:#}");
    // None of them is left, and the next command has all of its processes.
    let count = call("for i in $(seq 200); do sleep 9 & done; jobs | wc -l; kill $(jobs -p)");
    assert_eq!(count["stdout"], "200\n", "{count:#}");
}

/// Returns the control groups of calls by these processes that still exist; of all that have ended without a number.
/// Other tests have groups of their own meanwhile.
fn control_groups(of: Option<u32>) -> Vec<PathBuf> {
    // lbx-TIME-PROCESS-NUMBER
    let is_wanted = |name: &str| {
        let process = name.split('-').nth(2).and_then(|process| u32::from_str_radix(process, 16).ok());
        process.is_some_and(|process| match of {
            Some(wanted) => process == wanted,
            None => !PathBuf::from(format!("/proc/{process}")).exists(),
        })
    };
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                let is_ours = name.starts_with("lbx-");
                if !is_ours {
                    folders.push(entry.path());
                } else if is_wanted(&name) {
                    found.push(entry.path());
                }
            }
        }
    }
    found
}

#[test]
fn memory_of_all_processes_is_bounded_together() {
    let ws = guarded();
    let listed = ws.lbx(&["bash", "--backends"]).success().to_string();
    if listed.contains("memory of all processes together (") {
        assert!(listed.contains("bash.memory_bytes bounds each process alone"), "{listed}");
        skipped("no control group bounds memory here");
        return;
    }
    let hog = "python3 -c 'import time; held = bytearray(150 << 20); time.sleep(2)'";
    let command = format!("sleep 0.3; for i in 1 2 3 4; do {hog} & done; wait");
    for backend in backends() {
        let backend = format!("bash.backend={backend}");
        let bound = "bash.memory_bytes=300000000";
        let answer = ws.lbx(&["bash", "--set", &backend, "--set", bound, &command]).success();
        let told = "the system ended a process of the command: together they filled 286 MiB of memory (bash.memory_bytes)";
        assert!(answer["warnings"].to_string().contains(told), "{backend}: {answer:#}");
        assert!(control_groups(None).is_empty(), "{:?}", control_groups(None));
    }
    // The next calls remove the group of a killed one, once its processes have ended.
    let mut call = ws.call(&["bash", "--direct", "touch begun; sleep 1000"]).spawn();
    let process = Some(call.id());
    while !ws.path("begun").exists() || control_groups(process).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    crate::common::kill(call.id());
    call.wait().unwrap();
    let mut calls = 0;
    while !control_groups(process).is_empty() && calls < 20 {
        ws.lbx(&["bash", "sleep 0.3"]).success();
        calls += 1;
    }
    assert!(control_groups(process).is_empty(), "{:?}", control_groups(process));
}

/// Calls a command with a Rust toolchain, if one is installed.
pub fn with_cargo(ws: &Workspace, backend: &str, command: &str) -> Option<Call> {
    let Some(cargo) = std::env::var_os("CARGO").map(PathBuf::from).filter(|cargo| cargo.exists()) else {
        skipped("there is no cargo here");
        return None;
    };
    let path = format!("{}:{PATH_FIXED}", cargo.parent()?.display());
    let mut call = ws.call(&["bash", "--set", &format!("bash.backend={backend}"), command]).env("PATH", path);
    for name in ["CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Some(value) = std::env::var_os(name) {
            call = call.env(name, value);
        }
    }
    Some(call)
}

#[test]
fn cargo_builds_and_runs_a_crate() {
    for backend in all_backends() {
        // cargo looks for its files in parent folders, and under Landlock fails if it may not read one.
        let ws = if *backend == "landlock" { Workspace::with(&[]) } else { guarded() };
        ws.write("Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        ws.write("src/main.rs", "fn main() { println!(\"built\"); }\n");
        let Some(call) = with_cargo(&ws, backend, "cargo build -q --offline && cargo run -q --offline")
        else {
            return;
        };
        let answer = call.run().success();
        let data = &answer["data"];
        assert_eq!(
            (&data["stdout"], &data["exit_code"]),
            (&"built\n".into(), &0.into()),
            "{backend}: {answer:#}"
        );
    }
}

#[test]
fn dangerous_system_calls_are_denied() {
    let calls = [
        ("add_key", libc_number("add_key")),
        ("keyctl", libc_number("keyctl")),
        ("request_key", libc_number("request_key")),
        ("bpf", libc_number("bpf")),
        ("perf_event_open", libc_number("perf_event_open")),
        ("userfaultfd", libc_number("userfaultfd")),
        ("io_uring_setup", libc_number("io_uring_setup")),
    ];
    for backend in backends().into_iter().chain(["landlock"]).filter(|name| all_backends().contains(name)) {
        let ws = guarded();
        for (name, number) in calls {
            let script = format!(
                "import ctypes, sys; l = ctypes.CDLL(None, use_errno=True); print(l.syscall({number}, 0, 0, 0, 0, 0), ctypes.get_errno())"
            );
            let answer = bash(&ws, backend, &format!("python3 -c '{script}'")).success();
            assert_eq!(answer["data"]["stdout"], "-1 1\n", "{backend}: {name}: {answer:#}");
        }
        // Nothing can be typed into a terminal in the user's place either.
        let script =
            "import fcntl\ntry:\n  fcntl.ioctl(0, 0x5412, b\"x\")\nexcept OSError as e: print(e.errno)";
        let answer = bash(&ws, backend, &format!("python3 -c '{script}'")).success();
        assert_eq!(answer["data"]["stdout"], "1\n", "{backend}: {answer:#}");
    }
}

/// Returns the number of a system call on this processor.
fn libc_number(name: &str) -> i64 {
    use nix::libc;
    match name {
        "add_key" => libc::SYS_add_key,
        "keyctl" => libc::SYS_keyctl,
        "request_key" => libc::SYS_request_key,
        "bpf" => libc::SYS_bpf,
        "perf_event_open" => libc::SYS_perf_event_open,
        "userfaultfd" => libc::SYS_userfaultfd,
        "io_uring_setup" => libc::SYS_io_uring_setup,
        other => panic!("no number for {other}"),
    }
}

#[test]
fn commands_cannot_replace_the_user_config_and_state() {
    for backend in backends() {
        let ws = guarded();
        ws.write(".config/lbx/config.toml", "gate = 'strict'\n");
        ws.write(".local/state/lbx/sandboxes.json", "{}");
        let setting = format!("bash.backend={backend}");
        let call = |command: &str| {
            ws.call(&["bash", "--set", &setting, command]).env("HOME", &ws.root).run().success()
        };
        for command in [
            "echo 'bash.backend = \"none\"' > .config/lbx/config.toml",
            "echo x > .config/lbx/new",
            "rm -rf .config/lbx",
            "mv .config/lbx elsewhere",
            "mv .config elsewhere",
            "mv .local elsewhere",
            "mv .local/state elsewhere",
            "rm -rf .local/state/lbx",
            "echo '{}' > .local/state/lbx/sandboxes.json",
            "echo x > .local/state/lbx/id",
            "cat .local/state/lbx/sandboxes.json",
        ] {
            let answer = call(command);
            assert_ne!(answer["data"]["exit_code"], 0, "{backend}: {command}: {answer:#}");
        }
        ws.holds(".config/lbx/config.toml", "gate = 'strict'\n");
        ws.holds(".local/state/lbx/sandboxes.json", "{}");
        // Files next to them belong to the workspace.
        assert_eq!(
            call("echo x > .config/other && echo x > .local/state/y")["data"]["exit_code"],
            0,
            "{backend}"
        );
        // A missing file cannot be created, and a link on the way could be replaced.
        fs::remove_dir_all(ws.path(".config")).unwrap();
        assert_ne!(call("mkdir -p .config/lbx && echo x > .config/lbx/config.toml")["data"]["exit_code"], 0);
        fs::remove_dir_all(ws.path(".config")).unwrap();
        ws.write("dotfiles/lbx/config.toml", "");
        ws.link("dotfiles", ".config");
        ws.call(&["bash", "--set", &setting, "true"]).env("HOME", &ws.root).run().error("command_denied");
        // A folder elsewhere that the user's policy makes writable does not help either.
        let config = ws.outside.join("config");
        fs::create_dir_all(config.join("lbx")).unwrap();
        fs::write(config.join("lbx/config.toml"), LOOSEN).unwrap();
        let writable = format!("bash.writable={}", config.display());
        let call =
            ws.call(&["bash", "--set", &setting, "--set", &writable, "echo x > ../config/lbx/config.toml"]);
        let answer = call.env("XDG_CONFIG_HOME", &config).run().success();
        assert_ne!(answer["data"]["exit_code"], 0, "{backend}: {answer:#}");
    }
}

#[test]
fn masked_proc_stays_masked_and_leaks_nothing() {
    if !has_backend("namespaces") || !is_root() {
        return;
    }
    let ws = guarded();
    let mut other =
        Command::new("sleep").arg("600").env("MY_TOKEN", "SECRET").stdin(Stdio::null()).spawn().unwrap();
    let pid = other.id();
    let inside = format!(
        "cat /proc/{pid}/environ; cat /proc/{pid}/root/etc/hostname; kill -9 {pid}; echo 1 > /proc/sys/kernel/panic
        cat <(echo works); (sleep 1000 &); git status --short"
    );
    // Containers mask parts of `/proc`, and then the kernel allows no further mount of it.
    let masked = "mount -t tmpfs none /proc/irq && exec \"$0\" bash --set bash.backend=namespaces \"$1\"";
    let output = Command::new("unshare")
        .args(["-m", "bash", "-c", masked, LBX, &inside])
        .current_dir(&ws.root)
        .env_clear()
        .env("LBX_STATE_ID", crate::common::STATE_ID)
        .env("PATH", PATH_FIXED)
        .env("HOME", ws.outside.join("home"))
        .output()
        .unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let data = &answer["data"];
    assert_eq!((&data["stdout"], &data["exit_code"]), (&"works\n".into(), &0.into()), "{answer:#}");
    assert_eq!((&data["sandbox"], &data["left_running"]), (&"namespaces".into(), &1.into()), "{answer:#}");
    let stderr = data["stderr"].as_str().unwrap();
    assert!(stderr.matches("ermission denied").count() >= 2 && stderr.contains("ead-only"), "{answer:#}");
    assert!(other.try_wait().unwrap().is_none(), "{answer:#}");
    kill(pid);
    other.wait().unwrap();
}

#[test]
fn concurrent_commands_share_the_git_placeholder() {
    for backend in backends() {
        let ws = Workspace::bare(&[("a.txt", "one\n")]);
        let setting = format!("bash.backend={backend}");
        let command =
            "touch started; while [ ! -e go ]; do sleep 0.02; done; mkdir .git; git init -q .; echo $?";
        let call = ws.call(&["bash", "--direct", "--set", &setting, command]).spawn();
        while !ws.path("started").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        bash(&ws, backend, "true").ok();
        ws.lbx(&["write", "b.txt", "--content", "b\n"]).ok();
        ws.write("go", "");
        let ran = call.wait_with_output().unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_ne!(answer["data"]["stdout"], "0\n", "{backend}: {answer:#}");
        assert!(!ws.path(".git").exists(), "{backend}: the last command removes it");

        // The next command removes what a killed call left; the user's files stay.
        let mut call = ws.call(&["bash", "--direct", "--set", &setting, "touch begun; sleep 1000"]).spawn();
        while !ws.path("begun").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        crate::common::kill(call.id());
        call.wait().unwrap();
        assert!(ws.path(".git").exists(), "{backend}");
        bash(&ws, backend, "true").success();
        assert!(!ws.path(".git").exists(), "{backend}");
        std::fs::create_dir(ws.path(".git")).unwrap();
        bash(&ws, backend, "true").success();
        assert!(ws.path(".git").exists(), "{backend}: it is the user's own");
    }
}

#[test]
fn bwrap_in_a_writable_directory_is_never_used() {
    let ws = guarded();
    let evil = ws.outside.join("evil");
    let link = ws.outside.join("link");
    std::os::unix::fs::symlink(&ws.root, &link).unwrap();
    ws.write("venv/bin/bwrap", format!("#!/bin/sh\ntouch {}\nexit 1\n", evil.display()));
    ws.chmod("venv/bin/bwrap", 0o755);
    let path = format!("{}/venv/bin:{}", link.display(), std::env::var("PATH").unwrap());
    for backend in ["bubblewrap", "auto"] {
        let setting = format!("bash.backend={backend}");
        let answer = ws.call(&["bash", "--direct", "--set", &setting, "true"]).env("PATH", &path).run();
        assert_eq!(answer.ok()["exit_code"], 0, "{backend}");
        assert!(!evil.exists(), "{backend}");
    }
}

/// The devices of a command are those of the host, and root owns them.
#[test]
fn command_writes_devices_but_changes_no_mode_of_one() {
    if !has_backend("namespaces") {
        return;
    }
    let ws = Workspace::with(&[]);
    let stands = || ["/dev/null", "/dev/full", "/dev/zero"].map(|path| fs::metadata(path).unwrap().mode());
    let before = stands();
    let command =
        "chmod 600 /dev/full; chmod 600 /dev/zero; echo x > /dev/null && head -c 2 /dev/zero | wc -c";
    for way in ["--direct", "--transaction"] {
        let data = ws.lbx(&["bash", "--set", "bash.backend=namespaces", way, command]).ok();
        assert_eq!(data["stdout"], "2\n", "{data}");
        assert_eq!(stands(), before, "{data}");
    }
}
