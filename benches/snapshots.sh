#!/bin/sh
# Measures the cost of snapshots compared with git, in repositories of several sizes: medians and ratios.
#
#   benches/snapshots.sh [LBX] [RUNS] [FILES…]
#
# LBX is the binary (default: lbx on the PATH); FILES are the sizes (default: 100 10000 90000).
# Every repository is created in its own folder under TMPDIR, and runs alternate, so that other load on
# the machine affects all of them. Times are those of whole processes. The time of a snapshot of one known
# path within a process, compared with git, is printed by
#   cargo test --release --test snapshot_store measure::known_paths -- --ignored --nocapture
set -eu

lbx=${1:-lbx}
runs=${2:-21}
[ $# -lt 2 ] || shift
[ $# -lt 1 ] || shift
sizes=${*:-100 10000 90000}
case $lbx in */*) lbx=$(realpath "$lbx") ;; esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME="$scratch" GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=bench GIT_AUTHOR_EMAIL=bench@localhost
export GIT_COMMITTER_NAME=bench GIT_COMMITTER_EMAIL=bench@localhost
unset LBX_SESSION CLAUDE_CODE_SESSION_ID CODEX_THREAD_ID LBX_WORKSPACE GIT_DIR || true

# Prints the median of the numbers on stdin.
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

# Appends the microseconds that a command takes to the file $1, and discards its output.
timed() {
    times=$1
    shift
    start=$(date +%s%N)
    "$@" >/dev/null 2>"$scratch/stderr" || {
        cat "$scratch/stderr" >&2
        exit 1
    }
    end=$(date +%s%N)
    echo $(((end - start) / 1000)) >>"$times"
}

# Creates a packed repository of $1 files in folders of 50, with a commit.
make_repository() {
    git init -q -b main .
    awk -v files="$1" 'BEGIN {
        print "commit refs/heads/main\ncommitter bench <bench@localhost> 1700000000 +0000\ndata 3\nall"
        for (at = 0; at < files; at++) {
            text = ""
            for (line = 0; line < 20; line++) text = text "line " line " of file " at "\n"
            folder = int(at / 50)
            printf "M 100644 inline top%d/mid%d/f%d.txt\ndata %d\n%s\n", folder / 40, folder, at, length(text), text
        }
    }' | git fast-import --quiet
    git reset -q --hard
    git config gc.auto 0
    git config maintenance.auto false
}

# Commits as a harness without lbx does: a separate index, a tree, a commit, a branch.
git_snapshot() {
    tree=$(git write-tree)
    commit=$(git commit-tree -p HEAD -m "a snapshot" "$tree")
    git update-ref refs/heads/other "$commit"
}
# The variable is meant for its subshell only.
# shellcheck disable=SC2030,SC2031
with_empty_index() (
    rm -f "$scratch/index"
    export GIT_INDEX_FILE="$scratch/index"
    git add -A
    git_snapshot
)
# shellcheck disable=SC2030,SC2031
with_copied_index() (
    cp .git/index "$scratch/index"
    export GIT_INDEX_FILE="$scratch/index"
    git add -A
    git_snapshot
)

# The measured calls; each changes its file.
append() { "$lbx" --session "$1" append top0/mid1/f60.txt --content "line of run $2
"; }
# A call that does everything of an append except the change: the difference is the change and its commit.
refused() { "$lbx" append top0/mid1/f60.txt --content x --dry-run; }
row() { # title, file of times, file of reference times
    mine=$(median <"$scratch/$2")
    other=$(median <"$scratch/$3")
    awk -v title="$1" -v mine="$mine" -v other="$other" \
        'BEGIN { printf "  %-52s %9.1f ms %9.1f ms %9.4f\n", title, mine / 1000, other / 1000, mine / other }'
}

for files in $sizes; do
    root="$scratch/work$files"
    mkdir "$root"
    cd "$root"
    make_repository "$files"
    append old warm-up >/dev/null
    git status --porcelain >/dev/null
    "$lbx" snapshot >/dev/null
done
sync

# One call after another in each of them, so that a slow moment of the disk affects all.
write() { "$lbx" write top0/mid1/f60.txt --content "written in run $1
" --session writer; }
for files in $sizes; do
    cd "$scratch/work$files"
    "$lbx" read top0/mid1/f60.txt --session writer >/dev/null
done
run=0
while [ "$run" -lt $((runs * 5)) ]; do
    run=$((run + 1))
    for files in $sizes; do
        cd "$scratch/work$files"
        timed "$scratch/t-write$files" write "$run"
    done
done
echo 'write over a file of the repository, with its snapshot'
first=$(echo "$sizes" | awk '{ print $1 }')
for files in $sizes; do
    row "$files files | $first files" "t-write$files" "t-write$first"
done

for files in $sizes; do
    cd "$scratch/work$files"
    rm -f "$scratch"/t-*
    run=0
    while [ "$run" -lt "$runs" ]; do
        run=$((run + 1))
        timed "$scratch/t-append" append old "$run"
        timed "$scratch/t-copied" with_copied_index
        [ "$run" -gt 5 ] || timed "$scratch/t-empty" with_empty_index
        timed "$scratch/t-first" append "new-$run" "$run"
        timed "$scratch/t-status" git status --porcelain
        "$lbx" snapshot >/dev/null
        timed "$scratch/t-scan" "$lbx" snapshot
        timed "$scratch/t-version" "$lbx" --version
        timed "$scratch/t-refused" refused
    done
    printf '%s files %47s %12s %9s\n' "$files" lbx git ratio
    row 'append and its commit | add -A, index built again' t-append t-empty
    row 'append and its commit | add -A, index copied' t-append t-copied
    row 'first append of a session, with baseline | status' t-first t-status
    row 'full scan, nothing changed | status' t-scan t-status
    row '(lbx --version | status)' t-version t-status
    row '(append --dry-run | add -A, index built again)' t-refused t-empty
    cd "$scratch"
    rm -rf "$scratch/work$files"
done
