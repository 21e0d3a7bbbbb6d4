"""A few real optimiser steps of a small model: what `make run` shows, on the GPU where there is one."""

from __future__ import annotations

import sys
import time

try:
    import envlock_guard
except ModuleNotFoundError:  # an interpreter without the guard: words, not a traceback
    sys.stderr.write(
        f"envlock: {sys.executable} is no environment of envlock\n"
        f"  try: envlock run train-cu128 -- python {' '.join(sys.argv)}\n"
    )
    raise SystemExit(125) from None
envlock_guard.require("train-cu128")

import torch  # noqa: E402 - only under the right interpreter
from torch import nn  # noqa: E402


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.cuda.get_device_name() if device == "cuda" else "the CPU (no usable GPU here)"
    print(f"torch {torch.__version__}, CUDA build {torch.version.cuda}, training on {where}")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(1024, 256, device=device)
    targets = inputs.roll(1, dims=1)
    begin = time.perf_counter()
    for step in range(1, 21):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}")
    if device == "cuda":
        torch.cuda.synchronize()
    print(f"20 steps in {time.perf_counter() - begin:.2f} s")


if __name__ == "__main__":
    main()
