#!/bin/sh
# A hook for a harness that compacts contexts: what was read counts as unread from now on, and the text on stdout
# tells the new context what the session has read and changed.
#
# The harness gives it one JSON object on stdin, whose session_id is the session's (Claude Code, Codex and Gemini CLI
# do). Register it for the end of a compaction: SessionStart with the matcher "compact" in Claude Code.
# `lbx init --client claude-code` registers one without a script.
set -eu
session=$(sed -n 's/.*"session_id" *: *"\([^"]*\)".*/\1/p')
export LBX_SESSION="${session:-default}"
lbx session compact >/dev/null
lbx session brief --text
