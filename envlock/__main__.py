"""The entry point. What must be quick is answered before anything comfortable is imported."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line."""
    from envlock import where

    words = sys.argv[1:]
    project, rest = where.without_project_option(words)
    verb = rest[0] if rest else ""
    if verb in ("sync", "lock"):
        from envlock.launch import unchanged

        if unchanged.attempt(rest, where.locate(project, os.environ)):
            return
    elif verb == "run":
        from envlock.launch import fast

        fast.run(words)
    elif verb in ("why", "rollback", "diff", "verify"):
        from envlock.cli import quick

        code = quick.attempt(words)
        if code is not None:
            sys.exit(code)

    from envlock.cli.main import cli  # late: the launch path must not pay for click

    sys.exit(cli())


if __name__ == "__main__":
    main()
