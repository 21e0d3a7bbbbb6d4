"""The entry point. `run`, and what has nothing to do, are answered before anything comfortable is imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    from envlock.launch import fast

    if fast.nothing_to_do(sys.argv[1:]):
        return
    fast.run(sys.argv[1:])

    from envlock.cli.main import cli  # late: the launch path must not pay for click

    sys.exit(cli())


if __name__ == "__main__":
    main()
