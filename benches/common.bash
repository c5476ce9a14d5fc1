# shellcheck shell=bash
# Shared functions of the benches; each sources this file with its own arguments.

# Lets Python find common.py.
PYTHONPATH=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1

# Finds the binary $1, by default the release build, and leaves it in $lbx.
find_lbx() {
    local here host
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
    host=$(rustc -vV 2>/dev/null | sed -n 's/^host: //p' || true)
    lbx=${1:-$here/target/$host/release/lbx}
    [ -x "$lbx" ] || {
        echo "no $lbx: build it with 'cargo build --release --locked', or name another" >&2
        exit 1
    }
    lbx=$(realpath "$lbx")
    # Measure a copy, like the one that install.sh makes. A linker writes its output through a mapping, which
    # the kernel holds in pages of 4 KiB: each call of that file takes 0.5 to 1 ms more.
    if [[ $lbx == */target/* ]] && rm -f -- "$lbx.copy" &&
        dd if="$lbx" of="$lbx.copy" bs=4194304 status=none 2>/dev/null && chmod 755 "$lbx.copy"; then
        lbx=$lbx.copy
    fi
}

# Prints the date, the machine, and the compared program ($1; may be empty).
heading() {
    echo "date:    $(date -u +%Y-%m-%d)"
    echo "machine: $(uname -sm), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo unknown)"
    echo "lbx:     $("$lbx" --version), $(stat -c %s "$lbx") bytes${1:+; $1}"
}
