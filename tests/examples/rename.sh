#!/bin/sh
# Renames an identifier in every file of a project that has it, in one change: all files, or none.
#
#   rename.sh OLD NEW [PATH]
#
# The exit status tells what went wrong: 7 is no_match, 6 stale_file (lbx-json(7) has the table). Another program
# that changes a file between the two calls makes the second one fail, and nothing is changed.
set -eu
old=${1:?usage: rename.sh OLD NEW [PATH]} new=${2:?usage: rename.sh OLD NEW [PATH]}

# grep exits with 1 where nothing matches, with --exit-status. 0 lifts a bound: a cut list would leave files out.
files=$(lbx grep -w -l -F --text --exit-status --limit 0 --max-bytes 0 "$old" "${3:-.}") || {
    echo "no file has $old" >&2
    exit 7
}
# Paths are a line each.
IFS='
'
set -f
# shellcheck disable=SC2086
lbx read $files --limit 0 --max-bytes 0 --text >/dev/null
# shellcheck disable=SC2086
lbx edit $files --word --replace-all --old-string "$old" --new-string "$new" --why "Rename $old to $new" --text
lbx diff --text --stat
