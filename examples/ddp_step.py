"""A few data-parallel steps: every rank calls the guard, and all of them compare their environments.

envlock run --no-gpu train-cu128 -- torchrun --nproc-per-node 2 examples/ddp_step.py
"""

from __future__ import annotations

import os
import sys

try:
    import envlock_guard
except ModuleNotFoundError:  # an interpreter without the guard: words, not a traceback
    sys.stderr.write(
        f"envlock: {sys.executable} is no environment of envlock\n"
        f"  try: envlock run train-cu128 -- torchrun --nproc-per-node 2 {' '.join(sys.argv)}\n"
    )
    raise SystemExit(125) from None
envlock_guard.require("train-cu128")

import torch  # noqa: E402 - only under the right interpreter
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


def main() -> None:
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    envlock_guard.require("train-cu128", agree=True)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    plain = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).to(device)
    model = DistributedDataParallel(plain, device_ids=[device.index] if cuda else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    inputs = torch.randn(256, 64, device=device)
    for step in range(1, 11):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(inputs), inputs.roll(1, dims=1))
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"rank {rank} of {size} on {device}, torch {torch.__version__}: step {step}  loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
