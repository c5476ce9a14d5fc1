#!/bin/bash
# Fuzzes the parsers of patches and their application, one target after the other.
#
# Usage: fuzz/run.sh [SECONDS [TARGET…]]    (default: 600 seconds each, all targets)
#
# Needs a nightly compiler and a C++ compiler (libFuzzer is built from its crate), but not cargo-fuzz.
# What is found lies in fuzz/artifacts/TARGET; run it again with
#   fuzz/target/…/release/TARGET fuzz/artifacts/TARGET/FILE
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-600}
shift || true
targets=("$@")
((${#targets[@]} > 0)) || targets=(unified codex blocks apply)

host=$(rustc -vV | sed -n 's/^host: //p')
# As cargo-fuzz has them: coverage for libFuzzer, AddressSanitizer, checks on. The sanitizer wants a
# dynamically linked program, unlike lbx itself.
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address -Ctarget-feature=-crt-static \
-Cdebug-assertions -Ccodegen-units=1 --cfg fuzzing" \
    cargo +nightly build --release --target "$host"

status=0
for target in "${targets[@]}"; do
    mkdir -p "corpus/$target" "artifacts/$target"
    echo "== $target, $seconds s"
    "target/$host/release/$target" "corpus/$target" "seeds/$target" -dict=patch.dict \
        -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=1024 \
        -artifact_prefix="artifacts/$target/" -print_final_stats=1 2>&1 |
        grep -E "panicked|ERROR|SUMMARY|stat::|Test unit written|DONE" || status=1
done
exit "$status"
