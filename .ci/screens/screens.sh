#!/usr/bin/env bash
# Makes the pictures of the README: a session in a real repository, in a browser and on a terminal.
#
#   cargo build --release && .ci/screens/screens.sh [LBX]
#
# The repository is strsim 0.11.1, which cargo has fetched for clap. Needs git, script and chromium.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lbx=$(realpath "${1:-$here/../../target/release/lbx}")
source=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -maxdepth 2 -name strsim-0.11.1 | head -n 1)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export HOME=$place/home LBX_PAGER=cat TERM=xterm
mkdir -p "$HOME" "$place/strsim"
cp -r "$source/." "$place/strsim"
cd "$place/strsim"
rm -f .cargo-ok .cargo_vcs_info.json
git init -q -b main
git config user.name 'Dev Eloper'
git config user.email dev@example.org
git add -A
git commit -qm 'strsim 0.11.1'

# The agent's session, which includes a failing call.
agent() { "$lbx" "$@" --session agent >"$place/answer" || true; }
agent grep 'pub fn' src
agent read src/lib.rs --limit 0
agent read tests/lib.rs --limit 0
agent read README.md
for name in hamming jaro jaro_winkler levenshtein osa_distance damerau_levenshtein sorensen_dice; do
  line=$(grep -m 1 "^pub fn $name(" src/lib.rs) || continue
  agent edit src/lib.rs --old-string "$line" --new-string "#[must_use]
$line" --why "A caller that drops the result of $name has a bug."
done
agent write src/percent.rs --why 'Percentages were asked for.' --content 'use crate::levenshtein;

/// The edit distance of two texts, in percent of the longer one.
#[must_use]
pub fn percent(a: &str, b: &str) -> usize {
    let longer = a.chars().count().max(b.chars().count()).max(1);
    levenshtein(a, b) * 100 / longer
}
'
agent edit src/lib.rs --old-string 'use std::hash::Hash;' --new-string 'use std::hash::Hash;

mod percent;
pub use percent::percent;' --why 'Percentages were asked for.'
agent append tests/lib.rs --content '
#[test]
fn percent_of_kitten() {
    assert_eq!(strsim::percent("kitten", "sitting"), 42);
}
'
agent edit CHANGELOG.md --old-string 'Unreleased' --new-string '0.12.0'
agent write NOTES.md --content 'To do: benchmarks.
'
echo 'A line by the developer.' >>README.md
agent read README.md
agent append README.md --content 'Percentages: strsim::percent.
'
"$lbx" undo --session agent --seq 2 --hunk 1 >"$place/answer"

# The page.
"$lbx" review --session agent --html "$place/review.html" >"$place/answer"
picture() { # NAME WIDTH HEIGHT URL
  chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
    --user-data-dir="$place/browser" --window-size="$2,$3" --virtual-time-budget=3000 \
    --screenshot="$here/$1.png" "$4" >"$place/said" 2>&1
}
picture review 1200 800 "file://$place/review.html"

# The terminal: its output, as a page.
terminal() { # CALL
  printf '<b>$ lbx %s</b>\n' "$1"
  script -qec "$lbx $1" /dev/null </dev/null | tr -d '\r' | head -n "$2" |
    sed -e 's/&/\&amp;/g; s/</\&lt;/g' -e 's/\x1b\[\([0-9]*\)m/<i class="c\1">/g' -e 's/<i class="c">/<\/i>/g'
}
{
  echo '<!doctype html><meta charset="utf-8"><style>body{background:#16191d;color:#d8dde3;font:14px/1.4 monospace;
    margin:16px;white-space:pre}i{font-style:normal}.c1{font-weight:700}.c2{color:#8a929c}.c31{color:#ff8f8f}
    .c32{color:#8fe0a0}.c33{color:#e8c96b}.c36{color:#7fd0e0}</style>'
  terminal 'log --graph --stat -n 5' 16
  terminal 'blame --start-line 1 --end-line 12 src/percent.rs' 9
  terminal 'diff src/lib.rs' 14
} >"$place/terminal.html"
picture terminal 1000 730 "file://$place/terminal.html"
