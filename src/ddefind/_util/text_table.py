"""Tables as aligned text and as HTML, and numbers as text.

A table is a list of rows, each a list of cells that are text already. The first row is
the header.
"""

from collections.abc import Collection, Sequence
from html import escape

import numpy as np


def table_lines(
    rows: Sequence[Sequence[str]],
    left: Collection[int] = (0,),
    most_rows: int = 40,
    *,
    min_widths: Sequence[int] = (),
    row_noun: str = "rows",
) -> list[str]:
    """Format a table as lines of text with aligned columns, two blanks between them.

    Args:
        rows: The header and the rows below it, with one text for each column.
        left: The indices of the columns that are aligned to the left. All others are
            aligned to the right.
        most_rows: How many rows are printed below the header. If there are more, a last
            line says how many were left out.
        min_widths: The least width of each column, from the first column on. A column
            is as wide as its widest cell where that is wider.
        row_noun: What the rows are called in the line about those left out.

    >>> table = [("name", "value"), ("r", "2.5"), ("K", "10")]
    >>> print(*table_lines(table), sep="\\n")
    name  value
    r       2.5
    K        10
    >>> print(*table_lines(table, most_rows=1, row_noun="parameters"), sep="\\n")
    name  value
    r       2.5
    ... and 1 more parameters
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    for column, least in enumerate(min_widths):
        widths[column] = max(widths[column], least)
    lines = []
    for row in rows[: 1 + most_rows]:
        cells = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    left_out = len(rows) - 1 - most_rows
    if left_out > 0:
        lines.append(f"... and {left_out} more {row_noun}")
    return lines


def html_table(rows: Sequence[Sequence[str]], paragraphs: Sequence[str] = ()) -> str:
    """Format a table as HTML for notebooks, with paragraphs of text below it.

    >>> html_table([("name", "value"), ("r", "2.5")])
    '<table><thead><tr><th>name</th>...<td>2.5</td></tr></tbody></table>'
    """

    def html_row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

    head = html_row(rows[0], "th")
    body = "".join(html_row(cells, "td") for cells in rows[1:])
    text = "".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{text}"


def listed(texts: Sequence[str], word: str = "and") -> str:
    """List texts in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b"], "or")
    ('a', 'a, b and c', 'a or b')
    """
    *first, last = texts
    return f"{', '.join(first)} {word} {last}" if first else last


def decimals(value: float, error: float | None) -> int | None:
    """Return how many decimals to print of a value with a standard error.

    That many show the standard error with two significant digits. None stands for "no
    fixed number of decimals": there is no error, or the numbers are so large or so
    small that they are better printed with an exponent.

    >>> decimals(2.34567, 0.012), decimals(2.34567, None)
    (3, None)
    """
    if error is None or error == 0 or not 1e-5 < max(abs(value), error) < 1e7:
        return None
    digits = 1 - int(np.floor(np.log10(error)))
    return digits if 0 <= digits <= 10 else None


def format_number(value: float, digits: int | None) -> str:
    """Format a number with `digits` decimals, as `decimals` returns them. None prints
    five significant digits."""
    return f"{value:.5g}" if digits is None else f"{value:.{digits}f}"


def format_interval(low: float, high: float, digits: int | None) -> str:
    """Format an interval with `digits` decimals. One that is open on a side is printed
    as a limit, and one that is open on both sides or not known as a dash.

    >>> format_interval(0.5, 2.25, 2), format_interval(0.5, float("inf"), 2)
    ('[0.50, 2.25]', '> 0.50')
    >>> format_interval(float("-inf"), float("inf"), 2)
    '-'
    """
    lowest, highest = (format_number(end, digits) for end in (low, high))
    if np.isfinite(low) and np.isfinite(high):
        return f"[{lowest}, {highest}]"
    if np.isfinite(low):
        return f"> {lowest}"
    return f"< {highest}" if np.isfinite(high) else "-"
