#!/bin/bash
# Fuzzes the parsers, the pure functions under them, and whole workspaces, one target after the other.
#
# Usage: fuzz/run.sh [SECONDS [TARGET…]]    (default: 600 seconds each, all targets of fuzz/entry/mod.rs)
#
# The target `workspaces` damages a real .lbx and .git, with another sample in each round, and calls every
# tool; it needs only the project's own tests (tests/hostile). The other targets need a C++ compiler
# (libFuzzer is built from its crate), but neither a nightly compiler nor cargo-fuzz. Without it,
#   LBX_FUZZ_SECONDS=60 LBX_SEED=1 cargo test --test fuzz
# runs the same functions on unguided inputs.
# Failing inputs are in fuzz/artifacts/TARGET; run one again with
#   fuzz/run.sh 0 TARGET fuzz/artifacts/TARGET/FILE
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-600}
shift || true
targets=() inputs=()
for word in "$@"; do
    if [[ $word == */* ]]; then
        inputs+=("$(realpath --relative-to=. "$OLDPWD/$word")")
    else
        targets+=("$word")
    fi
done
if ((${#targets[@]} == 0)); then
    mapfile -t targets < <(sed -n 's/^    ("\([a-z]*\)", .*/\1/p' entry/mod.rs)
    targets+=(workspaces)
fi

# Tries samples of damaged workspaces until the time is over.
fuzz_workspaces() {
    local end=$((SECONDS + seconds)) seed
    while ((SECONDS < end)); do
        seed=$RANDOM$RANDOM
        echo "== workspaces, LBX_SEED=$seed"
        LBX_SEED=$seed cargo test --quiet --locked --manifest-path ../Cargo.toml --test hostile workspaces || return 1
    done
}

status=0
parsers=()
for target in "${targets[@]}"; do
    if [[ $target == workspaces ]]; then
        fuzz_workspaces || status=1
    else
        parsers+=("$target")
    fi
done
((${#parsers[@]} > 0)) || exit "$status"

# The same versions as in lbx itself.
cp ../Cargo.lock .
host=$(rustc -vV | sed -n 's/^host: //p')
# Only lbx is instrumented, and not optimized: with all dependencies and AddressSanitizer, which finds
# nothing in a crate that forbids `unsafe`, the compiler needs a quarter of an hour and 8 GB.
RUSTC_WRAPPER=$PWD/instrument cargo build

# The targets that work on files have their own home folder, in memory if possible.
memory=/dev/shm
[[ -d $memory ]] || memory=${TMPDIR:-/tmp}
home=$(mktemp -d "$memory/lbx-fuzz-XXXXXX")
trap 'rm -rf "$home"' EXIT
export HOME=$home XDG_STATE_HOME=$home/state XDG_CONFIG_HOME=$home/config GIT_CONFIG_NOSYSTEM=1
export LBX_STATE_ID=5ca1ab1e0ddba11c0ffee15badc0de42

for target in "${parsers[@]}"; do
    mkdir -p "corpus/$target" "artifacts/$target"
    echo "== $target, $seconds s"
    export LBX_FUZZ_TARGET=$target
    if ((${#inputs[@]} > 0)); then
        "target/$host/debug/any" "${inputs[@]}" || status=1
        continue
    fi
    "target/$host/debug/any" "corpus/$target" "seeds/$target" -dict=words.dict \
        -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="artifacts/$target/" -print_final_stats=1 2>&1 |
        grep -E "panicked|fails|assert|ERROR|SUMMARY|stat::|Test unit written|DONE" || status=1
done
exit "$status"
