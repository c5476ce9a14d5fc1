#!/bin/sh
# Measures grep, glob and ls compared with rg and fd on a tree, warm: medians and their ratios.
#
#   benches/search.sh TREE [LBX] [RUNS]
#
# TREE should have 50,000 files or more; LBX is the binary (default: lbx on the PATH). Runs
# alternate if hyperfine is missing; with hyperfine each pair is measured one after the other.
set -eu

tree=${1:?"usage: benches/search.sh TREE [LBX] [RUNS]"}
lbx=${2:-lbx}
runs=${3:-10}
fd=$(command -v fd || command -v fdfind || true)
case $lbx in */*) lbx=$(realpath "$lbx") ;; esac
cd "$tree"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Prints the median of the numbers on stdin.
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

# Prints the milliseconds that a command takes, and discards its output.
once() {
    start=$(date +%s%N)
    "$@" >/dev/null 2>&1 || true
    end=$(date +%s%N)
    echo $(((end - start) / 1000))
}

# Compares two commands, each a word list: title, ours, theirs.
compare() {
    title=$1 ours=$2 theirs=$3
    if command -v hyperfine >/dev/null; then
        hyperfine -N -i -w 2 -r "$runs" --style none --export-csv "$scratch/csv" "$ours" "$theirs" \
            >/dev/null 2>&1
        mine=$(awk -F, 'NR == 2 { print int($4 * 1000000) }' "$scratch/csv")
        other=$(awk -F, 'NR == 3 { print int($4 * 1000000) }' "$scratch/csv")
    else
        : >"$scratch/ours" && : >"$scratch/theirs"
        run=0
        while [ "$run" -lt "$runs" ]; do
            # The commands are lists of plain words.
            # shellcheck disable=SC2086
            once $ours >>"$scratch/ours"
            # shellcheck disable=SC2086
            once $theirs >>"$scratch/theirs"
            run=$((run + 1))
        done
        mine=$(median <"$scratch/ours")
        other=$(median <"$scratch/theirs")
    fi
    awk -v title="$title" -v mine="$mine" -v other="$other" \
        'BEGIN { printf "%-28s %9.1f ms %9.1f ms   %.2f\n", title, mine / 1000, other / 1000, mine / other }'
}

whole='--limit 0 --max-bytes 0'
printf '%-28s %12s %12s   %s\n' "what" "lbx" "other" "ratio"
compare 'rare literal' "$lbx grep zzyzxqq" 'rg zzyzxqq'
compare 'common word, one page' "$lbx grep return" 'rg return'
compare 'common word, whole' "$lbx grep return $whole" 'rg return'
compare 'ignored case' "$lbx grep -i mutexguard $whole" 'rg -i mutexguard'
compare 'alternation' "$lbx grep alpha|omega|zeta $whole" 'rg alpha|omega|zeta'
compare 'files' "$lbx grep -l return $whole" 'rg -l return'
compare 'count' "$lbx grep -c return $whole" 'rg -c return'
compare 'glob against rg --files' "$lbx glob *.toml $whole" 'rg --files -g *.toml'
compare 'ls -R against rg --files' "$lbx ls -R $whole" 'rg --files'
if [ -n "$fd" ]; then
    compare 'glob against fd' "$lbx glob *.toml $whole" "$fd -g *.toml"
    compare 'ls -R against fd' "$lbx ls -R $whole" "$fd ."
fi

small=$scratch/small
mkdir -p "$small"
number=0
while [ "$number" -lt 100 ]; do
    mkdir -p "$small/d$((number % 10))"
    printf 'fn name_%s() {}\nreturn %s\n' "$number" "$number" >"$small/d$((number % 10))/f$number.rs"
    number=$((number + 1))
done
cd "$small"
compare 'small tree, rare literal' "$lbx grep zzyzxqq" 'rg zzyzxqq'
compare 'small tree, common word' "$lbx grep return" 'rg return'
compare 'small tree, files' "$lbx glob **" 'rg --files'
