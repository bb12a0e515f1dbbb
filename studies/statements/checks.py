"""Checks of what a fit says, none of which uses the fit's own word."""

import re
from collections.abc import Mapping, Sequence
from math import erf, sqrt

import numpy as np
from scipy.optimize import least_squares

import ddefind as dd
from ddefind._inference.profile_intervals import profiles

from ..search_quality.integrate import integrate
from .redundant_models import RedundantCase

# A formula is right if the model's values change by less than this share of the noise
# when parameters move along it by this factor.
_SAME, _MOVE = 0.1, 1.3
# A profile has room if chi-square rises by this much on both sides.
_ROOM = 15.0
_FUNCTIONS = {"exp": np.exp}


def formulas_of(fit: dd.Estimate) -> list[list[str]]:
    """The formulas in each sentence on a combination."""
    patterns = dict.fromkeys(each.pattern for each in fit.verdicts.values())
    return [
        re.findall(r"`([^`]*)`", pattern)
        for pattern in patterns
        if pattern.startswith("Only `")
    ]


def members(formulas: Sequence[str], names: Sequence[str]) -> list[str]:
    """The names of all parameters in the formulas."""
    text = " ".join(formulas)
    return [name for name in names if re.search(_word(name), text)]


def _word(name: str) -> str:
    """A pattern of the name as a whole word."""
    return rf"(?<![\w\]]){re.escape(name)}(?![\w\[])"


def value(formula: str, values: Mapping[str, float]) -> float:
    """The value of a formula."""
    code = formula.replace("^", "**")
    for i, name in enumerate(sorted(values, key=len, reverse=True)):
        code = re.sub(_word(name), f"_v[{i}]", code)
    ordered = [values[name] for name in sorted(values, key=len, reverse=True)]
    return float(eval(code, {"_v": ordered, **_FUNCTIONS}))


def is_false(drawn: RedundantCase, fit: dd.Estimate, formulas: list[str]) -> bool:
    """Whether the model's values at the data change when its parameters move such that
    the formulas keep their values."""
    case, best = drawn.case, fit.values
    times = case.times - case.start
    before = integrate(case.text, best, times, finer=2)
    names = [n for n in members(formulas, list(best)) if n != "tau"]
    noise = np.std(case.exact, axis=0) * 0.02
    for moved_name in names:
        others = [name for name in names if name != moved_name]
        for factor in (_MOVE, 1 / _MOVE):
            moved = _moved(formulas, best, moved_name, others, factor)
            if moved is None or before is None:
                continue
            after = integrate(case.text, moved, times, finer=2)
            if after is None:
                return True
            seen = case.measured
            change = np.abs(_observed(case, after) - _observed(case, before))
            if np.any((change / noise)[:, list(seen)] > _SAME):
                return True
    return False


def _observed(case, x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.log(x) if case.observe is not None else x


def _moved(
    formulas: list[str],
    values: Mapping[str, float],
    name: str,
    others: list[str],
    factor: float,
) -> dict[str, float] | None:
    """The values with one changed, and others such that no formula changes; None if
    that is not possible."""
    targets = np.array([value(formula, values) for formula in formulas])
    start = np.array([values[other] for other in others])

    def with_shares(shares: np.ndarray) -> dict[str, float]:
        own = {name: values[name] * factor}
        return {**values, **own, **dict(zip(others, start * shares))}

    def residuals(shares: np.ndarray) -> np.ndarray:
        now = with_shares(shares)
        return np.array([value(f, now) for f in formulas]) / targets - 1

    found = least_squares(residuals, np.ones(len(others)), xtol=1e-14, ftol=1e-14)
    return with_shares(found.x) if np.max(np.abs(found.fun)) < 1e-9 else None


def is_named(drawn: RedundantCase, fit: dd.Estimate) -> bool:
    """Whether the formulas that are printed contain the expression that was put in: its
    gradient is a combination of theirs."""
    assert drawn.expression is not None
    own = members([drawn.expression], fit.names)
    for formulas in formulas_of(fit):
        names = [name for name in members(formulas, fit.names) if name != "tau"]
        if set(own) - {"tau"} <= set(names):
            theirs = np.array([_gradient(f, fit.values, names) for f in formulas])
            wanted = _gradient(drawn.expression, fit.values, names)
            coefficients, *_ = np.linalg.lstsq(theirs.T, wanted, rcond=None)
            if np.allclose(theirs.T @ coefficients, wanted, atol=1e-2):
                return True
    return False


def _gradient(
    formula: str, values: Mapping[str, float], names: Sequence[str]
) -> np.ndarray:
    """The gradient for relative changes of the values, of unit length."""
    steps = [{**values, name: values[name] * (1 + 1e-6)} for name in names]
    base = value(formula, values)
    gradient = np.array([value(formula, each) - base for each in steps])
    return gradient / np.linalg.norm(gradient)


def largest_move_of_ends(drawn: RedundantCase, fit: dd.Estimate) -> float:
    """By how much of its width a closed interval's end moves if the steps are half as
    long, at most."""
    n = fit.steps_per_delay
    again = dd.fit(
        drawn.case.model,
        drawn.case.data,
        parameters={
            name: _started(drawn, name, float(v)) for name, v in fit.values.items()
        },
        optimizer=dd.LeastSquares(starts=1),
        steps_per_delay=2 * n,
        solver=fit.solver,
        progress=False,
    )
    worst = 0.0
    for name, (low, high) in fit.intervals.items():
        if fit.verdicts[name].verdict == "not determined":
            continue
        ends = again.intervals[name]
        moved = np.abs(np.subtract(ends, (low, high))) / (high - low)
        worst = max(worst, float(np.max(np.where(np.isnan(moved), np.inf, moved))))
    return worst


def _started(drawn: RedundantCase, name: str, start: float) -> dd.Parameter:
    given = (drawn.bounds or {}).get(name)
    if given is None:
        return dd.Parameter(start)
    lower, upper = given.lower, given.upper
    # An estimate on a bound begins inside of it.
    if lower is not None and start <= lower:
        start = lower + 1e-3 * (abs(lower) or abs(drawn.case.truth[name]))
    if upper is not None and start >= upper:
        start = upper - 1e-3 * (abs(upper) or abs(drawn.case.truth[name]))
    return dd.Parameter(start, lower=lower, upper=upper)


def with_room(drawn: RedundantCase) -> set[str]:
    """The parameters whose profile of noise-free data, with the noise given, rises by
    15 on both sides."""
    case = drawn.case
    exact = np.where(np.isfinite(case.values), case.exact, np.nan)
    data = dd.Data(
        case.times - case.start, exact, sd=case.noise, names=case.model.observed
    )
    fit = dd.fit(
        case.model,
        data,
        parameters={n: _started(drawn, n, float(v)) for n, v in case.truth.items()},
        optimizer=dd.LeastSquares(starts=1),
        intervals=False,
        progress=False,
    )
    found = profiles(fit.uncertainty, erf(sqrt(_ROOM / 2)))
    return {each.name for each in found if all(each.closed)}
