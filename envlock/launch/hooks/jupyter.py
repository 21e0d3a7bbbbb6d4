"""A Jupyter kernel in the sealed environment, started through the shim by whatever Jupyter there is."""

from __future__ import annotations

import json

from envlock.launch.hooks.kind import File, Kind, Target


def files(target: Target) -> tuple[File, ...]:
    """Return the kernelspec. Jupyter itself lies elsewhere; the environment needs ipykernel alone."""
    spec = {
        "argv": [*target.launch, "python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": f"{target.name} (envlock)",
        "language": "python",
        "interrupt_mode": "signal",
        "metadata": {"debugger": True, "envlock": {"profile": target.name, "project": target.project}},
    }
    text = json.dumps(spec, indent=2, ensure_ascii=False) + "\n"
    return (File(path=f"{target.name}/kernel.json", text=text),)


KIND = Kind(
    name="jupyter",
    purpose="a kernelspec; the kernel starts in the verified environment",
    files=files,
    after="jupyter kernelspec list shows it when it lies in ~/.local/share/jupyter/kernels/",
    needs="ipykernel",
)
