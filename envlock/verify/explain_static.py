"""What each check of files and locks means, why it matters and what to do."""

from __future__ import annotations

# id -> (what is judged, why it matters, what to do). Sources are named where a rule has one outside this repository.
STATIC: dict[str, tuple[str, str, str]] = {
    "agreement.lock": (
        "The lock was made for the profile as it is now.",
        "A stale lock builds yesterday's wish.",
        "envlock lock NAME",
    ),
    "agreement.seal": (
        "The environment was built from the lock as it is now.",
        "Two people with one lock must have one stack.",
        "envlock sync NAME",
    ),
    "agreement.place": (
        "The environment lies where it was built.",
        "Scripts carry the absolute path of their interpreter; a moved store starts another one, or none.",
        "envlock sync NAME",
    ),
    "agreement.packages": (
        "Every installed distribution is the locked one, version by version.",
        "A foreign `pip install` changes packages without asking the lock.",
        "envlock sync --rebuild NAME; what you want to keep goes into the profile",
    ),
    "torch.cuda-build": (
        "torch was built for the declared CUDA, as torch/version.py and torch.version.cuda tell it.",
        "PyPI's torch 2.11.0 is the CUDA 13.0 build though its version says nothing of it; the swap costs memory and "
        "speed, and `pip check` is blind to it.",
        "envlock sync --rebuild NAME; pin [torch] version and cuda",
    ),
    "torch.version": (
        "torch's files and its metadata tell one version.",
        "A second installer replaced one and not the other.",
        "envlock sync --rebuild NAME",
    ),
    "torch.companions": (
        "torchvision and torchaudio were built for this torch.",
        "A mixed pair fails with `operator torchvision::nms does not exist` (pytorch/vision#8985).",
        "lock them together: envlock lock -P torchvision -P torchaudio NAME",
    ),
    "cuda.one-major": (
        "Every extension links the CUDA major that torch links (DT_NEEDED of its libraries).",
        "Two runtimes in one process: SIGFPE in deep_gemm, missing libcublas.so.12 (sgl-project/sglang#22833).",
        "choose the build of the extension for torch's CUDA",
    ),
    "files.drift": (
        "Every file is as it was sealed: by size, time and what its mode must never be, or with --deep by hash.",
        "What was measured and verified is what was sealed, not what was edited since.",
        "envlock sync --rebuild NAME; put a patch into a package of your own",
    ),
    "files.one-owner": (
        "No file is claimed by two distributions with other bytes.",
        "The last installer wins, and removing one breaks the other (pytorch/pytorch#186591).",
        "exclude one of the two, or declare [overlaps]",
    ),
    "files.seal": (
        "The seal's own files are as they were written: what is small always, the lists of every file with --deep.",
        "What the files hold (device code, what the loader needs) is read from the seal and not from the files again.",
        "envlock sync --rebuild NAME",
    ),
    "files.shared-edit": (
        "No file that is hard-linked with uv's cache was edited.",
        "Such an edit changes the cache and every other environment (astral-sh/uv#10579).",
        'envlock sync --rebuild NAME mends the cache; links = "copy" for a stack that is patched',
    ),
    "files.recorded": (
        "Without a seal: every distribution recorded the hash of each of its files; torch and what is required must.",
        "What nobody recorded cannot be held against anything: an edited or swapped file looks like any other.",
        "install that package anew, or let envlock build the environment: envlock adopt, envlock sync",
    ),
    "files.outside": (
        "No link in site-packages leads out of the environment.",
        "What lies there changes, or goes, without the environment; a linked folder is not judged at all.",
        "install the package into the environment; envlock sync --rebuild NAME",
    ),
    "files.permissions": (
        "Programs can be started and files be read; nothing is set-user-ID, nothing can be changed by anybody. Of folders, "
        "of bin/, of what lies directly in site-packages and of libraries always; of every file with --deep.",
        "A chmod changes neither size nor time, and what cannot be read fails at import.",
        "chmod it back, or envlock sync --rebuild NAME",
    ),
    "packages.cuda-twins": (
        "No library is installed for two CUDA majors.",
        "nvidia-nccl-cu12 and -cu13 both install libnccl.so.2: undefined symbols, or worse.",
        "exclude the one that does not belong to this torch",
    ),
    "packages.one-version": (
        "Each distribution is there once: no two dist-info folders, nor old egg-info ones, claim one, by name or metadata.",
        "A second dist-info makes every tool answer for another version.",
        "envlock sync --rebuild NAME",
    ),
    "packages.metadata": (
        "Each distribution's METADATA tells the name and the version of its folder.",
        "Some tools read one, some the other: with two answers a requirement seems to hold that does not.",
        "envlock sync --rebuild NAME, or install that package anew",
    ),
    "packages.flashinfer": (
        "flashinfer-python, -cubin and -jit-cache are of one version.",
        "They refuse to start together, and with the check switched off address memory wrongly (vllm#49804).",
        "lock them together",
    ),
    "abi.readable": (
        "Every native library is a whole ELF file for this CPU; what is required must be.",
        "A truncated, empty or foreign file fails at import.",
        "envlock sync --rebuild NAME",
    ),
    "abi.search-path": (
        "No library carries a path (RPATH, RUNPATH, or a needed library by its full name) to a CUDA outside the environment.",
        "Built on a machine with a toolkit: where that folder is, another libcudart or cuDNN is loaded beside torch's own.",
        "build it without that path (patchelf --remove-rpath), or take a wheel that has none",
    ),
    "abi.torch": (
        "Every torch symbol that an extension needs is exported by this torch, with its C++ ABI.",
        "Built for another torch: `undefined symbol: _ZN3c10...` (flash-attention#723).",
        "choose the build for this torch, or build it again",
    ),
    "abi.glibc": (
        "No library needs a newer glibc than this host has.",
        "`GLIBC_2.34 not found` at import.",
        "lower [platform] glibc and lock again, or upgrade the host",
    ),
    "abi.python": (
        "Native modules and every interpreter in bin/ are for this Python minor version.",
        "Another one does not find the packages.",
        "envlock sync --rebuild NAME",
    ),
    "triton.assembler": (
        "Triton's ptxas knows the declared GPU.",
        "`Value 'sm_120' is not defined for option 'gpu-name'` at the first compiled kernel.",
        "a newer triton (with its torch), or TRITON_PTXAS_PATH to a newer toolkit's ptxas",
    ),
    "triton.toolchain": (
        "A C compiler and Python.h are there for Triton's launcher.",
        "Triton compiles C at run time: `Python.h: No such file or directory`.",
        "apt-get install gcc python3-dev",
    ),
    "kernels.required": (
        "Every library in [kernels] require, and torch, has code for the declared GPU.",
        "`no kernel image is available for execution on the device` at the first use.",
        "a version built for this GPU",
    ),
    "kernels.coverage": (
        "How many device-code containers of each library can run on the declared GPU.",
        "A library without any loads well and fails when it is called.",
        "[kernels] accept-missing with how the launch avoids it, or another version",
    ),
    "kernels.accepted": (
        "A library without code for this GPU that the profile accepts, with its reason.",
        "What is accepted is still told, so that a reader knows.",
        "nothing, as long as the reason holds",
    ),
    "kernels.ptx": (
        "Code that is only there as PTX can be compiled by this driver.",
        "Minor-version compatibility does not cover PTX: error 222, unsupported toolchain.",
        "a driver as new as the toolkit that made the PTX, or a build with machine code",
    ),
    "kernels.locked": (
        "The libraries of each package hold as much code for the declared GPU as the lock says.",
        "Those numbers are what a reviewer approved without having the environment. `sync` holds the two against each "
        "other before it switches; a difference later means other files, or another envlock that reads them otherwise.",
        "envlock sync --rebuild NAME; if that says the same, envlock lock --inspect NAME, and review the numbers",
    ),
    "startup.path-files": (
        "No .pth file adds a foreign folder or runs code that the seal does not know.",
        "It is executed at every start of the interpreter.",
        "remove it; envlock sync --rebuild NAME",
    ),
    "startup.modules": (
        "No sitecustomize or usercustomize that the seal does not know.",
        "It is executed at every start of the interpreter.",
        "remove it; envlock sync --rebuild NAME",
    ),
    "startup.leftovers": (
        "No half-removed packages (`~orch`).",
        "An interrupted pip left them; parts stay importable.",
        "envlock sync --rebuild NAME",
    ),
    "startup.other-packages": (
        "Neither user site nor system site-packages are visible.",
        "A torch in ~/.local is imported instead.",
        "PYTHONNOUSERSITE=1, which envlock run sets",
    ),
    "startup.scripts": (
        "Console scripts start this environment's interpreter.",
        "torchrun of another interpreter starts its workers there (pytorch#92132).",
        "envlock sync --rebuild NAME",
    ),
    "launch.arguments": (
        "No argument names a backend without code for this GPU.",
        "The server starts, and dies at its first request.",
        'the backend that the message names; [kernels] lint = "error" makes run refuse',
    ),
    "lock.fresh": ("The lock answers its profile.", "Judged from the two files alone.", "envlock lock NAME"),
}
