"""Which environment variables matter, and why: data for `environ` and for the shim. Pure; nothing is imported.

Dangerous is what decides which code is loaded, compiled or installed, or which interpreter runs. A variable that
merely tunes (NCCL_DEBUG, OMP_NUM_THREADS, HF_HOME) is the caller's business and crosses.
"""

from __future__ import annotations

# Whole families: every name with this beginning (or, with a leading star, this ending) is dangerous.
FAMILIES: tuple[tuple[str, str], ...] = (
    ("PYTHON*", "steers the interpreter"),
    ("LD_*", "steers the dynamic loader: foreign CUDA libraries"),
    ("PIP_*", "steers pip"),
    ("UV_*", "steers uv"),
    ("CONDA_*", "belongs to a conda environment"),
    ("_CONDA_*", "belongs to a conda environment"),
    ("VIRTUAL_ENV*", "belongs to another virtual environment"),
    ("PYENV_*", "belongs to pyenv"),
    ("POETRY_*", "steers poetry"),
    ("PDM_*", "steers pdm"),
    ("*_NCCL_SO_PATH", "loads another NCCL"),
)

# Members of a family that change how Python runs and nothing it loads; logs under systemd depend on the first.
HARMLESS: tuple[str, ...] = ("PYTHONUNBUFFERED", "PYTHONFAULTHANDLER", "PYTHONHASHSEED")

# Exact names.
NAMES: tuple[tuple[str, str], ...] = (
    ("GLIBC_TUNABLES", "steers the dynamic loader"),
    ("CUDA_HOME", "names a system CUDA toolkit"),
    ("CUDA_PATH", "names a system CUDA toolkit"),
    ("CUDA_ROOT", "names a system CUDA toolkit"),
    ("CUDAToolkit_ROOT", "names a system CUDA toolkit"),
    ("CUDACXX", "names another nvcc"),
    ("CUDNN_HOME", "names a system cuDNN"),
    ("CUDNN_PATH", "names a system cuDNN"),
    ("NCCL_HOME", "names a system NCCL"),
    ("NCCL_ENV_PLUGIN", "loads code into NCCL"),
    ("NCCL_NET_PLUGIN", "loads code into NCCL"),
    ("NCCL_PROFILER_PLUGIN", "loads code into NCCL"),
    ("NCCL_TUNER_PLUGIN", "loads code into NCCL"),
    ("CUTLASS_NVMMH_SO_PATH", "loads a foreign library"),
    ("TVM_LIBRARY_PATH", "loads a foreign library"),
    ("TRITON_CUDACRT_PATH", "gives Triton a foreign tool"),
    ("TRITON_CUDART_PATH", "gives Triton a foreign tool"),
    ("TRITON_CUOBJDUMP_PATH", "gives Triton a foreign tool"),
    ("TRITON_CUPTI_PATH", "gives Triton a foreign tool"),
    ("TRITON_CUPTI_LIB_PATH", "gives Triton a foreign tool"),
    ("TRITON_LIBCUDA_PATH", "gives Triton a foreign library"),
    ("TRITON_LIBDEVICE_PATH", "gives Triton a foreign library"),
    ("TRITON_NVDISASM_PATH", "gives Triton a foreign tool"),
    ("TRITON_PTXAS_PATH", "gives Triton a foreign assembler"),
    ("TRITON_PTXAS_BLACKWELL_PATH", "gives Triton a foreign assembler"),
    ("TRITON_OVERRIDE_DIR", "replaces compiled kernels"),
    ("TRITON_KERNEL_OVERRIDE", "replaces compiled kernels"),
    ("TORCH_DEVICE_BACKEND_AUTOLOAD", "loads code into torch"),
    ("FLASHINFER_DISABLE_VERSION_CHECK", "hides that parts of FlashInfer do not fit"),
    ("FLASHINFER_CUBIN_DIR", "kernels of another build"),
    ("PYTORCH_ALLOC_CONF", "changes the allocator behind the profile's back"),
    ("PYTORCH_CUDA_ALLOC_CONF", "changes the allocator behind the profile's back"),
    ("PYTORCH_HIP_ALLOC_CONF", "changes the allocator behind the profile's back"),
    ("PYTORCH_NO_CUDA_MEMORY_CACHING", "changes the allocator behind the profile's back"),
    ("__PYVENV_LAUNCHER__", "names another interpreter"),
    ("NODE_VIRTUAL_ENV", "belongs to another virtual environment"),
    ("PIPENV_ACTIVE", "belongs to pipenv"),
    ("BASH_ENV", "runs a file in every bash"),
)

# What these could load is beyond review: they cross only when `pass` names them letter by letter, never by a glob.
LOADERS: tuple[str, ...] = (
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "PYTHONEXECUTABLE",
    "PYTHONPLATLIBDIR",
    "PYTHON_EXEC",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "GLIBC_TUNABLES",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "BASH_ENV",
)

# Just-in-time artefacts outlive the torch build that made them unless each build has a folder of its own.
CACHES: tuple[tuple[str, str], ...] = (
    ("TRITON_CACHE_DIR", "triton"),
    ("TORCHINDUCTOR_CACHE_DIR", "inductor"),
    ("TORCH_EXTENSIONS_DIR", "torch-extensions"),
    ("FLASHINFER_WORKSPACE_BASE", "flashinfer"),
    ("SGLANG_DG_CACHE_DIR", "deep-gemm"),
    ("DG_JIT_CACHE_DIR", "deep-gemm"),
    ("TVM_FFI_CACHE_DIR", "tvm-ffi"),
    ("CUTE_DSL_CACHE_DIR", "cute-dsl"),
    ("NUMBA_CACHE_DIR", "numba"),
    ("CUDA_CACHE_PATH", "cuda"),
)

# Why a harmless name is there: words for --explain-env only.
FAMILIAR: tuple[tuple[str, str], ...] = (
    ("HOME", "every program needs it"),
    ("USER", "every program needs it"),
    ("LOGNAME", "every program needs it"),
    ("SHELL", "every program needs it"),
    ("TERM", "the terminal"),
    ("COLORTERM", "the terminal"),
    ("COLUMNS", "the terminal"),
    ("LINES", "the terminal"),
    ("NO_COLOR", "the terminal"),
    ("LANG", "the locale"),
    ("LANGUAGE", "the locale"),
    ("LC_*", "the locale"),
    ("TZ", "the time zone"),
    ("TMPDIR", "where temporary files go"),
    ("DISPLAY", "the desktop"),
    ("XDG_*", "the desktop"),
    ("DBUS_*", "the desktop"),
    ("SSH_*", "the ssh session"),
    ("SLURM_*", "the scheduler"),
    ("PMI*", "the scheduler"),
    ("OMPI_*", "the scheduler"),
    ("KUBERNETES_*", "the scheduler"),
    ("INVOCATION_ID", "systemd"),
    ("NOTIFY_SOCKET", "systemd"),
    ("LISTEN_*", "systemd"),
    ("RANK", "the launcher's"),
    ("LOCAL_RANK", "the launcher's"),
    ("GROUP_RANK", "the launcher's"),
    ("ROLE_*", "the launcher's"),
    ("WORLD_SIZE", "the launcher's"),
    ("LOCAL_WORLD_SIZE", "the launcher's"),
    ("GROUP_WORLD_SIZE", "the launcher's"),
    ("MASTER_*", "the launcher's"),
    ("TORCHELASTIC_*", "the launcher's"),
    ("ENVLOCK_*", "envlock's own configuration"),
    ("CUDA_VISIBLE_DEVICES", "which GPUs"),
    ("CUDA_DEVICE_ORDER", "which GPUs"),
    ("NVIDIA_*", "the container's GPU configuration"),
    ("http_proxy", "the proxy"),
    ("https_proxy", "the proxy"),
    ("no_proxy", "the proxy"),
    ("all_proxy", "the proxy"),
    ("HTTP_PROXY", "the proxy"),
    ("HTTPS_PROXY", "the proxy"),
    ("NO_PROXY", "the proxy"),
    ("ALL_PROXY", "the proxy"),
    ("SSL_CERT_*", "the trusted certificates"),
)


def matches(name: str, pattern: str) -> bool:
    """Tell whether a name fits a glob in which `*` stands for anything (no other special character)."""
    if "*" not in pattern:
        return name == pattern
    pieces = pattern.split("*")
    first, last = pieces[0], pieces[-1]
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in pieces[1:-1]:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
