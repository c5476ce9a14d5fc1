//! Environment of git in tests.

/// Settings for git: what it writes is thrown away, so it waits for no disk and starts no maintenance.
pub const GIT_FAST: [(&str, &str); 5] = [
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "core.fsync"),
    ("GIT_CONFIG_VALUE_0", "none"),
    ("GIT_CONFIG_KEY_1", "maintenance.auto"),
    ("GIT_CONFIG_VALUE_1", "false"),
];
