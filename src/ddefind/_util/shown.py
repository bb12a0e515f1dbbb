"""Printed results: tables and sentences, as text, HTML, data frame and JSON.

A class of results derives from `AbstractShown` and makes one record, `Shown`, of tables
(`Cells`) and sentences, from which everything printed follows. The cells of a table are
texts; the `values` behind them are for data frames and JSON."""

import abc
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, final

import numpy as np


@final
@dataclass(frozen=True)
class Cells:
    """A table.

    - `header` and `rows`: its cells, with one text for each column.
    - `values`: the plain numbers and texts behind each row, by name, ready for JSON.
    - `left`: the indices of the columns that are aligned to the left, not the right.
    - `min_widths`: the least width of each column, from the first column on.
    - `most_rows`: how many rows are printed below the header. If there are more, a last
      line says how many were left out, and calls them by the `row_noun`.

    >>> table = Cells(("name", "value"), [("r", "2.5"), ("K", "10")])
    >>> print(*table.lines(), sep="\\n")
    name  value
    r       2.5
    K        10
    >>> table.html()
    '<table><thead><tr><th>name</th>...<td>10</td></tr></tbody></table>'
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    values: Sequence[Mapping[str, Any]] = ()
    left: Collection[int] = (0,)
    min_widths: Sequence[int] = ()
    most_rows: int = 40
    row_noun: str = "rows"

    def lines(self) -> list[str]:
        """Format the table as lines with aligned columns, two blanks between them."""
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows)]
        for column, least in enumerate(self.min_widths):
            widths[column] = max(widths[column], least)
        lines = []
        for row in [self.header, *self.rows[: self.most_rows]]:
            cells = [
                cell.ljust(width) if column in self.left else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths))
            ]
            lines.append("  ".join(cells).rstrip())
        left_out = len(self.rows) - self.most_rows
        if left_out > 0:
            lines.append(f"... and {left_out} more {self.row_noun}")
        return lines

    def html(self) -> str:
        """Format the whole table as HTML."""

        def row(cells: Sequence[str], tag: str) -> str:
            inner = "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)
            return f"<tr>{inner}</tr>"

        head = row(self.header, "th")
        body = "".join(row(cells, "td") for cells in self.rows)
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


@final
@dataclass(frozen=True)
class Shown:
    """The tables and sentences of a result, in the order in which they are printed. An
    empty text is an empty line between them.

    >>> table = Cells(("name", "value"), [("r", "2.5")])
    >>> print(Shown([table, "", "One value."]).text())
    name  value
    r       2.5
    <BLANKLINE>
    One value.
    """

    parts: Sequence[Cells | str]

    def text(self) -> str:
        """Format the record as lines of text."""
        lines: list[str] = []
        for part in self.parts:
            lines += part.lines() if isinstance(part, Cells) else [part]
        return "\n".join(lines)

    def html(self) -> str:
        """Format the record as HTML for notebooks: tables and paragraphs."""
        return "".join(
            part.html() if isinstance(part, Cells) else f"<p>{escape(part)}</p>"
            for part in self.parts
            if part
        )


class AbstractShown(abc.ABC):
    """A result that is printed, also in notebooks, as its `shown` says."""

    @abc.abstractmethod
    def shown(self) -> Shown:
        """Return the tables and sentences that are printed."""

    def __str__(self) -> str:
        return self.shown().text()

    def _repr_html_(self) -> str:
        return self.shown().html()


# Data frames. pandas is optional, and imported when it is needed.


def data_frame(columns: Mapping[str, Any], index: str | None = None) -> Any:
    """Return a data frame of these columns, one of which may be its `index`.

    >>> data_frame({"name": ["r", "K"], "estimate": [2.5, 10.0]}, "name").loc["K"]
    estimate    10.0
    Name: K, dtype: float64
    """
    try:
        import pandas
    except ImportError:
        raise ImportError(
            "`to_frame` needs pandas, which is not installed: pip install pandas."
        ) from None
    frame = pandas.DataFrame(dict(columns))
    return frame if index is None else frame.set_index(index)


def frame_of_rows(rows: Sequence[Mapping[str, Any]], index: str | None = None) -> Any:
    """Return a data frame of rows with the same keys, NaN where there is no number."""
    columns = {key: [row[key] for row in rows] for key in (rows[0] if rows else [])}
    if index is not None:
        columns.setdefault(index, [])
    for key, values in columns.items():
        if all(value is None or isinstance(value, float) for value in values):
            columns[key] = [float("nan") if v is None else v for v in values]
    return data_frame(columns, index)


# Numbers and lists as text


def listed(texts: Sequence[str], word: str = "and") -> str:
    """List texts in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b"], "or")
    ('a', 'a, b and c', 'a or b')
    """
    *first, last = texts
    return f"{', '.join(first)} {word} {last}" if first else last


def decimals(value: float, error: float | None) -> int | None:
    """Return how many decimals show the standard error of a value with two significant
    digits. None stands for no fixed number of decimals: there is no error, or the
    numbers are so large or so small that they are better printed with an exponent.

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
