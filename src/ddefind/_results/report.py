"""A least-squares fit on one screen: a table, and plain sentences below."""

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from .._inference.identifiability import reasons
from .._util.text_table import (
    decimals,
    format_interval,
    format_number,
    html_table,
    table_lines,
)
from .cautions import cautions

if TYPE_CHECKING:
    from .estimate import Estimate

_HEADER = ("parameter", "estimate", "std. error", "95% interval", "")


def text_of(fit: "Estimate") -> str:
    if not np.isfinite(fit.loss):
        return fit.message
    table = table_lines([_HEADER, *_rows(fit)], left=(0, 3, 4))
    return "\n".join([*table, "", *sentences(fit)])


def html_of(fit: "Estimate") -> str:
    if not np.isfinite(fit.loss):
        return f"<p>{escape(fit.message)}</p>"
    return html_table([_HEADER, *_rows(fit)], sentences(fit))


def sentences(fit: "Estimate") -> list[str]:
    """What else there is to say."""
    lines = [_about_noise(fit), _about_minima(fit), fit.message]
    return [*lines, *reasons(fit.verdicts), *cautions(fit)]


def _about_noise(fit: "Estimate") -> str:
    noise = ", ".join(f"{name} {sd:.3g}" for name, sd in fit.noise.items())
    given = "given" if fit.data.sd is not None else "estimated"
    chi = f", chi-square {fit.chi_square:.4g}" if fit.data.sd is not None else ""
    if fit.uncertainty.noise_unknown:
        return f"{fit.setup.count} values, no degrees of freedom; noise unknown."
    degrees = "1 degree" if fit.freedom == 1 else f"{fit.freedom} degrees"
    return (
        f"{fit.setup.count} values, {degrees} of freedom{chi}; noise ({given}): "
        f"{noise}."
    )


def _about_minima(fit: "Estimate") -> str:
    found = fit.search_result.minima
    text = f"{fit.starts} starts, {fit.seconds:.2g} s; "
    reached = _reached(found[0].starts if found else 0)
    if len(found) <= 1:
        return f"{text}one minimum, {reached}."
    rise = (found[1].loss - found[0].loss) / fit.uncertainty.unit
    where = (
        f"{rise:.3g} above it"
        if rise >= 0
        else f"with a faster history or a longer delay, {-rise:.3g} below it"
    )
    return (
        f"{text}{len(found)} minima, the best {reached}, the next {where} in "
        "chi-square."
    )


def _reached(starts: int) -> str:
    """From how many starts a minimum was reached; others were not followed so far."""
    if starts == 0:
        return "found by changing others"
    return "reached once" if starts == 1 else f"reached {starts} times"


def _rows(fit: "Estimate") -> list[tuple[str, ...]]:
    rows = []
    for row in fit.summary():
        error = row["standard_error"]
        digits = decimals(row["estimate"], error)
        low = -np.inf if row["low"] is None else row["low"]
        high = np.inf if row["high"] is None else row["high"]
        rows.append(
            (
                row["name"],
                format_number(row["estimate"], digits),
                "-" if error is None else f"{error:.2g}",
                format_interval(low, high, digits),
                "" if row["verdict"] == "determined" else row["verdict"],
            )
        )
    return rows
