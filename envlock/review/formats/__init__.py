"""One comparison, many readers: a terminal, a review comment, a browser, a script."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from envlock.review.report import Comparison

NAMES = ("text", "markdown", "html", "json")


def render(
    comparisons: Sequence[Comparison], form: str, paint: Callable[[str, str], str], *, every: bool = False
) -> str:
    """Return comparisons in one of NAMES; `paint` colours the text form, `every` shows all its packages."""
    if form == "json":
        from envlock.review.formats import as_json

        return as_json.render(comparisons)
    if form == "markdown":
        from envlock.review.formats import as_markdown

        return as_markdown.render(comparisons)
    if form == "html":
        from envlock.review.formats import as_html

        return as_html.render(comparisons)
    from envlock.review.formats import as_text

    return as_text.render(comparisons, paint, most=10**6 if every else 30) or "no lock differs"
