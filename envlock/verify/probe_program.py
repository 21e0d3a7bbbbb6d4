"""The part of verification that runs inside an environment, on its GPUs: stdlib, and what it probes.

Run by file with the environment's interpreter; it writes one JSON object a line to the descriptor it is given, so that
nothing a library prints can be mistaken for an answer, and what it had found before a crash is not lost.

Each answer: {"probe": name, "ok": bool, "found": text, ...}. Judging is not its business (verify/probe_checks.py).
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback

OUT = None


def say(probe, **facts):
    """Write one answer at once."""
    OUT.write(json.dumps({"probe": probe, **facts}) + "\n")
    OUT.flush()


def attempt(probe, work, **facts):
    """Run one probe; what it raises is its answer."""
    say("begin", name=probe)
    try:
        result = work()
    except BaseException as error:
        last = traceback.format_exception_only(type(error), error)[-1].strip().splitlines()[0]
        say(probe, ok=False, found=last[:600], kind=type(error).__name__, **facts)
        if isinstance(error, KeyboardInterrupt):
            raise
        return
    say(probe, **{"ok": True, **facts, **result})


def close(torch, got, want, tolerance):
    """Return whether numbers agree with the CPU's, and by how much they do not; all zeros or NaN never agree."""
    got, want = got.detach().float().cpu(), want.detach().float().cpu()
    finite = bool(torch.isfinite(got).all())
    scale = want.abs().max().clamp(min=1e-6)
    error = float((got - want).abs().max() / scale) if finite else float("inf")
    zeros = bool((got == 0).all()) and not bool((want == 0).all())
    words = "all zeros" if zeros else "not finite" if not finite else f"relative error {error:.2g}"
    return {"ok": finite and not zeros and error <= tolerance, "found": words, "error": error if finite else None}


def kernels(torch, device, probe):
    """Run kernels of every kind a training step or a server needs, against the CPU in float64."""
    torch.manual_seed(7)
    F = torch.nn.functional

    def matmul(dtype, tolerance):
        a, b = torch.randn(512, 384), torch.randn(384, 256)
        got = (a.to(device, dtype) @ b.to(device, dtype)).float()
        return close(torch, got, a.to(dtype).double() @ b.to(dtype).double(), tolerance)

    def elementwise():
        x = torch.randn(100_003)
        return close(
            torch, F.gelu(x.to(device)) * x.to(device).sigmoid(), F.gelu(x.double()) * x.double().sigmoid(), 1e-4
        )

    def attention():
        q, k, v = (torch.randn(2, 4, 128, 64) for _ in range(3))
        half = [t.to(device, torch.bfloat16) for t in (q, k, v)]
        got = F.scaled_dot_product_attention(*half, is_causal=True)
        want = F.scaled_dot_product_attention(*(t.cpu().double() for t in half), is_causal=True)
        return close(torch, got, want, 3e-2)

    def convolution():
        x, w = torch.randn(2, 8, 33, 33), torch.randn(16, 8, 3, 3)
        return close(
            torch, F.conv2d(x.to(device), w.to(device), padding=1), F.conv2d(x.double(), w.double(), padding=1), 1e-2
        )

    probe("matmul.float32", lambda: matmul(torch.float32, 1e-2))
    probe("matmul.bfloat16", lambda: matmul(torch.bfloat16, 2e-2))
    probe("elementwise", elementwise)
    probe("attention", attention)
    probe("convolution", convolution)


def triton_kernel(torch, device):
    """Compile and run a Triton kernel: it needs a C compiler, Python.h, and a ptxas that knows the GPU."""
    import tempfile

    folder = tempfile.mkdtemp(prefix="envlock-probe-")
    path = os.path.join(folder, "envlock_probe_kernel.py")
    with open(path, "w") as file:
        file.write(
            "import triton\nimport triton.language as tl\n"
            "@triton.jit\ndef axpy(x, y, out, n, a: tl.constexpr, B: tl.constexpr):\n"
            "    i = tl.program_id(0) * B + tl.arange(0, B)\n    m = i < n\n"
            "    tl.store(out + i, a * tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)\n"
        )
    sys.path.insert(0, folder)
    try:
        axpy = importlib.import_module("envlock_probe_kernel").axpy
        x, y = torch.randn(4099, device=device), torch.randn(4099, device=device)
        out = torch.empty_like(x)
        with torch.cuda.device(device):
            axpy[(5,)](x, y, out, 4099, 3.0, 1024)
        return close(torch, out, 3.0 * x.cpu().double() + y.cpu().double(), 1e-5)
    finally:
        sys.path.remove(folder)
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def sgl_kernel_call(torch, device):
    """Call public entries of sgl_kernel that every model goes through, and compare their numbers."""
    module = importlib.import_module("sgl_kernel")
    x = torch.randn(8, 512, device=device, dtype=torch.bfloat16)
    weight = torch.randn(512, device=device, dtype=torch.bfloat16)
    got = module.rmsnorm(x, weight, 1e-6)
    wide = x.cpu().double()
    want = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * weight.cpu().double()
    first = close(torch, got, want, 3e-2)
    if not first["ok"]:
        return {**first, "found": f"rmsnorm: {first['found']}"}
    both = torch.randn(8, 1024, device=device, dtype=torch.bfloat16)
    got = module.silu_and_mul(both)
    left, right = both.cpu().double().chunk(2, -1)
    second = close(torch, got, torch.nn.functional.silu(left) * right, 3e-2)
    return {**second, "found": f"rmsnorm {first['found']}, silu_and_mul {second['found']}"}


CALLS = {"sgl_kernel": sgl_kernel_call}


def mapped_libraries():
    """Return the real paths of the CUDA libraries this process has loaded."""
    names = ("libcuda.so", "libcudart", "libcublas", "libcudnn", "libnccl", "libnvrtc", "libnvJitLink", "libcupti",
             "libcusparse", "libcufft", "libcusolver", "libtorch_cuda", "libc10_cuda")  # fmt: skip
    found = set()
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if path and os.path.basename(path).startswith(names):
                found.add(os.path.realpath("/" + path))
    return sorted(found)


def device_uuid(torch, index):
    """Return a device's UUID as CUDA tells it, of a MIG slice its own; nothing where neither driver nor torch tells."""
    import ctypes
    import uuid

    try:
        driver, device, raw = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), (ctypes.c_ubyte * 16)()
        if not driver.cuDeviceGet(ctypes.byref(device), index) and not driver.cuDeviceGetUuid_v2(raw, device):
            return str(uuid.UUID(bytes=bytes(raw)))
    except (OSError, AttributeError):
        pass
    try:
        return str(torch.cuda.get_device_properties(index).uuid)
    except AttributeError:
        return ""


def build(torch):
    """Return what torch says of itself."""
    cudnn = torch.backends.cudnn
    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "file": torch.__file__,
        "found": f"torch {torch.__version__}, CUDA {torch.version.cuda}",
        "cudnn": cudnn.version() if cudnn.is_available() else None,
        "nccl": list(torch.cuda.nccl.version()) if hasattr(torch.cuda, "nccl") and torch.cuda.is_available() else None,
        "arch_list": torch.cuda.get_arch_list() if torch.cuda.is_available() else [],
    }


def allocator(torch):
    """Return the caching allocator's settings as they really are, not as the environment asked for them."""
    settings = torch.cuda.memory._snapshot().get("allocator_settings", {})
    return {"found": json.dumps(settings, default=str)[:400], "settings": {k: str(v) for k, v in settings.items()}}


def main():
    """Probe what the request on stdin asks for."""
    global OUT
    request = json.loads(sys.stdin.read())
    OUT = os.fdopen(int(sys.argv[1]), "w")
    if request.get("fault") == "hang":
        import time

        time.sleep(10**6)
    say("begin", name="torch.import")
    try:
        import torch
    except BaseException as error:
        say("torch.import", ok=False, found=f"{type(error).__name__}: {error}"[:600])
        return
    say("torch.import", ok=True, found=torch.__file__)
    attempt("torch.build", lambda: build(torch))
    say("begin", name="cuda.start")
    count = torch.cuda.device_count()
    if count == 0:
        reason = "no GPU is visible to CUDA"
        try:
            torch.cuda.init()
        except BaseException as error:
            reason = str(error).splitlines()[0]
        say("cuda.start", ok=False, found=reason)
    else:
        say("cuda.start", ok=True, found=f"{count} GPUs", count=count)
        for index in range(min(count, request["count"])):
            device = f"cuda:{index}"
            capability = ".".join(map(str, torch.cuda.get_device_capability(index)))
            name = torch.cuda.get_device_name(index)
            say("device", ok=True, device=index, found=name, capability=capability, uuid=device_uuid(torch, index))

            def probe(name, work, index=index):
                attempt(f"kernel.{name}", work, device=index)

            kernels(torch, device, probe)
            if request["triton"]:
                attempt("kernel.triton", lambda device=device: triton_kernel(torch, device), device=index)
        attempt("allocator", lambda: allocator(torch))
    for name in request["imports"]:
        attempt(f"import.{name}", lambda name=name: {"found": str(importlib.import_module(name).__file__)})
        if name in CALLS and count:
            attempt(f"call.{name}", lambda name=name: CALLS[name](torch, "cuda:0"))
    attempt("libraries", lambda: {"found": "", "paths": mapped_libraries()})
    say("end", ok=True, found="")


def rank():
    """Take part in an all-reduce; run as `probe_program.py --rank R RANKS PORT FD`."""
    global OUT
    number, ranks, port, descriptor = (int(word) for word in sys.argv[2:6])
    OUT = os.fdopen(descriptor, "w")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(number), WORLD_SIZE=str(ranks))
    import datetime as dt

    import torch

    def work():
        torch.cuda.set_device(number)
        torch.distributed.init_process_group("nccl", timeout=dt.timedelta(seconds=60))
        wanted = ranks * (ranks + 1) / 2
        x = torch.full((1 << 20,), float(number + 1), device="cuda")
        torch.distributed.all_reduce(x)
        torch.cuda.synchronize()
        torch.distributed.destroy_process_group()
        return {"ok": bool((x == wanted).all()), "found": f"sum {float(x[0])}, expected {wanted}"}

    attempt("collective", work, device=number)


if __name__ == "__main__":
    rank() if sys.argv[1] == "--rank" else main()
