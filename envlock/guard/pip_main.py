"""`pip` inside a sealed environment: tells the truth about what is installed, and installs nothing.

Standard library only. `ENVLOCK_ALLOW_PIP=1` (or `--envlock-override`) hands the words to the pip that Python brings
along, and marks the environment as drifted for good.
"""

import os
import sys

CHANGES = ("install", "uninstall", "download", "wheel", "config", "cache", "lock")
MARK = "envlock_overridden.txt"


def main(words=None):
    """Answer as pip would, or refuse."""
    words = list(sys.argv[1:] if words is None else words)
    if "--envlock-override" in words or os.environ.get("ENVLOCK_ALLOW_PIP", "0") not in ("", "0"):
        return _override([word for word in words if word != "--envlock-override"])
    asked = [word for word in words if not word.startswith("-")]
    verb = asked[0] if asked else (words[0] if words else "help")
    rest = words[words.index(verb) + 1 :] if verb in words else []
    if verb == "list":
        return _list(rest)
    if verb == "freeze":
        return _freeze()
    if verb == "show":
        return _show([word for word in rest if not word.startswith("-")], "-f" in rest or "--files" in rest)
    if verb == "check":
        return _check()
    if verb in ("--version", "-V"):
        version = ".".join(str(number) for number in sys.version_info[:2])
        print(f"pip (envlock: answers only) from {os.path.dirname(os.path.abspath(__file__))} (python {version})")
        return 0
    if verb in ("help", "--help", "-h"):
        print("This is a sealed environment. Here pip answers: list, freeze, show NAME..., check.")
        print(_instead())
        return 0
    return _refuse(verb, asked[1:])


def gate():
    """Stand before a real pip: called when Python starts with `-m`; what would change the environment ends here."""
    words = sys.orig_argv[sys.orig_argv.index("-m") + 1 :]
    if words[:1] != ["pip"] or os.environ.get("ENVLOCK_ALLOW_PIP", "0") not in ("", "0"):
        return
    asked = [word for word in words[1:] if not word.startswith("-")]
    if asked and asked[0] in CHANGES:
        code = _refuse(asked[0], asked[1:])
        sys.stderr.flush()
        os._exit(code)  # this early there is nothing to clean up, and SystemExit would look like a crash of `site`


def _profile():
    return os.path.basename(os.path.dirname(os.path.realpath(sys.prefix)))


def _instead():
    name = _profile()
    return (
        f"To change it:  envlock add {name} PACKAGE  (or edit profiles/{name}.toml)\n"
        f"               envlock lock {name} && envlock sync {name}"
    )


def _refuse(verb, packages):
    name = _profile()
    sys.stderr.write(
        f"envlock: pip {verb} is refused: this environment is sealed (profile {name}, {sys.prefix})\n"
        f"  What is not in the lock is gone at the next sync, and the next launch would refuse to start.\n"
        f"  try: envlock add {name} {' '.join(packages) or 'PACKAGE'}\n"
        f"       envlock lock {name} && envlock sync {name}\n"
        f"  Deliberately, once, and marked as drifted from then on: ENVLOCK_ALLOW_PIP=1 pip {verb} ...\n"
    )
    return 1


def _distributions():
    from importlib.metadata import distributions

    found = {}
    for distribution in distributions():
        name = distribution.metadata["Name"]
        if name and _normal(name) not in found:
            found[_normal(name)] = distribution
    return [found[name] for name in sorted(found)]


def _normal(name):
    import re

    return re.sub(r"[-_.]+", "-", name).lower()


def _list(rest):
    rows = [(item.metadata["Name"], item.version) for item in _distributions()]
    kind = "columns"
    for at, word in enumerate(rest):
        if word.startswith("--format="):
            kind = word.partition("=")[2]
        elif word == "--format" and at + 1 < len(rest):
            kind = rest[at + 1]
    if "--outdated" in rest or "-o" in rest or "-u" in rest or "--uptodate" in rest:
        return _refuse("list --outdated (it asks an index)", [])
    if kind == "json":
        import json

        print(json.dumps([{"name": name, "version": version} for name, version in rows]))
    elif kind == "freeze":
        for name, version in rows:
            print(f"{name}=={version}")
    else:
        width = max([len("Package"), *(len(name) for name, _ in rows)])
        tail = max([len("Version"), *(len(version) for _, version in rows)])
        print(f"{'Package':<{width}} Version")
        print("-" * width, "-" * tail)
        for name, version in rows:
            print(f"{name:<{width}} {version}")
    return 0


def _freeze():
    for item in _distributions():
        if item.metadata["Name"] not in ("pip", "envlock-guard"):
            print(f"{item.metadata['Name']}=={item.version}")
    return 0


def _show(names, files):
    if not names:
        sys.stderr.write("WARNING: ERROR: Please provide a package name or names.\n")
        return 1
    installed = _distributions()
    by_name = {_normal(item.metadata["Name"]): item for item in installed}
    missing = [name for name in names if _normal(name) not in by_name]
    if missing:
        sys.stderr.write(f"WARNING: Package(s) not found: {', '.join(missing)}\n")
    for at, item in enumerate(by_name[_normal(name)] for name in names if _normal(name) in by_name):
        name = _normal(item.metadata["Name"])
        needs = sorted({_normal(_requirement(text)[0]) for text in item.requires or () if _applies(text)})
        needed = sorted(
            other.metadata["Name"]
            for other in installed
            if name in {_normal(_requirement(text)[0]) for text in other.requires or () if _applies(text)}
        )
        if at:
            print("---")
        print(f"Name: {item.metadata['Name']}")
        print(f"Version: {item.version}")
        print(f"Summary: {item.metadata.get('Summary', '')}")
        print(f"Home-page: {item.metadata.get('Home-page', '')}")
        print(f"License: {item.metadata.get('License-Expression') or item.metadata.get('License', '')}")
        print(f"Location: {item.locate_file('')}")
        print(f"Requires: {', '.join(needs)}")
        print(f"Required-by: {', '.join(needed)}")
        if files:
            print("Files:")
            for path in sorted(str(path) for path in item.files or ()):
                print(f"  {path}")
    return 0 if len(missing) < len(names) else 1


def _requirement(text):
    """Return (name, specifier text) of a PEP 508 requirement, markers and extras left out."""
    import re

    found = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;)@]*)", text)
    return (found[1], found[2].strip()) if found else (text, "")


def _applies(text):
    """Tell whether a requirement holds here; one that needs an extra does not."""
    _, _, marker = text.partition(";")
    if not marker.strip():
        return True
    import re

    if re.search(r"\bextra\b", marker):
        return False
    library = _packaging()
    return True if library is None else library[0](marker.strip()).evaluate({"extra": ""})


def _packaging():
    """Return (Marker, SpecifierSet) of the environment's own packaging, or None where it has none."""
    try:
        from packaging.markers import Marker
        from packaging.specifiers import SpecifierSet
    except ImportError:
        return None
    return Marker, SpecifierSet


def _check():
    installed = _distributions()
    versions = {_normal(item.metadata["Name"]): item.version for item in installed}
    library = _packaging()
    broken = 0
    for item in installed:
        name = item.metadata["Name"]
        for text in item.requires or ():
            if not _applies(text):
                continue
            needed, specifier = _requirement(text)
            version = versions.get(_normal(needed))
            if version is None:
                if library is None and ";" in text:
                    continue  # whether it applies cannot be told without packaging
                print(f"{name} {item.version} requires {needed}, which is not installed.")
                broken += 1
            elif library and specifier and not library[1](specifier).contains(version, prereleases=True):
                print(f"{name} {item.version} has requirement {needed}{specifier}, but you have {needed} {version}.")
                broken += 1
    if not broken:
        print("No broken requirements found.")
        print("(pip check cannot see a torch of the wrong CUDA build: envlock verify does)", file=sys.stderr)
    return 1 if broken else 0


def _override(words):
    """Run Python's own pip on this environment, marked as drifted first, so that no launch takes it for sealed."""
    import glob
    import runpy

    try:
        import ensurepip
    except ImportError:
        wheels = []
    else:
        wheels = glob.glob(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl"))
        wheels += glob.glob("/usr/share/python-wheels/pip-*.whl")
    if not wheels:
        sys.stderr.write("envlock: this Python brings no pip along (ensurepip); uv pip install --python PREFIX works\n")
        return 1
    if words and words[0] in ("install", "uninstall"):
        from sysconfig import get_path

        with open(os.path.join(get_path("purelib"), MARK), "a") as file:
            file.write(f"pip {' '.join(words)}\n")
        sys.stderr.write(
            f"envlock: overridden: {sys.prefix} counts as drifted from now on and will not be launched;\n"
            f"  envlock sync --rebuild {_profile()} makes a clean one\n"
        )
    for name in [name for name in sys.modules if name == "pip" or name.startswith("pip.")]:
        del sys.modules[name]
    sys.path.insert(0, wheels[0])
    sys.argv = ["pip", *words]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
