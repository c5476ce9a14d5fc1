//! The environment of a command: what programs need to work, and no secrets of the caller's.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// Where programs are, where the caller's environment does not say.
pub const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables that a command gets from the caller's environment: who and where, language, time, and
/// where toolchains are. None of them holds a secret.
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
/// How the names of others begin.
const ALLOWED_PREFIX: &str = "LC_";

/// What every command has: a terminal that shows no colours, and git that takes no locks by itself
/// in a repository that it cannot write.
const FIXED: [(&str, &str); 4] =
    [("TERM", "dumb"), ("TMPDIR", "/tmp"), ("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0")];

/// The environment of a command: what is allowed of `caller`, also by the names that the policy
/// adds, then what every command has, then what the request gives.
pub fn of_command(
    caller: impl Iterator<Item = (OsString, OsString)>,
    more_names: &[String],
    given: &BTreeMap<String, String>,
) -> Vec<(OsString, OsString)> {
    let is_allowed = |name: &OsStr| {
        name.to_str().is_some_and(|name| {
            ALLOWED.contains(&name)
                || name.starts_with(ALLOWED_PREFIX)
                || more_names.iter().any(|more| more == name)
        })
    };
    let mut environment: BTreeMap<OsString, OsString> =
        BTreeMap::from([(OsString::from("PATH"), OsString::from(PATH_DEFAULT))]);
    environment.extend(caller.filter(|(name, _)| is_allowed(name)));
    environment.extend(FIXED.map(|(name, value)| (name.into(), value.into())));
    environment.extend(given.iter().map(|(name, value)| (name.into(), value.into())));
    environment.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_passes_but_what_is_allowed_or_given() {
        let caller =
            [("PATH", "/bin"), ("LC_ALL", "C"), ("AWS_SECRET_ACCESS_KEY", "x"), ("MINE", "m"), ("OURS", "o")]
                .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let given = BTreeMap::from([("LANG".to_owned(), "de".to_owned())]);
        let found = of_command(caller.into_iter(), &["MINE".to_owned()], &given);
        let of = |name: &str| found.iter().find(|(known, _)| known == name).and_then(|(_, it)| it.to_str());
        assert_eq!(of("PATH"), Some("/bin"));
        assert_eq!((of("LC_ALL"), of("MINE"), of("LANG")), (Some("C"), Some("m"), Some("de")));
        assert_eq!((of("AWS_SECRET_ACCESS_KEY"), of("OURS"), of("TERM")), (None, None, Some("dumb")));
        assert!(ALLOWED.is_sorted());
    }
}
