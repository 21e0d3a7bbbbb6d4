"""CUDA releases and the Linux drivers they need, as data with sources. Pure."""

from __future__ import annotations

# Minor-version compatibility: a release runs on every driver from the first release of its major on, without
# features and PTX newer than that driver. Source: docs.nvidia.com/deploy/cuda-compatibility, "Minor Version
# Compatibility"; the exact floors are the drivers bundled with 11.0 (update 1: 450.80.02), 12.0.0 and 13.0.0.
MAJOR_FLOORS = {"11": "450.80.02", "12": "525.60.13", "13": "580.65.06"}

# The driver bundled with each release's first toolkit (Linux x86_64): what its *own* PTX needs, since minor-version
# compatibility does not cover just-in-time compilation. Source: NVIDIA's runfile names, as packaged by Spack
# (spack-packages, cuda/package.py, July 2026).
BUNDLED_DRIVERS = {
    "12.0": "525.60.13",
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.3": "545.23.06",
    "12.4": "550.54.14",
    "12.5": "555.42.02",
    "12.6": "560.28.03",
    "12.8": "570.86.10",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
    "13.1": "590.44.01",
    "13.2": "595.45.04",
    "13.3": "610.43.02",
}


def driver_floor(cuda: str) -> str | None:
    """Return the oldest Linux driver that runs a CUDA release (`12.8`, or a bare major); None for an unknown major."""
    return MAJOR_FLOORS.get(cuda.partition(".")[0])


# Packages whose kernels lie in a form of their own: what a reader of fat binaries finds there is a stub, and says
# nothing of them. Seen in cuFFT's `.ldata` sections; cuobjdump lists only the stub, too.
OPAQUE_DEVICE_CODE = frozenset({"nvidia-cufft", "nvidia-cufft-cu12", "nvidia-cufft-cu13"})
