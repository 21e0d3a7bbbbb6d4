"""What each check of the host and of the probe means, why it matters and what to do; as explain_static.py."""

from __future__ import annotations

ON_A_HOST: dict[str, tuple[str, str, str]] = {
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
        "Two runtimes in one process, or the system's cuDNN, break later (pytorch#80637). LD_LIBRARY_PATH brings them; and "
        "sgl_kernel opens the first libcudart of CUDA_HOME, CUDA_PATH, the nvcc on PATH or /usr/local/cuda, so that a host "
        "with a CUDA toolkit puts a second runtime into the process.",
        "drop LD_LIBRARY_PATH, and take CUDA_HOME and CUDA_PATH out of the profile's [env] (envlock run drops the "
        "caller's); where /usr/local/cuda or an nvcc on PATH is there, hide it, or set CUDA_HOME in [env] to the folder of "
        "the environment's own libcudart; verify --tier static",
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
