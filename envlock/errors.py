"""Every way envlock can fail, as a type. An error says what was found, what was expected, where, and what to do.

Plain classes, no dataclasses: the launch path imports this module and may not pay for more than it needs.
Outcomes (stale reasons, check results, diffs) are values; only "cannot go on" is raised.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class EnvlockError(Exception):
    """Something that stops a command; the command line turns it into words and `exit_code`.

    `where` names a file, or a file and a key; `hint` is the next command to type or the edit to make.
    `details` are further lines, shown indented (uv's own explanation, say).
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
        details: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.expected = expected
        self.found = found
        self.hint = hint
        self.details = tuple(details)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message

    def as_dict(self) -> dict[str, object]:
        """Return the error with stable keys, for `--json`."""
        return {
            "error": type(self).__name__,
            "message": self.message,
            "where": self.where,
            "expected": self.expected,
            "found": self.found,
            "hint": self.hint,
            "details": list(self.details),
            "exit_code": self.exit_code,
        }


class UsageError(EnvlockError):
    """The words given on the command line do not fit together."""

    exit_code = 2


class ProjectNotFound(UsageError):
    """No folder with `profiles/` at or above the working folder."""


class Fault:
    """One thing wrong in a file a person wrote: the key path, its line, what was found and what fits there."""

    __slots__ = ("file", "found", "key", "line", "message", "suggestion")

    def __init__(
        self,
        key: str,
        message: str,
        *,
        line: int | None = None,
        found: str | None = None,
        suggestion: str | None = None,
        file: str | None = None,
    ) -> None:
        self.file = file
        self.key = key
        self.message = message
        self.line = line
        self.found = found
        self.suggestion = suggestion

    def place(self, file: str) -> str:
        """Return `file:line`; `file` is where faults are that know of no other."""
        return f"{self.file or file}:{self.line}" if self.line else self.file or file

    def render(self, file: str) -> str:
        """Return `file:line: key: message (did you mean ...?)`."""
        place = self.place(file)
        hint = f" (did you mean {self.suggestion!r}?)" if self.suggestion else ""
        key = f"{self.key}: " if self.key else ""
        return f"{place}: {key}{self.message}{hint}"


class FileError(EnvlockError):
    """A file is wrong; `faults` holds all of them, so that one pass mends the file."""

    exit_code = 2

    def __init__(self, file: str, faults: Sequence[Fault], *, hint: str | None = None) -> None:
        self.faults = tuple(faults)
        first = self.faults[0]
        super().__init__(
            first.message,
            where=first.place(file),
            found=first.found,
            hint=hint,
            details=[fault.render(file) for fault in self.faults],
        )
        self.file = first.file or file

    def __str__(self) -> str:
        return "\n".join(self.details)


class ProfileError(FileError):
    """A profile cannot be read or says something impossible."""


class LockError(FileError):
    """A lock file is malformed, edited by hand, of a newer format, or for another profile."""


class ContainerFileError(FileError):
    """A container declaration cannot be read or says something impossible."""


class ResolutionError(EnvlockError):
    """The requirements of a profile cannot be met, or were met by the wrong build."""


class IndexFault(EnvlockError):
    """An index is down, answers with an error, or serves something else than it promised."""


class NotAudited(EnvlockError):
    """The advisory service could not be asked, or not about everything: "not known" is not "nothing found"."""

    exit_code = 3


class LockStale(EnvlockError):
    """The lock no longer answers its profile."""


class InterpreterNotFound(EnvlockError):
    """No Python on this machine fits the profile."""


class StoreError(EnvlockError):
    """The store under .envlock cannot be read or written, or is not envlock's."""


class RealiseError(EnvlockError):
    """Building an environment failed; the one before it is untouched."""


class CoverageDiffers(RealiseError):
    """A built environment holds other device code than its lock says."""


class EnvironmentMissing(EnvlockError):
    """The profile has no environment here yet."""


class ToolMissing(EnvlockError):
    """A program that envlock calls is not on this machine."""


class TransportError(EnvlockError):
    """A hop to another place failed; the message says which hop and what it said."""


class ContainerError(EnvlockError):
    """A container engine refused, or a container is not in the state that was needed."""


class LaunchRefused(EnvlockError):
    """The environment must not be launched now."""

    exit_code = 125


class CommandNotExecutable(LaunchRefused):
    """The command exists but cannot be executed (as a shell would say)."""

    exit_code = 126


class CommandNotFound(LaunchRefused):
    """The command is neither in the environment nor on the PATH (as a shell would say)."""

    exit_code = 127
