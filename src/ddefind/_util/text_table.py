"""Tables as text and as HTML: rows of cells, the first row the header."""

from collections.abc import Collection, Sequence
from html import escape

import numpy as np


def aligned(
    rows: Sequence[Sequence[str]], left: Collection[int] = (0,), most: int = 40
) -> list[str]:
    """Lines with the cells under each other, the columns `left` to the left; no more
    than `most` below the header.

    >>> print(*aligned([("name", "value"), ("r", "2.5"), ("K", "10")]), sep="\\n")
    name  value
    r       2.5
    K        10
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows[: 1 + most]:
        cells = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    if len(rows) > 1 + most:
        lines.append(f"... and {len(rows) - 1 - most} more rows")
    return lines


def html(rows: Sequence[Sequence[str]], below: Sequence[str] = ()) -> str:
    """The same for notebooks, with paragraphs below."""

    def row(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

    body = "".join(row(cells, "td") for cells in rows[1:])
    text = "".join(f"<p>{escape(sentence)}</p>" for sentence in below)
    head = row(rows[0], "th")
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{text}"


def decimals(value: float, error: float | None) -> int | None:
    """Two digits of the standard error; None: no fixed number of decimals."""
    if error is None or error == 0 or not 1e-5 < max(abs(value), error) < 1e7:
        return None
    digits = 1 - int(np.floor(np.log10(error)))
    return digits if 0 <= digits <= 10 else None


def format_number(value: float, digits: int | None) -> str:
    return f"{value:.5g}" if digits is None else f"{value:.{digits}f}"


def format_interval(low: float, high: float, digits: int | None) -> str:
    """An interval as text, infinite where it is open.

    >>> format_interval(0.5, float("inf"), 2)
    '[0.50, inf]'
    """
    ends = [
        format_number(end, digits) if np.isfinite(end) else str(end)
        for end in (low, high)
    ]
    return f"[{', '.join(ends)}]"
