#!/bin/sh
# Installs lbx with its man pages and completions: built from this source tree, or, in a release
# archive, the binary next to this script. See --help.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
prefix=
binary=
links=no
demo=no
uninstall=no

usage() {
    cat <<'USAGE'
Usage: ./install.sh [OPTIONS]

Installs the binary, the man pages and the completions of lbx below DIR. In a source tree it builds
lbx first; in a release archive it takes the binary there. It never needs root.

  --prefix DIR   where to install (default: ~/.local, as root /usr/local)
  --binary FILE  install this binary instead of building one
  --links        also make a link for each tool in DIR/lib/lbx/links
  --demo         then play an agent's session in a scratch repository, every command and answer
                 shown; exits non-zero where one misbehaves
  --uninstall    remove what this script has installed below DIR
  --help         show this text
USAGE
}

say() { printf '%s\n' "$*"; }
fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

# --- options -------------------------------------------------------------------------------------

# The value of an option, which must not look like another option.
needs_value() {
    [ $# -ge 2 ] || fail "$1 needs a value"
    case $2 in -*) fail "$1 needs a value; for a name that begins with - write ./$2" ;; esac
}

while [ $# -gt 0 ]; do
    case $1 in
    --prefix | --binary)
        needs_value "$@"
        if [ "$1" = --prefix ]; then prefix=$2 prefix_given=yes; else binary=$2; fi
        shift
        ;;
    --prefix=*) prefix=${1#--prefix=} prefix_given=yes ;;
    --binary=*) binary=${1#--binary=} ;;
    --links) links=yes ;;
    --demo) demo=yes ;;
    --uninstall) uninstall=yes ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        fail "unknown argument: $1"
        ;;
    esac
    shift
done
if [ "$uninstall" = yes ] && [ "$demo$links$binary" != nono ]; then
    fail "--uninstall goes with --prefix only"
fi
if [ -z "${prefix_given-}" ]; then
    if [ "$(id -u)" = 0 ]; then
        prefix=/usr/local
    else
        [ -n "${HOME-}" ] || fail "HOME is not set; name a folder with --prefix"
        prefix=$HOME/.local
    fi
fi
newline='
'
case $prefix in
'') fail "--prefix is empty; name a folder" ;;
'~'*) fail "--prefix $prefix: the shell did not expand ~; write \"\$HOME${prefix#'~'}\"" ;;
*"$newline"*) fail "--prefix must not contain a line break" ;;
*:*) fail "--prefix $prefix contains a colon, and PATH could not name it" ;;
/*) ;;
*) prefix=$(pwd)/$prefix ;;
esac
# Without trailing slashes.
while [ "$prefix" != / ] && [ "$prefix" != "${prefix%/}" ]; do prefix=${prefix%/}; done
[ "$prefix" != / ] || fail "--prefix / would install among the system's own files; try /usr/local"
if [ -e "$prefix" ] && [ ! -d "$prefix" ]; then fail "--prefix $prefix is not a folder"; fi
[ "$(CDPATH='' cd -- "$prefix" 2>/dev/null && pwd -P)" != "$here" ] ||
    fail "--prefix is the folder of this script; name another"

# --- what is installed, and the list of it ---------------------------------------------------------

# Each line of the list names one thing made below the prefix: `file SIZE CHECKSUM PATH`, `link PATH` or
# `dir PATH`. The folders come in the order in which they were made.
listing=share/lbx/installed
scratch=$(mktemp -d)
installing=no
# The list also has files made before a failure, so that they can be removed.
end() {
    [ "$installing" = no ] || awk '!seen[$0]++' "$old" "$new" >"$prefix/$listing" 2>/dev/null || :
    rm -rf "$scratch"
}
trap end EXIT
trap 'exit 130' INT TERM
old=$scratch/old
new=$scratch/new
: >"$new"
if [ -f "$prefix/$listing" ]; then cp "$prefix/$listing" "$old"; else : >"$old"; fi

# The size and the checksum of a file.
sum_of() { cksum <"$1" | awk '{ print $2, $1 }'; }

# Succeeds if a path below the prefix is as this script left it.
untouched() {
    if [ -L "$prefix/$1" ]; then
        case $(readlink "$prefix/$1") in ../../../bin/lbx) grep -qxF "link $1" "$old" ;; *) return 1 ;; esac
    else
        [ -f "$prefix/$1" ] && grep -qxF "file $(sum_of "$prefix/$1") $1" "$old"
    fi
}

# Prints the paths of one kind in a list.
listed() {
    awk -v kind="$1" '$1 == kind {
        sub(/^[^ ]+ /, "")
        if (kind == "file") sub(/^[^ ]+ [^ ]+ /, "")
        print
    }' "$2"
}

# make_folder PATH: creates the folder and its parents, and notes each that is new.
make_folder() {
    [ ! -d "$prefix/$1" ] || return 0
    case $1 in */*) make_folder "${1%/*}" ;; esac
    mkdir "$prefix/$1" 2>/dev/null ||
        fail "cannot make $prefix/$1; choose a folder of yours with --prefix, such as \"\$HOME/.local\""
    echo "dir $1" >>"$new"
}

# put FILE PATH MODE: installs the file below the prefix. It is renamed into its place, so that a running
# lbx is not in the way. It is written in few large parts: a kernel whose file system can then holds a
# program in large pages, and each call of it starts sooner.
put() {
    make_folder "${2%/*}"
    [ ! -d "$prefix/$2" ] || fail "$prefix/$2 is a folder"
    staged=$prefix/${2%/*}/.lbx.$$
    { dd if="$1" of="$staged" bs=4194304 && chmod "$3" "$staged" && mv -f -- "$staged" "$prefix/$2"; } 2>"$scratch/said" || {
        rm -f -- "$staged"
        cat "$scratch/said" >&2
        fail "cannot write $prefix/$2; choose a folder of yours with --prefix, such as \"\$HOME/.local\""
    }
    echo "file $(sum_of "$prefix/$2") $2" >>"$new"
}

# Removes files of the old list that the new one lacks, unless they were changed since.
remove_left_over() {
    kept=0 removed=0
    { listed file "$old" && listed link "$old"; } >"$scratch/paths"
    { listed file "$new" && listed link "$new"; } >"$scratch/new_paths"
    while IFS= read -r path; do
        if grep -qxF -- "$path" "$scratch/new_paths"; then
            continue
        elif untouched "$path"; then
            rm -f -- "$prefix/$path"
            removed=$((removed + 1))
        elif [ -e "$prefix/$path" ] || [ -L "$prefix/$path" ]; then
            say "Kept $prefix/$path: it has been changed since it was installed."
            kept=$((kept + 1))
        fi
    done <"$scratch/paths"
}

if [ "$uninstall" = yes ]; then
    [ -f "$prefix/$listing" ] ||
        fail "nothing is installed below $prefix: there is no $prefix/$listing"
    remove_left_over
    rm -f -- "$prefix/$listing"
    # The innermost folders were made last. Whatever holds something else stays.
    listed dir "$old" | awk '{ line[NR] = $0 } END { for (i = NR; i > 0; i--) print line[i] }' >"$scratch/folders"
    while IFS= read -r path; do
        rmdir -- "$prefix/$path" 2>/dev/null || :
    done <"$scratch/folders"
    rmdir -- "$prefix" 2>/dev/null || :
    say "Removed lbx from $prefix: $removed files and links, $kept kept."
    say "Workspaces keep their .lbx folders, and your configuration and state stay where they are:"
    say "  ${XDG_CONFIG_HOME:-~/.config}/lbx  ${XDG_STATE_HOME:-~/.local/state}/lbx"
    exit 0
fi

# --- the tools it needs ----------------------------------------------------------------------------

system=$(uname -s)
case $system in
Linux | Darwin) ;;
CYGWIN* | MINGW* | MSYS* | Windows*)
    fail "lbx needs Linux or macOS. On Windows run it in WSL 2: 'wsl --install', then install lbx in it, and keep your projects on its disk."
    ;;
*) fail "lbx runs on Linux and macOS, not on $system. A Linux container or a virtual machine can run it." ;;
esac

# How to get the packages named for Debian, Fedora, Arch, Alpine and macOS, in this order.
how_to_get() {
    if [ "$system" = Darwin ]; then
        say "  $5"
        return
    fi
    say "  Debian, Ubuntu:  apt-get install $1"
    say "  Fedora:          dnf install $2"
    say "  Arch:            pacman -S $3"
    say "  Alpine:          apk add $4"
}

# Succeeds if version $1 is at least $2, both like 1.88.0.
at_least() {
    awk -v have="$1" -v want="$2" 'BEGIN {
        split(have, h, "."); split(want, w, ".")
        for (i = 1; i <= 3; i++) if (h[i] + 0 != w[i] + 0) exit !(h[i] + 0 > w[i] + 0)
    }'
}

missing=no
# Names the programs that a build lacks.
check_build_tools() {
    rust_wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$here/Cargo.toml" | head -n 1)
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
    if ! command -v cc >/dev/null 2>&1; then
        missing=yes
        say "cc is missing: Rust needs a linker and the C library's headers."
        how_to_get "gcc libc6-dev" "gcc glibc-static" "gcc" "build-base" "xcode-select --install"
    fi
}

# Where the linker can, it puts the functions that everyday calls run side by side: a call then touches a
# third of the pages.
order=-Clink-arg=-Wl,-T,.cargo/order.ld

# A program of glibc asks the processor for its caches whenever it starts. In a virtual machine that takes longer than
# all the rest of a start, and one of musl does not ask.
musl=x86_64-unknown-linux-musl

# Succeeds if Rust links a program with some options.
can_link() { echo 'fn main() {}' | (cd "$here" && rustc "$@" -o "$scratch/tried" -) >/dev/null 2>&1; }

# Succeeds if Rust builds for musl; rustup adds that target if it can.
add_musl() {
    [ "$system $(uname -m)" = "Linux x86_64" ] || return 1
    ! can_link --target "$musl" || return 0
    command -v rustup >/dev/null 2>&1 || return 1
    say "Adding the target $musl to Rust; 'rustup target remove $musl' removes it ..."
    (cd "$here" && timeout 120 rustup target add "$musl") >/dev/null 2>&1 || :
    can_link --target "$musl" || {
        say "It cannot be added; lbx is built with the system's C library, and each call starts later."
        return 1
    }
}

# Builds lbx. cargo says where it put the binary, whatever the environment or its configuration are.
build() {
    say "Building lbx (a few minutes the first time) ..."
    # `lbx --version` names the commit; + if files of it have been changed.
    if [ -e "$here/.git" ] && commit=$(git -C "$here" rev-parse --short=12 HEAD 2>/dev/null); then
        git -C "$here" diff --quiet HEAD || commit=$commit+
        LBX_VERSION="$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/Cargo.toml" | head -n 1) ($commit)"
        export LBX_VERSION
    fi
    set -- --release --locked --bin lbx --message-format=json-render-diagnostics
    ! add_musl || set -- "$@" --target "$musl"
    if can_link "$order"; then
        (cd "$here" && cargo rustc "$@" -- "$order") >"$scratch/messages" || {
            say "Building lbx without the order of its functions ..."
            (cd "$here" && cargo build "$@") >"$scratch/messages" || fail "the build failed"
        }
    else
        (cd "$here" && cargo build "$@") >"$scratch/messages" || fail "the build failed"
    fi
    binary=$(sed -n 's/.*"executable":"\([^"]*\/lbx\)".*/\1/p' "$scratch/messages" | tail -n 1)
    [ -n "$binary" ] || fail "cargo named no binary; build with 'cargo build --release' and pass it with --binary"
}

if [ -z "$binary" ] && [ ! -f "$here/Cargo.toml" ]; then
    binary=$here/lbx
fi
[ -n "$binary" ] || check_build_tools
if [ "$demo" = yes ] && ! command -v git >/dev/null 2>&1; then
    missing=yes
    say "git is missing: the demo shows with it what lbx has recorded."
    how_to_get git git git git "xcode-select --install"
fi
[ "$missing" = no ] || fail "install what is missing and run this script again"
[ -n "$binary" ] || build
[ -f "$binary" ] || fail "there is no file $binary"
case $binary in /*) ;; *) binary=./$binary ;; esac
version=$("$binary" --version 2>"$scratch/said") || version=
case $version in
'lbx '*) ;;
*) fail "$binary is no lbx that runs on this machine ($(uname -m)): $(head -n 1 "$scratch/said")" ;;
esac

# --- install ---------------------------------------------------------------------------------------

mkdir -p -- "$prefix" 2>/dev/null || fail "cannot make $prefix; choose a folder of yours with --prefix"
prefix=$(CDPATH='' cd -- "$prefix" && pwd -P)
# Keeps folders of an earlier run in the list, so that they can be removed.
grep '^dir ' "$old" >"$new" || :
make_folder "${listing%/*}"
installing=yes
put "$binary" bin/lbx 755
for page in "$here"/man/*.[1-8]; do
    name=${page##*/}
    put "$page" "share/man/man${name##*.}/$name" 644
done
put "$here/completions/lbx.bash" share/bash-completion/completions/lbx 644
put "$here/completions/_lbx" share/zsh/site-functions/_lbx 644
put "$here/completions/lbx.fish" share/fish/vendor_completions.d/lbx.fish 644
for licence in "$here"/LICENSE*; do
    put "$licence" "share/doc/lbx/${licence##*/}" 644
done

# A link for each tool, by which lbx knows what it is called for. They have a folder of their own,
# since names such as ls, grep and bash must not come before the system's by accident. Where an
# earlier run has made them, they are kept up to date.
[ -z "$(listed link "$old")" ] || links=yes
if [ "$links" = yes ]; then
    folder=lib/lbx/links
    make_folder "$folder"
    "$prefix/bin/lbx" schema --aliases --text </dev/null | sed -n 's/^ *"name": "\([a-z_]*\)",*$/\1/p' >"$scratch/names"
    [ -s "$scratch/names" ] || fail "lbx did not name its tools"
    while IFS= read -r name; do
        if [ -e "$prefix/$folder/$name" ] || [ -L "$prefix/$folder/$name" ]; then
            untouched "$folder/$name" || {
                say "Kept $prefix/$folder/$name: it is not from this script."
                continue
            }
            rm -f -- "$prefix/$folder/$name"
        fi
        ln -s ../../../bin/lbx "$prefix/$folder/$name"
        echo "link $folder/$name" >>"$new"
    done <"$scratch/names"
fi

remove_left_over
# The list does not list itself.
installing=no
cp -- "$new" "$prefix/$listing"

say "Installed $version below $prefix:"
say "  the binary         bin/lbx"
say "  manual pages       share/man       (man lbx)"
say "  completions        share/bash-completion, share/zsh, share/fish"
say "  the list of these  $listing"
if [ "$links" = yes ]; then
    say "  links              lib/lbx/links   ($(wc -l <"$scratch/names" | tr -d ' ') names, ls, grep and bash among them)"
    say "Put $prefix/lib/lbx/links first in the PATH of an agent only: scripts expect the system's ls, grep and bash."
fi
case :$PATH: in
*:"$prefix/bin":*) ;;
*) say "Add $prefix/bin to your PATH to call it by name." ;;
esac
[ "$demo" = yes ] || exit 0

# --- the demo --------------------------------------------------------------------------------------

clone=$scratch/repository
if [ -f "$here/Cargo.toml" ] && git -C "$here" rev-parse --git-dir >/dev/null 2>&1; then
    git clone -q -- "$here" "$clone"
else
    # An archive: its words are a repository too.
    mkdir "$clone"
    cp -- "$here"/*.md "$here"/LICENSE-* "$clone"
    git -C "$clone" init -q
    git -C "$clone" add -A
    git -C "$clone" -c user.name=demo -c user.email=demo@localhost commit -qm "The archive"
fi
cd "$clone"
# Ignores the caller's session, configuration and repository.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE LBX_WORKSPACE LBX_SESSION LBX_SANDBOX LBX_DIALECT LBX_GATE \
    CLAUDE_CODE_SESSION_ID CODEX_THREAD_ID
XDG_CONFIG_HOME=$scratch/config LBX_OUTPUT=text PATH=$prefix/bin:$PATH
export XDG_CONFIG_HOME LBX_OUTPUT PATH
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
say "An agent's session in a scratch copy of this folder. LBX_OUTPUT=text is set; without it each answer"
say "is one JSON object:"

heading=$(sed -n '/^## /{p;q;}' CHANGELOG.md)
edit_heading() {
    step "$1" "$2" "$3" lbx edit CHANGELOG.md --old-string "$heading" \
        --new-string "$heading, and tried" --why 'Say that it was tried' </dev/null
}
edit_heading "An edit is refused: this session has not read the file." 5 'not_read'
step "So it reads the lines that matter." 0 "$heading" \
    lbx read CHANGELOG.md --limit 12 </dev/null
edit_heading "Now the edit is made: at once, undoable, and with a snapshot." 0 'edit: CHANGELOG.md'
step "Another program changes the file behind its back ..." 0 '' \
    sh -c 'echo "Changed by someone else." >> CHANGELOG.md' </dev/null
step "... so the next edit is refused. The answer in JSON has what has changed." 6 '+Changed by someone else.' \
    env LBX_OUTPUT=json lbx edit CHANGELOG.md --old-string "$heading, and tried" --new-string "$heading" </dev/null

# A patch of two files that adds a second line to each.
{
    for file in LICENSE-MIT README.md; do
        printf -- '--- a/%s\n+++ b/%s\n@@ -1,1 +1,2 @@\n %s\n' "$file" "$file" "$(head -n 1 "$file")"
        printf '+A demo was here.\n'
    done
} >"$scratch/two-files.patch"
step "It reads the start of two files for a patch." 0 '==> README.md <==' \
    lbx read LICENSE-MIT README.md --limit 1 </dev/null
printf '\n# The patch:\n'
cat "$scratch/two-files.patch"
step "One patch changes both, or neither." 0 'README.md' \
    lbx patch --why 'Say who was here' <"$scratch/two-files.patch"

say
say "What the developer sees afterwards:"

step "Each change is a commit of its own." 0 'patch: 2 files' \
    lbx log </dev/null
step "All that the session changed, and nothing else." 0 '+A demo was here.' \
    lbx diff </dev/null
step "The last change is taken back, in both files." 0 'undo: patch' \
    lbx undo </dev/null
step "Plain git shows all of it as well." 0 'undo: ' \
    git log --format=%s lbx-snapshots --not HEAD </dev/null
step "HEAD and the index are as they were; only the changed file is modified." 0 ' M CHANGELOG.md' \
    git status --short </dev/null
[ "$(git rev-parse HEAD)" = "$head_before" ] || fail "the demo: HEAD has moved"
git diff --cached --quiet || fail "the demo: the index was touched"
git fsck --strict --no-dangling >/dev/null 2>&1 || fail "the demo: git fsck complains"
[ "$(git status --porcelain)" = ' M CHANGELOG.md' ] || fail "the demo: git status shows more than the one file"

say
say "$steps steps, each as shown. The copy is removed; lbx is $prefix/bin/lbx. Next, in a project of yours:"
say "  lbx init                          the clients that lbx can be set up for; then, say,"
say "  lbx init --client claude-code     gives that client its tools"
say "  lbx help agents                   a page to paste for an agent that has only a shell"
say "  man lbx                           everything else"
