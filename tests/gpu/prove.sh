#!/usr/bin/env bash
# What can only be proved on a real GPU, as one transcript: sh tests/gpu/prove.sh PYTHON CAPABILITY
# PYTHON is the interpreter of a venv with torch on a machine with an NVIDIA GPU; no network is needed.
set -u
python=$1 capability=$2 other=12.0
export NO_COLOR=1
work=$(mktemp -d)
# envlock in a venv of its own, as on any host; where its libraries were put aside, PYTHONPATH names them once.
"$python" -m venv --without-pip "$work/tool"
tool=$work/tool/bin/python
printf '%s\n' "$PWD" ${PYTHONPATH:-} > "$("$tool" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/envlock.pth"
unset PYTHONPATH
envlock() { "$tool" -m envlock "$@"; }
title() { printf '\n===== %s\n' "$*"; }
timed() { local begin; begin=$(date +%s.%N); "$@"; local code=$?; printf -- '-- exit %s after %.1f s\n' "$code" "$(echo "$(date +%s.%N) - $begin" | bc -l 2>/dev/null || "$python" -c "import time;print(time.time()-$begin)")"; }

title "the machine"; nvidia-smi -L | sed 's/GPU-[0-9a-f-]*/GPU-.../'; cat /proc/driver/nvidia/version | head -1
"$tool" - <<'P'
import json
from dataclasses import asdict
import os
from envlock.verify import host, nvml
machine, gpus = host.observe(os.environ), nvml.observe()
print(json.dumps({"machine": asdict(machine), "gpus": asdict(gpus)}, indent=1))
P

title "declared $capability: host and probe"; timed envlock -C "$work" verify --python "$python" --gpu "$capability" --count 1 --tier host --tier probe --all
title "declared $capability: static"; timed envlock -C "$work" verify --python "$python" --gpu "$capability" --count 1 --tier static
title "declared $other: static"; timed envlock -C "$work" verify --python "$python" --gpu "$other" --count 1 --tier static
title "declared $other: host and probe"; timed envlock -C "$work" verify --python "$python" --gpu "$other" --count 1 --tier host --tier probe
title "CUDA_VISIBLE_DEVICES empty"; CUDA_VISIBLE_DEVICES= timed envlock -C "$work" verify --python "$python" --gpu "$capability" --count 1 --tier host --tier probe

title "a probe that hangs (an import that never ends), 20 s allowed"
mkdir -p "$work/hang/torch"; echo 'import time; time.sleep(10**6)' > "$work/hang/torch/__init__.py"
PYTHONPATH=$work/hang timed envlock -C "$work" verify --python "$python" --gpu "$capability" --count 1 --tier probe --timeout 20

title "an extension that crashes"
mkdir -p "$work/crash" "$work/p/profiles"
printf 'import ctypes\nctypes.string_at(0)\n' > "$work/crash/crashing_extension.py"
minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
printf 'python = "%s"\n[gpu]\ncompute-capability = "%s"\n[kernels]\nrequire = ["crashing_extension"]\n' "$minor" "$capability" > "$work/p/profiles/crash.toml"
PYTHONPATH=$work/crash timed envlock -C "$work/p" verify crash --python "$python" --tier probe

title "an exhausted GPU"
"$python" -c '
import sys, time, torch
free, _ = torch.cuda.mem_get_info()
hold = torch.empty(int(free - 300 * 2**20), dtype=torch.uint8, device="cuda")
print("holding", round(hold.numel() / 2**30), "GiB", flush=True)
time.sleep(600)' & holder=$!
sleep 15
printf 'python = "%s"\n[gpu]\ncompute-capability = "%s"\nmin-free-memory = "8 GiB"\nexclusive = true\n' "$minor" "$capability" > "$work/p/profiles/full.toml"
timed envlock -C "$work/p" verify full --python "$python" --tier host --tier probe
kill $holder; wait $holder 2>/dev/null

title "--collective, as many ranks as there are GPUs up to two"
timed envlock -C "$work" verify --python "$python" --gpu "$capability" --tier probe --collective --all
title "two ranks on one GPU: what NCCL says of it"
cat > "$work/twice.py" <<'P'
import datetime, os, sys, torch
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29611", RANK=sys.argv[1], WORLD_SIZE="2")
torch.cuda.set_device(0)
torch.distributed.init_process_group("nccl", timeout=datetime.timedelta(seconds=40))
try:
    torch.distributed.all_reduce(torch.ones(4, device="cuda"))
    torch.cuda.synchronize()
    print("rank", sys.argv[1], "gave a sum")
except Exception as error:
    print("rank", sys.argv[1], *[line for line in str(error).splitlines() if "uplicate" in line or "invalid" in line][:2])
os._exit(0)
P
timeout 90 "$python" "$work/twice.py" 0 2>/dev/null & timeout 90 "$python" "$work/twice.py" 1 2>/dev/null; wait $!

if [ -n "${SGL_KERNEL:-}" ]; then
	title "sgl_kernel: imported, and its public entries called (the folder that holds it: SGL_KERNEL)"
	printf 'python = "%s"\n[gpu]\ncompute-capability = "%s"\n[kernels]\nrequire = ["sgl_kernel"]\n' "$minor" "$capability" > "$work/p/profiles/sgl.toml"
	PYTHONPATH=$SGL_KERNEL timed envlock -C "$work/p" verify sgl --python "$python" --tier probe --all
	"$tool" - "$SGL_KERNEL" "$capability" <<'P'
import sys
from pathlib import Path
from envlock.verify.coverage import count, verdict
from envlock.verify.files import libraries_below
from envlock.verify.libraries import LibraryMemory
for library in libraries_below(Path(sys.argv[1]), "sgl_kernel", LibraryMemory(None)):
    print(library.path, verdict(library, sys.argv[2]), count(library.code, sys.argv[2]))
P
fi

title "a sealed generation: probe, then attestation"
"$tool" tests/gpu/seal_by_hand.py "$work/sealed" "$("$python" -c 'import sys; print(sys.prefix)')" "$capability"
timed envlock -C "$work/sealed" verify gpu --tier host --tier probe
timed envlock -C "$work/sealed" verify gpu --tier host --tier probe
title "run: first launch, then twice more"
for i in 1 2 3; do timed envlock -C "$work/sealed" run gpu -- python -c 'import os; print("launched", os.environ["ENVLOCK_VERDICT"])'; done
uuid=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | head -1)
for words in 0 "$uuid"; do
	title "run, CUDA_VISIBLE_DEVICES=$(echo "$words" | sed 's/GPU-.*/GPU-.../'): other words than were verified, looked at first; then from the ticket"
	for i in 1 2; do CUDA_VISIBLE_DEVICES=$words timed envlock -C "$work/sealed" run gpu -- python -c 'print("launched")'; done
done
title "run, a setting that names no GPU, after all that passed"
for words in "" 1 GPU-0 MIG-0 x; do CUDA_VISIBLE_DEVICES=$words timed envlock -C "$work/sealed" run gpu -- python -c 'print("must not be seen")' 2>&1 | grep -e '^error' -e seen -e '^--'; done
title "run, NVIDIA_VISIBLE_DEVICES another, then the first setting again"
NVIDIA_VISIBLE_DEVICES=0 timed envlock -C "$work/sealed" run gpu -- python -c 'print("launched")'
timed envlock -C "$work/sealed" run gpu -- python -c 'print("launched")'
title "another set of GPUs than was attested: the UUID kept is another; the probe runs again"
sed -i 's/^gpus GPU-./gpus GPU-x/' "$work"/sealed/.envlock/envs/gpu/attestations/0001-*[0-9a-f]; rm -rf "$work/sealed/.envlock/envs/gpu/launch"
timed envlock -C "$work/sealed" run gpu -- python -c 'print("launched")'
title "the shim: the same, twice"
for i in 1 2 3; do timed "$work/sealed/.envlock/bin/gpu" python -c 'import os, torch; print("launched", os.environ["ENVLOCK_VERDICT"], torch.version.cuda)'; done
title "what is remembered"; sed 's/GPU-[0-9a-f-]*/GPU-.../' "$work"/sealed/.envlock/envs/gpu/attestations/* | cut -c1-60
title "the same stack declared for $other: run refuses"
"$tool" tests/gpu/seal_by_hand.py "$work/other" "$("$python" -c 'import sys; print(sys.prefix)')" "$other"
timed envlock -C "$work/other" run gpu -- python -c 'print("must not be seen")'
timed envlock -C "$work/other" verify gpu --json --tier host --tier probe
ls "$work"/other/.envlock/envs/gpu/attestations 2>/dev/null
title "reading a sealed stack's files, and hashing them"
timed envlock -C "$work/sealed" verify gpu --tier static
timed envlock -C "$work/sealed" verify gpu --tier static --deep
rm -rf "$work"
