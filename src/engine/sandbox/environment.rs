//! The environment of a command: variables that programs need to work, and no secrets of the caller.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Variable that names the folder for temporary files.
pub const TEMPORARY: &str = "TMPDIR";
/// Default `PATH`, if the caller has none.
pub const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Default `SHELL`, if the caller has none: bash would search the accounts of the system for one.
const SHELL_DEFAULT: &str = "/bin/sh";

/// Variables that a command inherits from the caller: user, folders, language, time, and the places of toolchains. None
/// holds a secret.
const ALLOWED: [&str; 47] = [
    "AR",
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CC",
    "CFLAGS",
    "CMAKE_PREFIX_PATH",
    "COLUMNS",
    "CONDA_PREFIX",
    "CPATH",
    "CXX",
    "CXXFLAGS",
    "DENO_DIR",
    "GEM_HOME",
    "GEM_PATH",
    "GOCACHE",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "GRADLE_HOME",
    "HOME",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LDFLAGS",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "LOGNAME",
    "M2_HOME",
    "MAKEFLAGS",
    "MANPATH",
    "NIX_PATH",
    "NODE_PATH",
    "NVM_DIR",
    "PATH",
    "PKG_CONFIG_PATH",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "PYTHONPATH",
    "RUBYLIB",
    "RUSTFLAGS",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SHELL",
    "TZ",
    "TZDIR",
    "USER",
    "VIRTUAL_ENV",
];
/// Prefix of more such variables.
const ALLOWED_PREFIX: &str = "LC_";

/// Variables of every command: a terminal without colours, and a git that takes no optional locks in a repository that
/// it cannot write.
const FIXED: [(&str, &str); 4] =
    [("TERM", "dumb"), ("TMPDIR", "/tmp"), ("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0")];

/// Variables that keep programs from prompts, pagers and drawing. The caller's own values take precedence.
const NON_INTERACTIVE: [(&str, &str); 9] = [
    ("CI", "true"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("GIT_EDITOR", ":"),
    ("GIT_PAGER", "cat"),
    ("PAGER", "cat"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PIP_NO_INPUT", "1"),
    ("npm_config_fund", "false"),
    ("npm_config_update_notifier", "false"),
];

/// Variables that make package managers fail at once without network, instead of trying for minutes. The caller's own
/// values take precedence.
const OFFLINE: [(&str, &str); 5] = [
    ("CARGO_NET_OFFLINE", "true"),
    ("GOPROXY", "off"),
    ("PIP_NO_INDEX", "1"),
    ("UV_OFFLINE", "1"),
    ("npm_config_offline", "true"),
];

/// Returns true if a value has the URL of a user, which may be a token: `https://user:token@host`.
fn has_user(value: &OsStr) -> bool {
    let urls =
        value.to_str().unwrap_or_default().split([',', '|', ' ']).filter_map(|url| url.split_once("://"));
    urls.map(|(_, rest)| rest.split('/').next().unwrap_or(rest)).any(|host| host.contains('@'))
}

/// Variables that name the proxy to a list of hosts. Programs without proxy support do not find it.
const PROXY: [&str; 6] = ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "http_proxy", "https_proxy"];
/// More proxy variables: hosts without proxy, and the switch of Node (22.21 and later).
const PROXY_MORE: [(&str, &str); 3] = [
    ("NODE_USE_ENV_PROXY", "1"),
    ("NO_PROXY", "localhost,127.0.0.1,::1"),
    ("no_proxy", "localhost,127.0.0.1,::1"),
];

/// Variable with the flags of make, which may hold a job server and variables of the command line.
const MAKE_FLAGS: &str = "MAKEFLAGS";
/// Longest argument or variable with its NUL, in bytes: `MAX_ARG_STRLEN` of Linux.
const STRING_BYTES_MAX: usize = 128 << 10;
/// Bytes that all arguments and variables may have in any case: `ARG_MAX` of Linux.
const ALL_BYTES_MIN: u64 = 128 << 10;
/// Largest size that they may have with any stack: three quarters of `_STK_LIM` of Linux.
const ALL_BYTES_MAX: u64 = 6 << 20;
/// Divisor of the stack size for the part that they may take.
const STACK_PART: u64 = 4;
/// Bytes for the shell's own name and the additions of the kernel.
const OTHER_BYTES: usize = 4096;

/// Returns the reason why an environment is too large for the OS to start a program. `stack_bytes` is the
/// limit of the stack, `None` for no limit.
pub fn size_fault(
    environment: &[(OsString, OsString)],
    command_bytes: usize,
    stack_bytes: Option<u64>,
) -> Option<String> {
    let size = |(name, value): &(OsString, OsString)| name.len() + value.len() + 2;
    if let Some(long) = environment.iter().find(|variable| size(variable) > STRING_BYTES_MAX) {
        let (name, bytes) = (long.0.display(), long.1.len());
        let most = STRING_BYTES_MAX - long.0.len() - 2;
        return Some(format!("env: the value of {name} has {bytes} bytes; the limit is {most}"));
    }
    let all = environment.iter().map(|variable| size(variable) + size_of::<usize>()).sum::<usize>();
    let used = all + command_bytes + OTHER_BYTES;
    let limit = stack_bytes.map_or(ALL_BYTES_MAX, |bytes| bytes / STACK_PART);
    let limit = limit.clamp(ALL_BYTES_MIN, ALL_BYTES_MAX);
    (u64::try_from(used).is_ok_and(|used| used > limit)).then(|| {
        format!("env: the environment and the command have {used} bytes; the limit of the system is {limit}")
    })
}

/// Returns the flags in `MAKEFLAGS` that apply outside the make that set them: its job server does not exist in the
/// sandbox, and a variable of its command line may be a password.
fn make_flags(value: &str) -> Option<String> {
    let is_variable = |word: &str| word.contains('=') && !word.starts_with("--");
    // Variables come last, and blanks in them are escaped: all words after the first variable belong to variables.
    let words = value.split(' ').take_while(|word| *word != "--" && !is_variable(word));
    let is_flag = |(index, word): &(usize, &str)| {
        let may_be_letters = *index == 0 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
        (word.starts_with('-') || may_be_letters) && !word.contains('=') && *word != "-j" && !word.is_empty()
    };
    let kept: Vec<&str> = words.enumerate().filter(is_flag).map(|(_, word)| word).collect();
    // The first word holds single-letter flags, and may be empty.
    let blank = if kept.first().is_some_and(|word| word.starts_with('-')) { " " } else { "" };
    (!kept.is_empty()).then(|| format!("{blank}{}", kept.join(" ")))
}

/// Returns the variables that lead to the proxy at a port of the loopback device, without those that an environment
/// already has.
pub fn of_proxy(port: u16, environment: &[(OsString, OsString)]) -> Vec<(&'static str, String)> {
    let proxy = PROXY.iter().map(|name| (*name, format!("http://127.0.0.1:{port}")));
    let more = PROXY_MORE.iter().map(|(name, value)| (*name, (*value).to_owned()));
    let is_free = |name: &str| !environment.iter().any(|(given, _)| given == name);
    proxy.chain(more).filter(|(name, _)| is_free(name)).collect()
}

/// Returns the environment of a command: the allowed variables of `caller` and those that the policy adds, then the
/// variables of every command, then those of the request.
pub fn of_command(
    caller: impl Iterator<Item = (OsString, OsString)>,
    more_names: &[String],
    given: &BTreeMap<String, String>,
    has_network: bool,
) -> Vec<(OsString, OsString)> {
    let is_named = |name: &OsStr| more_names.iter().any(|more| name == more.as_str());
    let is_allowed = |name: &OsStr| {
        name.to_str().is_some_and(|name| {
            ALLOWED.contains(&name)
                || name.starts_with(ALLOWED_PREFIX)
                || NON_INTERACTIVE.iter().chain(&OFFLINE).any(|(known, _)| *known == name)
        }) || is_named(name)
    };
    let passed = |(name, value): (OsString, OsString)| {
        if has_user(&value) && !is_named(&name) {
            return None;
        }
        if name != MAKE_FLAGS || is_named(&name) {
            return Some((name, value));
        }
        Some((name, make_flags(value.to_str()?)?.into()))
    };
    let defaults = [("PATH", PATH_DEFAULT), ("SHELL", SHELL_DEFAULT)];
    let mut environment: BTreeMap<OsString, OsString> =
        defaults.map(|(name, value)| (name.into(), value.into())).into();
    environment.extend(NON_INTERACTIVE.map(|(name, value)| (name.into(), value.into())));
    if !has_network {
        environment.extend(OFFLINE.map(|(name, value)| (name.into(), value.into())));
    }
    environment.extend(caller.filter(|(name, _)| is_allowed(name)).filter_map(passed));
    environment.extend(FIXED.map(|(name, value)| (name.into(), value.into())));
    environment.extend(given.iter().map(|(name, value)| (name.into(), value.into())));
    environment.into_iter().collect()
}
