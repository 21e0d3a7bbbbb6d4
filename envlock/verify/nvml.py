"""NVML, through NVIDIA's own bindings (nvidia-ml-py). It needs no CUDA context, and this process never has one."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from envlock.verify.machine import Device, Gpus, Unavailable

_MODES = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
# nvmlClocksEventReason* bits that slow a busy GPU down (nvml.h); idle and application-clock bits are left out.
_THROTTLES = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


def observe() -> Gpus | Unavailable:
    """Return every GPU of this machine, or why there is no answer."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pynvml
    except ImportError as error:
        return Unavailable(kind="no-library", reason=f"nvidia-ml-py is not installed: {error}")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return _unavailable(pynvml, error)
    try:
        return _read(pynvml)
    except pynvml.NVMLError as error:
        return _unavailable(pynvml, error)
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _unavailable(pynvml: Any, error: Exception) -> Unavailable:
    code = getattr(error, "value", None)
    kinds = {
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no-library",
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "no-driver",
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "mismatch",
        pynvml.NVML_ERROR_NO_PERMISSION: "no-permission",
    }
    return Unavailable(kind=kinds.get(code, "error"), reason=str(error))


def _read(pynvml: Any) -> Gpus:
    number = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    return Gpus(
        driver=_text(pynvml.nvmlSystemGetDriverVersion()),
        cuda=f"{number // 1000}.{number % 1000 // 10}",
        devices=tuple(_device(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())),
    )


def _device(pynvml: Any, index: int) -> Device:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)

    def told(call: Callable[[], Any]) -> Any:
        """Return the answer; what this card or driver does not tell is None, not an error."""
        try:
            return call()
        except (pynvml.NVMLError, AttributeError):
            return None

    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    mig = told(lambda: pynvml.nvmlDeviceGetMigMode(handle))
    remapped = told(lambda: pynvml.nvmlDeviceGetRemappedRows(handle))
    reasons = told(lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)) or 0
    link = told(
        lambda: (pynvml.nvmlDeviceGetCurrPcieLinkGeneration(handle), pynvml.nvmlDeviceGetCurrPcieLinkWidth(handle))
    )
    link_max = told(
        lambda: (pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle), pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle))
    )
    enabled = bool(mig and mig[0])
    name = _text(pynvml.nvmlDeviceGetName(handle))
    return Device(
        index=index,
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        name=name,
        capability=f"{major}.{minor}",
        memory_total=int(memory.total),
        memory_used=int(memory.used),
        compute_mode=_MODES.get(told(lambda: pynvml.nvmlDeviceGetComputeMode(handle)) or 0, "default"),
        mig=enabled,
        slices=tuple(_slices(pynvml, handle, index, name, f"{major}.{minor}")) if enabled else (),
        remap_pending=bool(remapped and remapped[2]),
        ecc_errors=told(
            lambda: int(
                pynvml.nvmlDeviceGetTotalEccErrors(
                    handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
                )
            )
        ),
        throttle=tuple(words for bit, words in _THROTTLES.items() if reasons & bit),
        link=link,
        link_max=link_max,
    )


def _slices(pynvml: Any, handle: Any, index: int, name: str, capability: str) -> Iterator[Device]:
    """Yield the MIG slices of a card, as far as NVML tells them."""
    try:
        number = int(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    except (pynvml.NVMLError, AttributeError):
        return
    for at in range(number):
        try:
            one = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, at)
            uuid, memory = _text(pynvml.nvmlDeviceGetUUID(one)), pynvml.nvmlDeviceGetMemoryInfo(one)
        except (pynvml.NVMLError, AttributeError):
            continue  # slices are numbered with gaps
        yield Device(
            index=index,
            uuid=uuid,
            name=f"{name}, MIG slice",
            capability=capability,
            memory_total=int(memory.total),
            memory_used=int(memory.used),
        )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
