"""What each check means, why it matters and what to do: one text for `verify --explain` and for docs/checks.md."""

from __future__ import annotations

import difflib

from envlock.errors import UsageError

# id -> (what is judged, why it matters, what to do). Sources are named where a rule has one outside this repository.
TEXTS: dict[str, tuple[str, str, str]] = {
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
        "Every file is as it was sealed: by size and time, or with --deep by hash.",
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
    "driver.present": (
        "The NVIDIA kernel module is loaded.",
        "Nothing runs on a GPU without it.",
        "load it on the host",
    ),
    "driver.floor": (
        "The driver is not older than the stack's CUDA needs.",
        "Minor-version compatibility: CUDA 12 runs from 525.60.13, CUDA 13 from 580.65.06 "
        "(docs.nvidia.com/deploy/cuda-compatibility).",
        "upgrade the host's driver, or use a profile for an earlier CUDA",
    ),
    "driver.match": (
        "The user-space driver is exactly the kernel module's version.",
        "`Driver/library version mismatch`, typical of containers after a host upgrade.",
        "install the host's version in the container, or reload the module",
    ),
    "driver.nvml": ("NVML answers.", "Without it nobody can tell which GPUs there are.", "see the reason it gave"),
    "devices.nodes": (
        "/dev/nvidia* are there, with the present major numbers, and really open.",
        "nvidia-smi works without nvidia-uvm; CUDA does not. The uvm major is dynamic and goes stale in a container's "
        "configuration.",
        "start the container again: envlock container start NAME",
    ),
    "gpu.declared": ("The profile has a [gpu].", "Without one there is nothing to judge.", "declare [gpu]"),
    "gpu.visible": (
        "CUDA_VISIBLE_DEVICES names GPUs that are there.",
        "CUDA ignores a wrong name and all after it, in silence.",
        "unset it, or envlock run --gpus",
    ),
    "gpu.count": ("There are as many GPUs as declared.", "A launch with fewer hangs or is slow.", "pass more in"),
    "gpu.capability": (
        "The GPUs are those the stack was made for.",
        "Coverage was judged for the declared compute capability.",
        "other GPUs, or another [gpu] compute-capability",
    ),
    "gpu.free-memory": ("Enough memory is free on each GPU.", "Better known before ten minutes of loading.", "free it"),
    "gpu.exclusive": (
        "Nobody else uses the GPUs, told by used memory.",
        "Process lists lie in containers: NVML reports host pids.",
        "end the others, or choose other GPUs",
    ),
    "gpu.compute-mode": (
        "The compute mode lets the launch in.",
        "Exclusive mode admits one process.",
        "nvidia-smi -c 0",
    ),
    "gpu.mig": ("The GPU is whole.", "A MIG slice has fewer SMs and less memory.", "nvidia-smi -mig 0"),
    "gpu.health": ("No pending row remapping, no uncorrected ECC errors.", "They end runs.", "reset, then watch it"),
    "gpu.throttle": (
        "The GPU is not slowed down.",
        "Power or heat halves throughput without an error.",
        "cooling, power",
    ),
    "gpu.link": ("The PCIe link has its full width.", "Copies between GPUs take their share of it.", "reseat the card"),
    "environ.leaks": (
        "No variable of the caller's shell leads to foreign CUDA libraries: LD_LIBRARY_PATH is judged by what its folders "
        "hold, and the driver's own libraries are no leak.",
        "LD_LIBRARY_PATH beats the environment's own libraries (pytorch#157381).",
        "envlock run drops it",
    ),
    "host.shm": ("/dev/shm is large enough for the ranks.", "NCCL fails with `No space left on device`.", "enlarge it"),
    "host.memlock": ("Memory may be locked.", "RDMA registration needs it.", "ulimit -l unlimited"),
    "host.iommu": (
        "No IOMMU translation between GPUs.",
        "Peer-to-peer copies break: the first all-reduce hangs.",
        "iommu=pt; verify --collective tells for certain",
    ),
    "tiers.left-out": (
        "A tier that this machine does not allow.",
        "What was not looked at is said.",
        "--tier asks for it",
    ),
    "probe.attested": (
        "An earlier probe passed under exactly this seal, driver, GPUs and boot.",
        "Anything else probes again; a failed probe is never remembered.",
        "--fresh probes again",
    ),
    "probe.end": (
        "The probe ran to its end.",
        "A crash or a hang is what a launch would meet.",
        "see what it was doing",
    ),
    "probe.torch": ("torch can be imported.", "A missing or foreign library shows here.", "verify --tier static"),
    "probe.origin": ("torch comes from this environment.", "Something else came first.", "PYTHONPATH, .pth files"),
    "probe.cuda": ("CUDA starts and sees the GPUs.", "torch.cuda.is_available() would be False.", "verify --tier host"),
    "probe.devices": (
        "CUDA shows the process the very GPUs that the driver's list and CUDA_VISIBLE_DEVICES promise, by UUID.",
        "CUDA may number cards otherwise than nvidia-smi, and what is verified must be what is launched on.",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID, or name them by UUID: envlock run --gpus",
    ),
    "probe.capability": ("CUDA sees the declared GPUs.", "As gpu.capability, asked of CUDA.", "other GPUs"),
    "probe.kernels": (
        "Kernels of every kind run and give the CPU's numbers.",
        "A kernel that returns zeros has shipped (flashinfer#2577).",
        "do not run on a stack that computes wrong",
    ),
    "probe.import": ("A required extension can be imported.", "Built for another torch, it cannot.", "another build"),
    "probe.call": (
        "A public entry of an extension gives the right numbers.",
        "Importing proves little.",
        "another build",
    ),
    "probe.libraries": (
        "One of each CUDA library is loaded, from the environment or the driver.",
        "Two runtimes in one process, or the system's cuDNN, break later (pytorch#80637).",
        "drop LD_LIBRARY_PATH; verify --tier static",
    ),
    "probe.nccl": ("The loaded NCCL is the locked one.", "Another copy came first.", "see probe.libraries"),
    "probe.cudnn": ("The loaded cuDNN is the locked one.", "Another copy came first.", "see probe.libraries"),
    "probe.allocator": (
        "The declared allocator settings are in force.",
        "torch 2.9 to 2.11 ignore PYTORCH_ALLOC_CONF for CUDA (pytorch#183387).",
        "envlock run sets the name this torch reads",
    ),
    "probe.collective": (
        "An all-reduce over two ranks ends, with the right sum.",
        "It hangs where peer-to-peer copies are broken (nccl#2079).",
        "NCCL_P2P_DISABLE=1 to be sure of the cause; iommu=pt and no ACS to mend it",
    ),
}


def text(wanted: str) -> str:
    """Return the explanation of a check for people. Raises UsageError when there is no check of that id."""
    if wanted not in TEXTS:
        close = difflib.get_close_matches(wanted, TEXTS, n=1)
        raise UsageError(
            f"there is no check {wanted!r}",
            hint=f"did you mean {close[0]}?" if close else f"one of: {', '.join(sorted(TEXTS))}",
        )
    what, why, remedy = TEXTS[wanted]
    return f"{wanted}\n  judges: {what}\n  why:    {why}\n  do:     {remedy}"
