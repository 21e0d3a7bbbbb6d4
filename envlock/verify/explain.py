"""What each check means, why it matters and what to do: one text for `verify --explain` and for docs/checks.md."""

from __future__ import annotations

import difflib

from envlock.errors import UsageError
from envlock.verify.explain_host import ON_A_HOST
from envlock.verify.explain_static import STATIC

TEXTS = {**STATIC, **ON_A_HOST}


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
