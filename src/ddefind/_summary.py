"""A least-squares fit on one screen: a table, and plain sentences below."""

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ._estimate import Estimate

_HEADER = ("parameter", "estimate", "std. error", "95% interval", "")
# More rows than this are not a screen.
_MOST = 40


def text_of(fit: "Estimate") -> str:
    if not np.isfinite(fit.loss):
        return fit.message
    rows = [_HEADER, *_rows(fit)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = []
    for row in rows[: 1 + _MOST]:
        cells = [row[0].ljust(widths[0])]
        cells += [row[column].rjust(widths[column]) for column in (1, 2)]
        cells += [row[3].ljust(widths[3]), row[4]]
        lines.append("  ".join(cells).rstrip())
    if len(rows) > 1 + _MOST:
        lines.append(f"... and {len(rows) - 1 - _MOST} more parameters")
    return "\n".join([*lines, "", *sentences(fit)])


def html_of(fit: "Estimate") -> str:
    if not np.isfinite(fit.loss):
        return f"<p>{escape(fit.message)}</p>"

    def row(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

    head = row(_HEADER, "th")
    body = "".join(row(cells, "td") for cells in _rows(fit))
    below = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences(fit))
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{below}"


def sentences(fit: "Estimate") -> list[str]:
    """What else there is to say."""
    count = fit.setting.count
    noise = ", ".join(f"{name} {sd:.3g}" for name, sd in fit.noise.items())
    given = "given" if fit.data.sd is not None else "estimated"
    chi = f", chi-square {fit.chi_square:.4g}" if fit.data.sd is not None else ""
    lines = [
        f"{count} values, {fit.freedom} degrees of freedom{chi}; noise ({given}): "
        f"{noise}.",
        _about_minima(fit),
        fit.message,
    ]
    reasons = dict.fromkeys(v.reason for v in fit.verdicts if v.reason)
    return [*(line for line in lines if line), *reasons]


def _about_minima(fit: "Estimate") -> str:
    found = fit.minima
    same = found[0].starts if found else 0
    text = f"{fit.starts} starts, {fit.seconds:.2g} s; "
    if len(found) <= 1:
        return f"{text}one minimum, reached {same} times."
    rise = (found[1].loss - found[0].loss) / fit.uncertainty.unit
    return (
        f"{text}{len(found)} minima, the best reached {same} times, the next "
        f"{abs(rise):.3g} {'above' if rise >= 0 else 'below'} it in chi-square."
    )


def _rows(fit: "Estimate") -> list[tuple[str, ...]]:
    rows = []
    for row in fit.summary():
        error = row["standard_error"]
        digits = _decimals(row["estimate"], error)
        low = "-inf" if row["low"] is None else _number(row["low"], digits)
        high = "inf" if row["high"] is None else _number(row["high"], digits)
        rows.append(
            (
                row["name"],
                _number(row["estimate"], digits),
                "-" if error is None else f"{error:.2g}",
                f"[{low}, {high}]",
                "" if row["verdict"] == "determined" else row["verdict"],
            )
        )
    return rows


def _decimals(value: float, error: float | None) -> int | None:
    """Two digits of the standard error; None: no fixed number of decimals."""
    if error is None or error == 0 or not 1e-5 < max(abs(value), error) < 1e7:
        return None
    digits = 1 - int(np.floor(np.log10(error)))
    return digits if 0 <= digits <= 10 else None


def _number(value: float, decimals: int | None) -> str:
    return f"{value:.5g}" if decimals is None else f"{value:.{decimals}f}"
