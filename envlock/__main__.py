"""The entry point. `envlock run` takes the fast path before anything comfortable is imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    from envlock.launch import fast

    fast.run(sys.argv[1:])

    from envlock.cli.main import cli  # late: the launch path must not pay for click

    sys.exit(cli())


if __name__ == "__main__":
    main()
