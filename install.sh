#!/bin/sh
# Builds lbx and installs it with its man pages and completions; --demo then plays a session.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
prefix=
demo=no

usage() {
    cat <<'USAGE'
Usage: ./install.sh [--prefix DIR] [--demo]

Builds lbx and installs the binary, the man pages and the completions below DIR.

  --prefix DIR  where to install (default: ~/.local, as root /usr/local)
  --demo        then play an agent's session on a scratch clone of this repository,
                every command and answer shown; exits non-zero where one misbehaves
  --help        show this text
USAGE
}

say() { printf '%s\n' "$*"; }
fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --prefix)
        [ $# -ge 2 ] || fail "--prefix needs a folder"
        prefix=$2
        shift 2
        ;;
    --prefix=*)
        prefix=${1#--prefix=}
        shift
        ;;
    --demo)
        demo=yes
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        fail "unknown argument: $1"
        ;;
    esac
done
if [ -z "$prefix" ]; then
    if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi
fi

# --- the tools it needs -------------------------------------------------------------------------

# The value of a key of Cargo.toml.
manifest_value() { sed -n "s/^$1 = \"\\(.*\\)\"\$/\\1/p" "$here/Cargo.toml" | head -n 1; }

# Whether version $1 is at least $2, both like 1.88.0.
at_least() {
    awk -v have="$1" -v want="$2" 'BEGIN {
        split(have, h, "."); split(want, w, ".")
        for (i = 1; i <= 3; i++) if (h[i] + 0 != w[i] + 0) exit !(h[i] + 0 > w[i] + 0)
    }'
}

# How to get the packages named for Debian, Fedora, Arch, Alpine and macOS, in this order.
how_to_get() {
    say "  Debian, Ubuntu:  apt-get install $1"
    say "  Fedora:          dnf install $2"
    say "  Arch:            pacman -S $3"
    say "  Alpine:          apk add $4"
    say "  macOS:           $5"
}

rust_wanted=$(manifest_value rust-version)
missing=no
if ! command -v cargo >/dev/null 2>&1; then
    missing=yes
    say "cargo is missing: Rust $rust_wanted or newer is needed. Install rustup and run 'rustup default stable', or:"
    how_to_get "rustup && rustup default stable" "rustup" "rustup" "rustup" "brew install rustup"
else
    rust_found=$(cd "$here" && cargo --version | sed 's/^cargo \([0-9.]*\).*/\1/')
    if ! at_least "$rust_found" "$rust_wanted"; then
        missing=yes
        say "cargo $rust_found is too old: Rust $rust_wanted or newer is needed. Run 'rustup update stable', or install rustup first."
    fi
fi
if ! command -v git >/dev/null 2>&1; then
    missing=yes
    say "git is missing: it shows what lbx has recorded."
    how_to_get git git git git "xcode-select --install"
fi
if ! command -v cc >/dev/null 2>&1; then
    missing=yes
    say "cc is missing: Rust needs a linker and the C library's headers."
    how_to_get "gcc libc6-dev" "gcc glibc-static" "gcc" "build-base" "xcode-select --install"
fi
[ "$missing" = no ] || fail "install what is missing and run this script again"

# --- build and install ---------------------------------------------------------------------------

say "Building lbx (a few minutes the first time) ..."
(cd "$here" && cargo build --release --locked) || fail "the build failed"

# Where cargo put the binary: it may be told by the environment or its own configuration.
host=$(cd "$here" && rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-$here/target}
binary=
for candidate in "$target/$host/release/lbx" "$target/release/lbx"; do
    if [ -x "$candidate" ]; then
        binary=$candidate
        break
    fi
done
[ -n "$binary" ] || fail "cargo built no lbx below $target"

mkdir -p "$prefix/bin" "$prefix/share/man/man1" "$prefix/share/man/man5" "$prefix/share/man/man7" "$prefix/share/bash-completion/completions" \
    "$prefix/share/zsh/site-functions" "$prefix/share/fish/vendor_completions.d"
# Beside the old binary and then renamed, so that a running lbx is not in the way.
cp "$binary" "$prefix/bin/.lbx.new"
chmod 755 "$prefix/bin/.lbx.new"
mv -f "$prefix/bin/.lbx.new" "$prefix/bin/lbx"
for section in 1 5 7; do
    cp "$here"/man/*."$section" "$prefix/share/man/man$section/"
done
cp "$here/completions/lbx.bash" "$prefix/share/bash-completion/completions/lbx"
cp "$here/completions/_lbx" "$prefix/share/zsh/site-functions/_lbx"
cp "$here/completions/lbx.fish" "$prefix/share/fish/vendor_completions.d/lbx.fish"
say "Installed $("$prefix/bin/lbx" --version) as $prefix/bin/lbx, with man pages and completions."
case :$PATH: in
*:"$prefix/bin":*) ;;
*) say "Add $prefix/bin to your PATH to call it by name." ;;
esac
[ "$demo" = yes ] || exit 0

# --- the demo ------------------------------------------------------------------------------------

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
clone=$scratch/repository
if git -C "$here" rev-parse --git-dir >/dev/null 2>&1; then
    git clone -q "$here" "$clone"
else
    # A source archive: its files are a repository all the same.
    mkdir "$clone"
    (cd "$here" && tar -cf - --exclude=./target .) | (cd "$clone" && tar -xf -)
    git -C "$clone" init -q
    git -C "$clone" add -A
    git -C "$clone" -c user.name=demo -c user.email=demo@localhost commit -qm "The source archive"
fi
cd "$clone"
# Nothing of the caller's own session or configuration takes part.
unset LBX_WORKSPACE LBX_SESSION LBX_SANDBOX LBX_OUTPUT CLAUDE_CODE_SESSION_ID CODEX_THREAD_ID
PATH=$prefix/bin:$PATH
head_before=$(git rev-parse HEAD)
answer=$scratch/answer
steps=0

# step WHAT STATUS TEXT COMMAND...: runs a command, shows it and its answer, and fails unless it
# ends with STATUS and its answer holds TEXT.
step() {
    what=$1 wanted_status=$2 wanted_text=$3
    shift 3
    steps=$((steps + 1))
    printf '\n# %s\n$' "$what"
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_./:=%~-]* | '') printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    status=0
    "$@" >"$answer" 2>&1 || status=$?
    cat "$answer"
    [ "$status" = "$wanted_status" ] || fail "the demo: exit status $status, not $wanted_status: $what"
    [ -z "$wanted_text" ] || grep -qF -- "$wanted_text" "$answer" || fail "the demo: no '$wanted_text' in the answer: $what"
}

say
say "An agent's session on a clone of this repository:"

edit_keywords() {
    step "$1" "$2" "$3" lbx edit Cargo.toml --old-string 'keywords = ["agent"' \
        --new-string 'keywords = ["coding-agent"' --why 'Be found by the longer word' </dev/null
}
edit_keywords "An edit is refused: this session has not read the file." 5 '"kind":"not_read"'
step "So it reads the file, or only the lines that matter." 0 '"sha256":' \
    lbx read Cargo.toml --limit 12 </dev/null
edit_keywords "Now the edit is made, at once and with a snapshot." 0 '"snapshot":'
step "Another program changes the file behind its back ..." 0 '' \
    sh -c 'echo "# changed by someone else" >> Cargo.toml' </dev/null
step "... so the next edit is refused, and the answer shows what has changed." 6 '+# changed by someone else' \
    lbx edit Cargo.toml --old-string 'name = "lbx"' --new-string 'name = "toolbox"' --replace-all </dev/null

# A patch of two files that adds a second line to each.
{
    for file in src/main.rs src/lib.rs; do
        printf -- '--- a/%s\n+++ b/%s\n@@ -1,1 +1,2 @@\n %s\n' "$file" "$file" "$(head -n 1 "$file")"
        printf '+//! A demo was here.\n'
    done
} >"$scratch/two-files.patch"
step "It reads two files for a patch." 0 '"files":[' \
    lbx read src/main.rs src/lib.rs --limit 2 </dev/null
printf '\n# The patch:\n'
cat "$scratch/two-files.patch"
step "One patch changes both, or neither." 0 '"action":"modify"' \
    lbx patch --why 'Say who was here' <"$scratch/two-files.patch"
step "A search finds both." 0 '"files_matched":2' \
    lbx grep 'demo was here' src </dev/null
step "The developer sees every change as a commit of its own, by plain git." 0 'patch: 2 files' \
    git log --oneline lbx-snapshots --not HEAD </dev/null
step "Each tells who made it, and why." 0 'Lbx-Session: default' \
    git log -1 --stat lbx-snapshots </dev/null
step "HEAD and the index are as they were." 0 "$head_before" \
    git rev-parse HEAD </dev/null
git diff --cached --quiet || fail "the demo: the index was touched"
git fsck --strict --no-dangling >/dev/null 2>&1 || fail "the demo: git fsck complains"
[ "$(git status --porcelain | sort | tr '\n' ' ')" = ' M Cargo.toml  M src/lib.rs  M src/main.rs ' ] ||
    fail "the demo: git status shows other files than the three changed"

say
say "$steps steps, each as told. The clone is removed; lbx is in $prefix/bin."
