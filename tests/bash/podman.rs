//! Sandboxes in real containers: podman with an image that holds only busybox.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Call, PATH_FIXED, Workspace, kill, skipped};
use crate::ended::{FORKS, mark, wait_until_no_process_is_left};
use crate::server::Server;

/// Options of podman for hosts with both kinds of control groups.
const FLAGS: &str = "--runtime runc --cgroup-manager cgroupfs --storage-driver vfs";
/// Command that starts a container.
const RUN: [&str; 7] = [
    "run",
    "-d",
    "--network",
    "none",
    "--ulimit=nofile=1024:1024",
    "--ulimit=nproc=512:512",
    "scratch-busybox",
];
/// Programs of the image, all of them busybox.
const PROGRAMS: [&str; 7] = ["sh", "cat", "ls", "sleep", "touch", "stat", "ps"];

/// A running container, and a workspace outside.
struct Container {
    /// Workspace outside the container.
    ws: Workspace,
    /// Id of the container.
    id: String,
}

impl Container {
    /// Starts a container; `None` if that is not possible here.
    fn start() -> Option<Self> {
        match Self::try_start() {
            Ok(container) => Some(container),
            Err(why) => {
                skipped(format!("no container with podman: {why}"));
                None
            }
        }
    }

    /// Starts a container; the error is the reason.
    fn try_start() -> Result<Self, String> {
        let podman = found("podman").ok_or("podman is not installed")?;
        let busybox = found("busybox").ok_or("busybox is not installed")?;
        let ws = Workspace::with(&[("a.txt", "here\n")]);
        let image = ws.outside.join("image");
        for folder in ["bin", "src", "tmp", "etc", "usr"] {
            fs::create_dir_all(image.join(folder)).unwrap();
        }
        fs::copy(busybox, image.join("bin/busybox")).unwrap();
        for name in PROGRAMS {
            std::os::unix::fs::symlink("busybox", image.join("bin").join(name)).unwrap();
        }
        fs::write(image.join("usr/which"), "the container\n").unwrap();
        fs::write(image.join("src/a.txt"), "inside\n").unwrap();
        let programs = ws.outside.join("programs");
        fs::create_dir(&programs).unwrap();
        let script = format!(
            "#!/bin/sh\necho \"$1\" >> {0}/calls\nexec {1} --root {0}/store --runroot {0}/run {FLAGS} \"$@\"\n",
            ws.outside.display(),
            podman.display()
        );
        fs::write(programs.join("podman"), script).unwrap();
        fs::set_permissions(programs.join("podman"), fs::Permissions::from_mode(0o755)).unwrap();
        let tarball = ws.outside.join("image.tar");
        let packed = Command::new("tar").arg("-C").arg(&image).arg("-cf").arg(&tarball).arg(".").status();
        packed.map_err(|error| error.to_string())?;
        let mut container = Self { ws, id: String::new() };
        container.podman(&["import", "-q", tarball.to_str().unwrap(), "scratch-busybox"])?;
        let id = container.podman(&[&RUN[..], &["/bin/sleep", "600"]].concat())?;
        container.id.push_str(id.trim());
        container.inside("cat /usr/which")?;
        Ok(container)
    }

    /// Returns the output of podman.
    fn podman(&self, arguments: &[&str]) -> Result<String, String> {
        let podman = self.ws.outside.join("programs/podman");
        let output = Command::new(podman).args(arguments).output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let heard = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(heard) } else { Err(said) }
    }

    /// Returns the output of a command in the container, without lbx.
    fn inside(&self, command: &str) -> Result<String, String> {
        self.podman(&["exec", &self.id, "/bin/sh", "-c", command])
    }

    /// Prepares a call of lbx outside.
    fn call(&self, arguments: &[&str]) -> Call {
        let path = format!("{}:{PATH_FIXED}", self.ws.outside.join("programs").display());
        self.ws.call(arguments).env("PATH", path)
    }

    /// Prepares a call in the sandbox `box`.
    fn call_inside(&self, arguments: &[&str]) -> Call {
        self.call(&[&["--sandbox", "box"], arguments].concat())
    }

    /// Makes such a call and returns its answer.
    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> Value {
        self.call_inside(arguments).run().success()["data"].clone()
    }

    /// Returns how often podman was called with that first word.
    fn calls(&self, word: &str) -> usize {
        let calls = fs::read_to_string(self.ws.outside.join("calls")).unwrap();
        calls.lines().filter(|call| *call == word).count()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if !self.id.is_empty() {
            let _ = self.podman(&["rm", "-f", "-t", "0", &self.id]);
        }
    }
}

/// Finds a program of the system.
fn found(program: &str) -> Option<PathBuf> {
    PATH_FIXED.split(':').map(|folder| Path::new(folder).join(program)).find(|path| path.exists())
}

#[test]
fn all_tools_work_in_a_podman_container() {
    let Some(container) = Container::start() else { return };
    let create = ["sandbox", "create", "Box", "--container", &format!("podman:{}", container.id)];
    let made = container.call(&create).run().ok();
    assert_eq!(made["sandboxes"][0]["root"], "/src", "{made:#}");
    let binary = || container.inside("stat -c '%n %Y %i' /tmp/lbx-*").unwrap();
    let copied = binary();

    assert_eq!(container.ok(&["read", "a.txt"])["content"], "inside\n");
    assert_eq!(container.ok(&["read", "/src/a.txt"])["content"], "inside\n");
    container.call_inside(&["read", "/usr/which"]).run().error("outside_workspace");
    container.ok(&["edit", "a.txt", "--old-string", "inside", "--new-string", "edited"]);
    container.call_inside(&["write", "sub/b.txt"]).stdin("from stdin\n").run().success();
    container.ok(&["append", "sub/b.txt", "--content", "# Title\nbody\n"]);
    container.ok(&["section", "sub/b.txt", "Title", "--content", "new body\n"]);
    container.ok(&["insert", "a.txt", "1", "--content", "second\n"]);
    container.ok(&["prepend", "a.txt", "--content", "zeroth\n"]);
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n zeroth\n-edited\n+patched\n second\n";
    container.call_inside(&["patch"]).stdin(patch).run().success();
    assert_eq!(container.inside("cat /src/a.txt").unwrap(), "zeroth\npatched\nsecond\n");
    container.ok(&["move", "sub/b.txt", "c.txt"]);
    container.ok(&["delete", "c.txt"]);
    container.ok(&["restore", "c.txt"]);
    assert_eq!(container.inside("cat /src/c.txt").unwrap(), "from stdin\n# Title\nnew body\n");
    assert_eq!(container.ok(&["glob", "*.txt"])["paths"], json!(["a.txt", "c.txt"]));
    assert_eq!(container.ok(&["grep", "patched"])["matches"][0]["path"], "a.txt");
    assert_eq!(container.ok(&["ls"])["total"], 3);
    container.ok(&["undo"]);
    container.ok(&["redo"]);
    assert!(container.ok(&["log"])["snapshots"].as_array().unwrap().len() > 8);
    assert!(container.ok(&["diff"])["diff"].as_str().unwrap().contains("+patched"));
    for tool in ["session", "audit", "trash", "snapshot", "review", "doctor", "gc"] {
        container.ok(&[tool]);
    }
    let by_field = json!({ "path": "a.txt", "sandbox": "BOX" }).to_string();
    let read = container.call(&["read", "--json", &by_field]).run().ok();
    assert_eq!(read["content"], "zeroth\npatched\nsecond\n");

    container.ws.holds("a.txt", "here\n");
    assert_eq!((binary(), container.calls("cp")), (copied, 1), "the binary is copied once");
    container.podman(&["stop", "-t", "0", &container.id]).unwrap();
    container.call_inside(&["read", "a.txt"]).run().error("io_error");
    container.call(&["read", "--json", &by_field]).run().error("io_error");
}

#[test]
fn commands_are_sandboxed_in_a_container() {
    let Some(container) = Container::start() else { return };
    container
        .call(&["sandbox", "create", "box", "--container", &format!("podman:{}", container.id)])
        .run()
        .ok();
    let command = "cat /usr/which; pwd; echo x > made; echo x > /etc/evil; echo x > .git/x; touch .lbx/x
        cat /proc/1/environ; kill -9 1; echo 1 > /proc/sys/kernel/panic; exit 3";
    let ran = container.ok(&["bash", command]);
    assert_eq!((&ran["stdout"], &ran["exit_code"]), (&json!("the container\n/src\n"), &json!(3)), "{ran:#}");
    let stderr = ran["stderr"].as_str().unwrap();
    for refused in ["/etc/evil", ".git/x", ".lbx/x", "/proc/1/environ", "kernel/panic"] {
        assert!(stderr.contains(refused), "{refused}: {ran:#}");
    }
    assert_eq!(
        container.inside("ls -A /etc/evil /src/.git 2> /dev/null || ls -A /src").unwrap(),
        ".lbx\na.txt\nmade\n"
    );
    assert_eq!(ran["changed"][0]["path"], "made", "{ran:#}");
    container.ok(&["undo"]);
    assert_eq!(container.inside("ls /src").unwrap(), "a.txt\n");
    let status = container.call_inside(&["bash", "--exit-status", "exit 7"]).spawn().wait().unwrap();
    assert_eq!(status.code(), Some(7));

    // Nothing is left of a command that timed out.
    let mark = mark("podman");
    let request = json!({
        "command": format!("{}\nsleep 1000", FORKS.replace("bash", "sh")),
        "timeout_ms": 300,
        "env": { "LBX_MARK": mark },
        "sandbox": "box",
    });
    let ran = container.call(&["bash", "--json", &request.to_string()]).run().ok();
    assert_eq!(ran["timed_out"], true, "{ran:#}");
    wait_until_no_process_is_left(&mark, "podman");

    // Nothing is left if the call outside is killed or cancelled either: the engine would keep it running.
    let command = format!("{}\ntouch started; sleep 1000", FORKS.replace("bash", "sh"));
    let wait = |name: &str| {
        while container.inside(&format!("ls /src/{name} 2> /dev/null")).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        container.inside(&format!("/bin/busybox rm /src/{name}")).unwrap();
    };
    let by_flags = vec!["--sandbox", "box", "bash", "--direct", "--env", "LBX_MARK=podman-killed", &command];
    let request = json!({ "command": command, "env": { "LBX_MARK": "podman-killed" }, "direct": true, "sandbox": "box" });
    let request = request.to_string();
    for arguments in [by_flags, vec!["bash", "--json", &request]] {
        let mut call = container.call(&arguments).spawn();
        wait("started");
        kill(call.id());
        call.wait().unwrap();
        wait_until_no_process_is_left("podman-killed", "podman");
    }
}

#[test]
fn mcp_server_in_a_container_uses_one_connection() {
    let Some(container) = Container::start() else { return };
    container
        .call(&["sandbox", "create", "box", "--container", &format!("podman:{}", container.id)])
        .run()
        .ok();
    let mut server = Server::start(container.call_inside(&["mcp"]));
    let calls = container.calls("exec");
    for number in 0..5 {
        let path = format!("n{number}.txt");
        server.ok("write", &json!({ "path": path, "content": "x\n" }));
        assert_eq!(server.ok("read", &json!({ "path": path }))["content"], "x\n");
    }
    assert_eq!(server.ok("bash", &json!({ "command": "cat /usr/which" }))["stdout"], "the container\n");
    assert_eq!(container.calls("exec"), calls, "every call takes the one connection");
    server.close();
    assert_eq!(container.inside("ls /src").unwrap(), "a.txt\nn0.txt\nn1.txt\nn2.txt\nn3.txt\nn4.txt\n");
    // If the call outside is killed, nothing goes on inside, whoever still holds its stdin.
    let call = container.call_inside(&["mcp"]).stdin_never_closes();
    let mut killed = call.spawn();
    while !container.inside("ps").unwrap().contains(" mcp") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    kill(killed.id());
    killed.wait().unwrap();
    while container.inside("ps").unwrap().contains(" mcp") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // A server outside reaches the container through the field.
    let mut server = Server::start(container.call(&["mcp"]));
    assert_eq!(server.ok("read", &json!({ "path": "a.txt" }))["content"], "here\n");
    assert_eq!(server.ok("read", &json!({ "path": "a.txt", "sandbox": "box" }))["content"], "inside\n");
    server.close();
}

#[test]
fn stopped_container_is_an_io_error() {
    let Some(container) = Container::start() else { return };
    // Words with spaces are one word of the command in quotes.
    let programs = container.ws.outside.join("my programs");
    fs::create_dir(&programs).unwrap();
    let program = programs.join("in it");
    let script = format!("#!/bin/sh\nexec podman exec -i {} \"$@\"\n", container.id);
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let exec = format!("'{}'", program.display());
    let made = container.call(&["sandbox", "create", "box", "--exec", &exec]).run().ok();
    assert_eq!(made["sandboxes"][0]["exec"], exec.as_str(), "{made:#}");
    let backends = container.ok(&["bash", "--backends"]);
    let namespaces = backends["backends"].as_array().unwrap().iter().find(|it| it["name"] == "namespaces");
    assert_eq!(namespaces.unwrap()["works"], true, "{backends:#}");
    let call = container.call_inside(&["bash", "--direct", "touch started; sleep 1000"]).spawn();
    while container.inside("ls /src/started 2> /dev/null").is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    container.podman(&["stop", "-t", "0", &container.id]).unwrap();
    let ended = call.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(answer["error"]["kind"], "io_error", "{answer:#}");
    let call = container.call(&["--sandbox", "none", "mcp"]).run();
    assert!(call.stdout().is_empty(), "stdout of a server is for MCP alone");
}

#[test]
fn read_only_container_with_a_writable_workspace_works() {
    let Some(container) = Container::start() else { return };
    let source = container.ws.outside.join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("a.txt"), "inside\n").unwrap();
    let volume = format!("{}:/src", source.display());
    let only = ["run", "-d", "--read-only", "--read-only-tmpfs=false", "-v", &volume];
    let run = [&only, &RUN[2..], &["/bin/sleep", "600"]].concat();
    let id = container.podman(&run).unwrap().trim().to_owned();
    let create = ["sandbox", "create", "box", "--container", &format!("podman:{id}")];
    let made = container.call(&create).run().ok();
    assert_eq!(made["sandboxes"][0]["root"], "/src", "{made:#}");
    container.ok(&["read", "a.txt"]);
    container.ok(&["edit", "a.txt", "--old-string", "inside", "--new-string", "edited"]);
    assert_eq!(fs::read_to_string(source.join("a.txt")).unwrap(), "edited\n");
    assert_eq!(container.ok(&["bash", "cat a.txt; ls -A .lbx"])["stdout"], "edited\n.gitignore\n");
    assert_eq!(container.ok(&["ls"])["total"], 1);
    container.podman(&["rm", "-f", "-t", "0", &id]).unwrap();
}
