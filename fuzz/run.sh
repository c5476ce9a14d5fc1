#!/bin/bash
# Fuzzes the parsers of patches and their application, one target after the other, and whole workspaces.
#
# Usage: fuzz/run.sh [SECONDS [TARGET…]]    (default: 600 seconds each, all targets)
#
# The target `workspaces` damages a real .lbx and .git, another sample in each round, and calls every
# tool; it needs nothing but the project's own tests (tests/hostile). The other targets need a nightly
# compiler and a C++ compiler (libFuzzer is built from its crate), but not cargo-fuzz.
# What is found lies in fuzz/artifacts/TARGET; run it again with
#   fuzz/target/…/release/TARGET fuzz/artifacts/TARGET/FILE
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-600}
shift || true
targets=("$@")
((${#targets[@]} > 0)) || targets=(unified codex blocks apply workspaces)

# Samples of damaged workspaces until the time is over.
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
# As cargo-fuzz has them: coverage for libFuzzer, AddressSanitizer, checks on. The sanitizer wants a
# dynamically linked program, unlike lbx itself.
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address -Ctarget-feature=-crt-static \
-Cdebug-assertions -Ccodegen-units=1 --cfg fuzzing" \
    cargo +nightly build --release --target "$host"

for target in "${parsers[@]}"; do
    mkdir -p "corpus/$target" "artifacts/$target"
    echo "== $target, $seconds s"
    "target/$host/release/$target" "corpus/$target" "seeds/$target" -dict=patch.dict \
        -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=1024 \
        -artifact_prefix="artifacts/$target/" -print_final_stats=1 2>&1 |
        grep -E "panicked|ERROR|SUMMARY|stat::|Test unit written|DONE" || status=1
done
exit "$status"
