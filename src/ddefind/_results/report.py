"""A least-squares fit on one screen: a table, and plain sentences below.

No fit is run and nothing is compiled here: a fit without intervals is printed without
them, and says so."""

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from .._adaptive.methods import AbstractAdaptive, Radau
from .._inference.identifiability import DETERMINED, reasons
from .._least_squares.search import Minimum
from .._problem.network_weights import count_weights, named_indices, without_weights
from .._shooting.process_noise import ProcessNoise
from .._util.json_numbers import nonfinite_as_none
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
_WITHOUT_INTERVALS = (
    "The intervals and the tests of the residuals were left out; "
    "`fit.with_intervals()` computes them."
)


def as_text(fit: "Estimate") -> str:
    """The table and the sentences as text."""
    if not np.isfinite(fit.loss):
        return fit.message
    lines = [*table_lines(_cells(fit), left=(0, 3, 4)), *count_weights(fit.networks)]
    return "\n".join([*lines, "", *_sentences(fit)])


def as_html(fit: "Estimate") -> str:
    """The same for notebooks."""
    if not np.isfinite(fit.loss):
        return f"<p>{escape(fit.message)}</p>"
    return html_table(_cells(fit), [*count_weights(fit.networks), *_sentences(fit)])


def as_dict(fit: "Estimate") -> dict[str, Any]:
    """The fit as plain numbers and strings."""
    return {
        "parameters": fit.values,
        "loss": nonfinite_as_none(fit.loss),
        "status": fit.status.name,
        "message": fit.message,
        "noise": fit.noise,
        "process_noise": fit.process_noise,
        "starts": fit.starts,
        "seed": fit.seed,
        "minima": [
            {
                "loss": minimum.loss,
                "starts": minimum.starts,
                "parameters": dict(zip(fit.names, minimum.theta.tolist())),
            }
            for minimum in fit.minima
        ],
        "seconds": fit.seconds,
    }


def table(fit: "Estimate") -> list[dict[str, Any]]:
    """A row of plain numbers and strings for each parameter, without the weights of
    networks; None where there is no number. Without an assessment there are no
    intervals and verdicts."""
    named = named_indices(len(fit.names), fit.networks)
    rows = _rows(fit)
    return [rows[j] for j in named]


def _rows(fit: "Estimate") -> list[dict[str, Any]]:
    """The rows of all parameters."""
    errors = fit.standard_errors if np.isfinite(fit.loss) else {}
    rows = [
        {
            "name": name,
            "estimate": value,
            "standard_error": nonfinite_as_none(errors.get(name, np.inf)),
        }
        for name, value in fit.values.items()
    ]
    if fit.assessment is None:
        return rows
    judged = zip(rows, fit.assessment.profiles, fit.assessment.verdicts)
    return [
        {
            **row,
            "low": nonfinite_as_none(profile.interval[0]),
            "high": nonfinite_as_none(profile.interval[1]),
            "verdict": verdict.verdict,
            "reason": verdict.reason,
        }
        for row, profile, verdict in judged
    ]


def _cells(fit: "Estimate") -> list[tuple[str, ...]]:
    """The printed table, with its header."""
    rows = []
    for row in table(fit):
        error = row["standard_error"]
        digits = decimals(row["estimate"], error)
        cells = (
            row["name"],
            format_number(row["estimate"], digits),
            "-" if error is None else f"{error:.2g}",
        )
        if fit.assessment is not None:
            low = -np.inf if row["low"] is None else row["low"]
            high = np.inf if row["high"] is None else row["high"]
            verdict = "" if row["verdict"] == DETERMINED else row["verdict"]
            cells += (format_interval(low, high, digits), verdict)
        rows.append(cells)
    return [_HEADER[: 3 if fit.assessment is None else 5], *rows]


def _sentences(fit: "Estimate") -> list[str]:
    """What is said below the table."""
    if fit.process is not None:
        lines = [_about_noise(fit), _about_process(fit, fit.process), fit.message]
    else:
        lines = [_about_noise(fit), *_about_histories(fit), _about_minima(fit)]
        lines += [*_about_solver(fit), fit.message]
    if fit.assessment is None:
        return [*lines, _WITHOUT_INTERVALS]
    named = named_indices(len(fit.names), fit.networks)
    said = reasons([fit.assessment.verdicts[j] for j in named])
    said = [without_weights(each, fit.names, fit.networks) for each in said]
    return [*lines, *said, *cautions(fit, fit.assessment)]


def _about_solver(fit: "Estimate") -> list[str]:
    """The solver, if it is not one with fixed steps."""
    if isinstance(fit.solver, Radau):
        return ["Solved by `Radau`, with adaptive steps, for stiff equations."]
    if isinstance(fit.solver, AbstractAdaptive):
        return [f"Solved by `{type(fit.solver).__name__}`, with adaptive steps."]
    return []


def _about_noise(fit: "Estimate") -> str:
    count = fit.setup.count
    if fit.uncertainty.noise_unknown:
        return f"{count} values, no degrees of freedom; noise unknown."
    noise = ", ".join(f"{name} {sd:.3g}" for name, sd in fit.noise.items())
    degrees = "1 degree" if fit.freedom == 1 else f"{fit.freedom} degrees"
    if fit.data.sd is None:
        return f"{count} values, {degrees} of freedom; noise (estimated): {noise}."
    chi = "" if fit.assessment is None else f", chi-square {fit.chi_square:.4g}"
    return f"{count} values, {degrees} of freedom{chi}; noise (given): {noise}."


def _about_histories(fit: "Estimate") -> list[str]:
    """Which history was chosen, and by how much; or how much of the data is past."""
    if fit.time_zero:
        return [
            f"The fit begins at t = {fit.time_zero:.4g}; the data before are its past."
        ]
    if not fit.histories:
        return []
    (chosen, _), *others = fit.histories
    listed = [f"{rise:.3g} with `{kind}`" for kind, rise in others if rise < np.inf]
    above = f"; BIC is higher by {', '.join(listed)}" if listed else ""
    return [f"History chosen by evidence: `{chosen}`{above}."]


def _about_process(fit: "Estimate", process: ProcessNoise) -> str:
    """The process noise, which is what sets a fit by multiple shooting apart."""
    named = zip(fit.state_names, process.sd.tolist())
    share = " of its level" if process.is_relative else ""
    noise = ", ".join(f"{name} {sd:.3g}{share}" for name, sd in named)
    return (
        f"Process noise (estimated), per square root of time: {noise}. By multiple "
        f"shooting; {fit.seconds:.2g} s."
    )


def _about_minima(fit: "Estimate") -> str:
    minima = _without_images(fit)
    text = f"{fit.starts} starts, {fit.seconds:.2g} s; "
    reached = _reached(minima[0].starts if minima else 0)
    if len(minima) <= 1:
        return f"{text}one minimum, {reached}."
    rise = (minima[1].loss - minima[0].loss) / fit.uncertainty.residual_variance
    where = (
        f"{rise:.3g} above it"
        if rise >= 0
        else f"with a faster history or a longer delay, {-rise:.3g} below it"
    )
    return (
        f"{text}{len(minima)} minima, the best {reached}, the next {where} in "
        "chi-square."
    )


def _without_images(fit: "Estimate") -> list[Minimum]:
    """The distinct minima. If delays can be exchanged, those that have the values of a
    better one in another order count as that one."""
    minima = list(fit.search_result.minima)
    verdicts = () if fit.assessment is None else fit.assessment.verdicts
    if not any(verdict.note for verdict in verdicts):
        return minima
    kept: list[Minimum] = []
    for minimum in minima:
        values = np.sort(minimum.theta)
        for place, other in enumerate(kept):
            if np.allclose(values, np.sort(other.theta), rtol=1e-3):
                kept[place] = other._replace(starts=other.starts + minimum.starts)
                break
        else:
            kept.append(minimum)
    return kept


def _reached(starts: int) -> str:
    """From how many independent starts a minimum was reached."""
    if starts == 0:
        return "reached only from perturbed fits"
    return "reached once" if starts == 1 else f"reached {starts} times"
