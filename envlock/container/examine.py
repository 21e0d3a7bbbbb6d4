"""Ask a running container about itself, in one round trip. Effects; changes nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence

from envlock.container.declaration import Container
from envlock.container.devices import majors, nodes
from envlock.container.doctor import InsideReport
from envlock.container.transport import Transport

_PART = "\x1e"
# $1 store, $2 uv's cache, then names to look up.
_REPORT = r"""
store=$1 cache=$2; shift 2
part() { printf '\036'; }
cat /proc/devices; part
all=$(ls -d /dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools /dev/nvidia-modeset \
  /dev/nvidia-caps/* 2>/dev/null)
[ -z "$all" ] || stat -c '%n %t %T %a' $all; part
for d in $all; do said=$( { : <>"$d"; } 2>&1 ); printf '%s\037%s\n' "$d" "${said##*: }"; done; part
for l in libcuda.so.1 libnvidia-ml.so.1; do
  f=$(ldconfig -p 2>/dev/null | sed -n "s|.*$l .*=> ||p" | head -n 1); [ -z "$f" ] || echo "$l $(readlink -f "$f")"
done; part
[ -d /dev/shm ] && df -Pk /dev/shm | sed 1d; part
cat /proc/self/attr/current 2>/dev/null; part
getconf GNU_LIBC_VERSION 2>/dev/null; part
date +%s.%N; part
for n in "$@"; do getent hosts "$n" >/dev/null || echo "$n"; done; part
for f in "$store" "$cache"; do [ -d "$f" ] && df -Pk "$f" | sed "1d;s|^|$f |"; done; part
for f in "$store" "$cache"; do [ ! -d "$f" ] || [ -w "$f" ] || echo "$f"; done; part
python3 -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null; part
ulimit -l; part
"""


def examine(inside: Transport, container: Container, names: Sequence[str]) -> InsideReport:
    """Return the container's report; `names` are looked up there. Raises TransportError."""
    began = time.time()
    text = inside.need(
        ("sh", "-c", _REPORT, "sh", container.paths.store, container.paths.uv_cache, *names),
        what="examining the container",
        timeout=60,
    )
    ended = time.time()
    parts = [part.strip("\n") for part in text.split(_PART)]
    there = float(parts[7] or began)
    off = there - ended if there > ended else min(0.0, there - began)
    disks = [line.split() for line in parts[9].splitlines()]
    shm = parts[4].split()
    found = nodes(parts[1])
    names_of = {node.path: node.name for node in found}
    said = [line.partition("\x1f") for line in parts[2].splitlines() if "\x1f" in line]
    return InsideReport(
        majors=majors(parts[0]),
        nodes=found,
        opened={names_of[path]: word for path, _, word in said if path in names_of},
        libraries=dict(line.split(" ", 1) for line in parts[3].splitlines()),
        shm=int(shm[1]) << 10 if len(shm) > 3 and shm[-1].endswith("/shm") else None,
        apparmor=parts[5].strip("\0\n "),
        glibc=parts[6].rpartition(" ")[2],
        clock_off=off,
        unresolved=tuple(parts[8].split()),
        free={words[0]: int(words[4]) << 10 for words in disks},
        unwritable=tuple(parts[10].split()),
        python=parts[11],
        memlock=parts[12],
    )
