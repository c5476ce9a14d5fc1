//! The network of commands: none, listed hosts, or all.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Workspace, skipped};
use crate::confined::guarded;
use crate::support::{backends, has_backend};

/// Attempts to get past a list of hosts, as a program that a command runs.
const WAYS: &str = include_str!("ways/past_the_list.py");

/// A server on the host that greets every client.
struct Greeter {
    /// Its port.
    port: u16,
    /// Number of connections so far.
    count: Arc<AtomicUsize>,
}

impl Greeter {
    /// Starts a server on all addresses.
    fn start() -> Self {
        Self::saying("HELLO\n".to_owned())
    }

    /// Starts a server with another greeting.
    fn saying(words: String) -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let (port, count) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let counted = count.clone();
        std::thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                let _ = connection.write_all(words.as_bytes());
                let _ = connection.set_read_timeout(Some(Duration::from_millis(200)));
                let _ = connection.read(&mut [0; 100]);
            }
        });
        Self { port, count }
    }
}

/// Runs a command with a network, under a backend, with more fields of the request.
fn run(ws: &Workspace, backend: &str, network: &str, request: &Value) -> Value {
    let settings = [format!("bash.backend={backend}"), format!("bash.network={network}")];
    let arguments = ["bash", "--set", &settings[0], "--set", &settings[1], "--json", "-"];
    ws.lbx_stdin(&arguments, request.to_string()).success()
}

#[test]
fn host_list_cannot_be_bypassed() {
    for backend in backends() {
        for is_direct in [false, true] {
            let ws = guarded();
            ws.write("ways.py", WAYS);
            let (listed, other) = (Greeter::start(), Greeter::start());
            let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
            udp.set_nonblocking(true).unwrap();
            let sockets = [ws.outside.join("host.sock"), ws.path("in.sock")];
            let abstract_name = format!("lbx-test-{}-{backend}-{is_direct}", std::process::id());
            let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
            let listeners = [
                UnixListener::bind(&sockets[0]).unwrap(),
                UnixListener::bind(&sockets[1]).unwrap(),
                UnixListener::bind_addr(&address).unwrap(),
            ];
            listeners.iter().for_each(|listener| listener.set_nonblocking(true).unwrap());
            let elsewhere =
                format!("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{}/\r\n\r\n", other.port);
            let leading = Greeter::saying(elsewhere);
            let hosts = format!("localhost:{},localhost:{},*.example.org", listed.port, leading.port);
            let request = json!({
                "command": "python3 ways.py",
                "direct": is_direct,
                "env": {
                    "LISTED": listed.port.to_string(),
                    "LEADING": leading.port.to_string(),
                    "OTHER": other.port.to_string(),
                    "UDP": udp.local_addr().unwrap().port().to_string(),
                    "SOCKET": sockets[0],
                    "INNER": sockets[1],
                    "ABSTRACT": abstract_name,
                },
            });
            let answer = run(&ws, backend, &hosts, &request);
            let printed = answer["data"]["stdout"].as_str().unwrap();
            let mut tried = (0, 0);
            for line in printed.lines() {
                let [kind, name, outcome] = line.split('\t').collect::<Vec<_>>()[..] else {
                    panic!("{line}")
                };
                if kind == "control" {
                    tried.1 += 1;
                    assert_eq!(outcome, "REACHED", "{backend}: {name}: {answer:#}");
                } else {
                    tried.0 += 1;
                    assert_ne!(outcome, "REACHED", "{backend}: {name}: {answer:#}");
                }
            }
            assert!(tried.0 >= 60 && tried.1 == 3, "{backend}: {tried:?}: {answer:#}");
            assert_eq!(other.count.load(Ordering::SeqCst), 0, "{backend}");
            assert_eq!(listed.count.load(Ordering::SeqCst), 3, "{backend}");
            assert_eq!(leading.count.load(Ordering::SeqCst), 1, "{backend}");
            assert!(udp.recv(&mut [0; 8]).is_err(), "{backend}");
            assert!(listeners.iter().all(|listener| listener.accept().is_err()), "{backend}");
            let denied = answer["data"]["denied_hosts"].to_string();
            for host in [
                format!("\"127.0.0.1:{}\"", other.port),
                format!("\"localhost:{}\"", other.port),
                "\"169.254.169.254:80\"".to_owned(),
                "\"example.org:443\"".to_owned(),
                format!("\"0x7f.1:{}\"", other.port),
            ] {
                assert!(denied.contains(&host), "{backend}: {host}: {denied}");
            }
            assert!(!denied.contains(&format!("\"localhost:{}\"", listed.port)), "{backend}: {denied}");
        }
    }
}

#[test]
fn proxy_connects_only_to_listed_hosts() {
    for backend in backends() {
        let ws = guarded();
        let server = Greeter::start();
        // `localhost` is the command's own, unless curl is configured otherwise.
        let command = format!(
            "curl -s --noproxy none.example --proxytunnel http://localhost:{}/ --http0.9 --max-time 5",
            server.port
        );
        let answer = run(&ws, backend, &format!("localhost:{}", server.port), &json!({ "command": command }));
        if answer["data"]["exit_code"] == 127 {
            skipped("curl is not installed");
            return;
        }
        assert_eq!(answer["data"]["stdout"], "HELLO\n", "{backend}: {answer:#}");
        assert!(answer["data"].get("denied_hosts").is_none(), "{backend}: {answer:#}");
        let answer = run(&ws, backend, "localhost:1", &json!({ "command": command }));
        let host = format!("localhost:{}", server.port);
        assert_eq!(answer["data"]["denied_hosts"], json!([host]), "{backend}: {answer:#}");
        // A program that uses plain HTTP gets the reason of the refusal.
        let plain = json!({ "command": "curl -s http://example.org/" });
        let answer = run(&ws, backend, "*.example.org", &plain);
        assert_eq!(answer["data"]["stdout"], "lbx: only CONNECT is served: use https\n", "{backend}");
    }
}

#[test]
fn host_list_applies_to_jobs_and_text_output() {
    for backend in backends() {
        let ws = guarded();
        let other = Greeter::start();
        let command = format!(
            "python3 -c 'import os, socket; host, port = os.environ[\"HTTPS_PROXY\"][7:].split(\":\"); it = socket.create_connection((host, port)); it.sendall(b\"CONNECT localhost:{} HTTP/1.1\\r\\n\\r\\n\"); print(it.recv(99).split()[1])'",
            other.port
        );
        let settings = [format!("bash.backend={backend}"), "bash.network=localhost:1".to_owned()];
        let bash = ["bash", "--set", &settings[0], "--set", &settings[1]];
        let job = ws.lbx(&[&bash[..], &["-b", &command]].concat()).ok()["job"].as_str().unwrap().to_owned();
        let ended = ws.lbx(&["bash", "--job", &job, "--timeout-ms", "20000"]).ok();
        let denied = format!("localhost:{}", other.port);
        assert_eq!((&ended["output"], &ended["denied_hosts"]), (&json!("b'403'\n"), &json!([denied])));
        let text = ws.lbx(&[&bash[..], &["--text", &command]].concat());
        let told = format!("denied: {denied} (bash.network)");
        assert!(text.stderr().contains(&told), "{backend}: {}", text.stderr());
        assert_eq!(other.count.load(Ordering::SeqCst), 0, "{backend}");
    }
}

#[test]
fn network_field_can_only_restrict_the_policy() {
    for backend in backends() {
        let ws = guarded();
        let server = Greeter::start();
        let listed = format!("localhost:{}", server.port);
        let probe = format!("printenv HTTPS_PROXY; : < /dev/tcp/127.0.0.1/{}", server.port);
        // The list stays in force if the request asks for the network; without network there is no list.
        let asked = run(&ws, backend, &listed, &json!({ "command": probe, "network": true }));
        assert!(asked["data"]["stdout"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{asked:#}");
        assert_ne!(asked["data"]["exit_code"], 0, "{backend}: {asked:#}");
        let without = run(&ws, backend, &listed, &json!({ "command": probe, "network": false }));
        assert_eq!(without["data"]["stdout"], "", "{backend}: {without:#}");
        let all = run(&ws, backend, "allow", &json!({ "command": probe }));
        assert_eq!((&all["data"]["exit_code"], &all["data"]["stdout"]), (&json!(0), &json!("")), "{backend}");
        let without = run(&ws, backend, "allow", &json!({ "command": probe, "network": false }));
        assert_ne!(without["data"]["exit_code"], 0, "{backend}: {without:#}");
        // Variables of the request override those of the proxy.
        let given = json!({ "command": "printenv HTTPS_PROXY http_proxy", "env": { "HTTPS_PROXY": "mine" } });
        let answer = run(&ws, backend, &listed, &given);
        assert!(answer["data"]["stdout"].as_str().unwrap().starts_with("mine\nhttp://"), "{answer:#}");
    }
}

#[test]
fn host_list_is_validated_and_only_the_user_sets_it() {
    let ws = guarded();
    for (entry, part) in [
        ("https://example.org", "name the host alone"),
        ("example.org:0", "expected a host name"),
        ("b\u{fc}cher.example", "xn--"),
        ("10.0.0.0/8", "expected a host name"),
        ("alow", "expected \"deny\", \"allow\" or a list of hosts"),
    ] {
        let error =
            ws.lbx(&["bash", "--set", &format!("bash.network={entry}"), "true"]).error("invalid_request");
        assert!(error["message"].as_str().unwrap().contains(part), "{entry}: {error:#}");
    }
    ws.write(".lbx/config.toml", "bash.network = ['example.org']\n");
    let error = ws.lbx(&["bash", "true"]).error("invalid_request");
    assert!(error["message"].as_str().unwrap().contains("only make it stricter"), "{error:#}");
    // The policy of a clone may disable the network.
    ws.write(".lbx/config.toml", "bash.network = 'deny'\n");
    let policy = ws.outside.join("home/.config/lbx/config.toml");
    fs::create_dir_all(policy.parent().unwrap()).unwrap();
    fs::write(policy, "bash.network = ['example.org']\n").unwrap();
    assert_eq!(ws.lbx(&["bash", "printenv HTTPS_PROXY"]).success()["data"]["stdout"], "");
}

#[test]
fn landlock_rejects_a_host_list() {
    if !has_backend("landlock") {
        return;
    }
    let ws = guarded();
    let settings = ["--set", "bash.backend=landlock", "--set", "bash.network=example.org"];
    let error = ws.lbx(&[&["bash"][..], &settings, &["true"]].concat()).error("command_denied");
    assert!(error.to_string().contains("Landlock cannot limit the network to a list of hosts"), "{error:#}");
}
