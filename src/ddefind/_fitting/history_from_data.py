r"""Histories chosen by the data: `history="auto"` and `history="data"`.

With `"auto"`, fits with several kinds of history are compared. The data see the history
through one delay only. A history that is too simple for it distorts all estimates; one
that has more freedom than needed makes them less precise. The choice is by BIC, among
all minima of all kinds. The BIC is without the terms that all models of the same data
share, with k as the number of parameters that the data determine:
$k = \mathrm{tr}\,[(J^T W J + P)^{-1} J^T W J]$ with the weights P of the priors.

With `"data"`, the measured beginning of a record is the past. A smoothing spline
through the data is taken as the history, and the equation is fitted to the record from
the longest delay on. The state at that time is learned. The solver's time zero is moved
there; results keep the times of the data."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import numpy as np

from .._data.data import Data
from .._data.smoothing import Curve, smooth
from .._equation.equation import Equation, equation
from .._problem.delays import is_delay
from .._problem.history import KINDS, Measured
from .._problem.parameters import Fixed, Parameter, find, parameter_arrays
from .._results.estimate import Estimate
from .._search.batches import RefinedFits, SearchResult, refine
from .._search.misfit import PHASES
from .._search.other_history import free_values, moved_to, with_more_starts
from .._search.setup import FitSetup
from .._util import wording
from .._util.progress import Progress, Reporter
from .least_squares import LeastSquares, completed
from .method import AbstractMethod
from .read_tasks import one_task
from .request import FitOptions, by_full_names

# The kinds that are compared.
_COMPARED = tuple(kind for kind, cls in KINDS.items() if cls.is_compared)
# The number of times during a delay at which histories are compared.
_SAMPLES = 41
# The longer a delay is, the more of the record a history can fill; and of many fast
# sines one always follows the noise. A delay more than twice as long as that of another
# minimum, and a history with more than one cycle in a delay, are chosen on very strong
# evidence only: BIC must be lower by this.
_LONG_PENALTY = _FAST_PENALTY = 10.0


class _Candidate(NamedTuple):
    """A minimum of the fit with one kind of history: its number in that fit's list, and
    its BIC with the penalty of a fast sine."""

    kind: str
    number: int
    theta: np.ndarray
    delay: float
    bic: float


def fit_with_history(
    kind: str,
    model: Equation,
    data: Data,
    optimizer: AbstractMethod | None,
    options: FitOptions,
) -> Estimate:
    """Fit with the history that has most evidence, or the measured past as history."""
    if not isinstance(optimizer, LeastSquares | None):
        raise ValueError(
            f"{wording.history(kind)} is for least squares: leave out "
            f"{wording.METHOD}, or choose another history."
        )
    if kind == "data" and (model.inputs or model.doses is not None):
        raise ValueError(
            f"{wording.history('data')} moves time zero into the record, but the times "
            "of inputs and doses are counted from the beginning. Choose another "
            "history."
        )
    method = optimizer or LeastSquares()
    method.check(options)
    constant = model.with_history("constant")
    # A name may mean something else where another history has it, too.
    parameters = by_full_names(constant.blank, options.parameters)
    labels = _COMPARED if kind == "auto" else ("first fit", "second fit")
    steps = len(labels) * len(PHASES) + 1
    with Reporter(options.progress, steps, 1) as reporter:
        fits = _Fits(method, options, labels, reporter)
        if kind == "auto":
            best = _choose_history(model, data, parameters, fits)
        else:
            matched = data.select(model.observed)
            best = _fit_after_past(constant, matched, parameters, fits)
        return completed(best, options, reporter)


@final
class _Fits:
    """Fits of one call, one after the other, which share a bar."""

    def __init__(
        self,
        method: LeastSquares,
        options: FitOptions,
        labels: tuple[str, ...],
        reporter: Reporter,
    ):
        self.method, self.options, self.reporter = method, options, reporter
        self.labels = iter(enumerate(labels))

    def fit(
        self, model: Equation, data: Data, parameters: dict[str, Any], solver: Any
    ) -> Estimate:
        """Fit a model whose history is known, without intervals, with settings of the
        parameters by full names and a solver (None: the fit chooses it)."""
        number, label = next(self.labels)

        def report(now: Progress) -> None:
            phase, step = f"{label}: {now.phase}", number * len(PHASES) + now.epoch
            self.reporter.show(phase, step, 0, now.loss, now.tau, now.message)

        plain = replace(
            self.options,
            intervals=False,
            parameters=parameters,
            progress=report,
            solver=self.options.solver if solver is None else solver,
        )
        return self.method.fit(one_task(model, data, plain), plain)


def _choose_history(
    model: Equation, data: Data, parameters: dict[str, Any], fits_of: _Fits
) -> Estimate:
    """Return the fit, without intervals, whose history has most evidence. The first fit
    chooses the solver, and the others take the same."""
    fits: dict[str, Estimate] = {}
    solver = None
    for kind in _COMPARED:
        fits[kind] = fits_of.fit(model.with_history(kind), data, parameters, solver)
        solver = fits[kind].solver
        if fits[kind].search_result.interrupted:
            break
    fits = {kind: _with_starts_of(fits, kind) for kind in fits}
    candidates = [each for kind in fits for each in _candidates(kind, fits[kind])]
    if not candidates:
        return fits["constant"]
    scores = [_score(each, candidates) for each in candidates]
    chosen = candidates[int(np.argmin(scores))]
    of_kind = {
        kind: min(
            (s for c, s in zip(candidates, scores) if c.kind == kind), default=np.inf
        )
        for kind in fits
    }
    lowest = of_kind[chosen.kind]
    order = sorted(of_kind, key=lambda kind: of_kind[kind])
    histories = tuple((kind, float(of_kind[kind] - lowest)) for kind in order)
    seconds = sum(fit.seconds for fit in fits.values())
    best = fits[chosen.kind]
    if chosen.number:
        setup, minimum = best.setup, best.search_result
        best = best.at(moved_to(setup, minimum, chosen.theta, best.seed))
    origin = best.origin._replace(histories=histories, seconds=seconds)
    return replace(best, origin=origin)


def _with_starts_of(fits: dict[str, Estimate], kind: str) -> Estimate:
    """Search on from what the fits with other kinds of history found."""
    fit = fits[kind]
    if not np.isfinite(fit.loss):
        return fit
    others = [fits[other] for other in fits if other != kind]
    rows = [row for other in others for row in _as_starts(fit, other)]
    if not rows:
        return fit
    before = fit.search_result
    return fit.at(with_more_starts(fit.setup, before, np.array(rows), fit.seed))


def _as_starts(fit: Estimate, other: Estimate) -> list[np.ndarray]:
    """Return the best parameters of `other` as starts of `fit`, with histories that are
    similar during the longest delay."""
    if not np.isfinite(other.loss):
        return []
    delay = float(other.setup.delay(other.best[None])[0])
    t = np.linspace(-delay, 0.0, _SAMPLES)
    x = np.stack([np.asarray(other.problem.history(each)) for each in t])
    return [
        free_values(fit.setup, eqx.tree_at(lambda p: p.history, other.problem, past))
        for past in fit.problem.history.nearest(t, x)
    ]


def _candidates(kind: str, fit: Estimate) -> list[_Candidate]:
    if not np.isfinite(fit.loss):
        return []
    minima = _at_minima(fit.setup, fit.search_result)
    delays, bics = fit.setup.delay(minima.theta), _evidence(fit.setup, minima)
    cycles = minima.theta * delays[:, None] / (2 * np.pi)
    is_fast = np.any(fit.setup.is_frequency & (cycles > 1), axis=1)
    bics = bics + _FAST_PENALTY * is_fast
    rows = zip(range(len(bics)), minima.theta, delays.tolist(), bics.tolist())
    return [_Candidate(kind, *row) for row in rows]


def _at_minima(setup: FitSetup, result: SearchResult) -> RefinedFits:
    """Return all minima of a search with their normal equations, best first."""
    others = np.array([m.theta for m in result.minima[1:]])
    if not len(others):
        return result.best
    n = np.full(len(others), int(result.best.n[0]))
    return result.best.join(refine(setup, others, result.points, n, limit=1))


def _evidence(setup: FitSetup, fits: RefinedFits) -> np.ndarray:
    """Compute the BIC of each fit up to a constant of the data; lower is better."""
    k = [
        setup.effective_dimension(gram[1:, 1:]) if np.all(np.isfinite(gram)) else np.inf
        for gram in fits.gram
    ]
    bic = setup.misfit.deviances(setup, fits) + np.log(setup.count) * np.array(k)
    return np.where(np.isfinite(fits.loss), bic, np.inf)


def _score(candidate: _Candidate, others: list[_Candidate]) -> float:
    """Return the BIC with the penalty of a long delay."""
    has_shorter = any(
        other.delay < candidate.delay / 2 and other.bic < candidate.bic + _LONG_PENALTY
        for other in others
    )
    return candidate.bic + _LONG_PENALTY * has_shorter


# Delays are sought up to this share of the record, unless the user says otherwise; what
# is left must suffice to fit.
_LONGEST = 1 / 3
# A minimum with a shorter delay fits not much worse if its sum of squares is at most
# this multiple of the lowest.
_NOT_MUCH_WORSE = 2.0
# The second fit begins this multiple of the delay that the first one found after the
# beginning of the record.
_MARGIN = 1.5


def _fit_after_past(
    constant: Equation, data: Data, parameters: Mapping[str, Any], fits: _Fits
) -> Estimate:
    """Fit a model, given with a constant history, to the record from the longest delay
    on. `parameters` are the user's settings by full names.

    Unless the user limits the delays, there are two fits: the delays that the first one
    finds tell how much of the record the past needs."""
    curve = _checked_curve(constant, data)
    settings = by_full_names(constant.blank, constant.settings) | dict(parameters)
    span = _LONGEST * (data.T - data.t[0])
    longest, bounds = _longest_delay(constant, settings, span)
    first = _fit_from(constant, data, curve, longest, settings | bounds, fits, None)
    if not bounds or not np.isfinite(first.loss):
        return first
    found = _MARGIN * _shortest_found(first)
    if found >= longest:
        return first
    longest, bounds = _longest_delay(constant, settings, found)
    settings |= bounds
    second = _fit_from(constant, data, curve, longest, settings, fits, first.solver)
    seconds = first.seconds + second.seconds
    return replace(second, origin=second.origin._replace(seconds=seconds))


def _shortest_found(fit: Estimate) -> float:
    """Return the longest delay of the best minimum; or of one where it is less than
    half as long, and which fits not much worse.

    Where data oscillate, a delay that is longer by a period fits as well. It even fits
    better, since more of the trajectory then follows the smoothed data."""
    minima = fit.search_result.minima
    delays = fit.setup.delay(np.array([minimum.theta for minimum in minima]))
    losses = np.array([minimum.loss for minimum in minima])
    fits_well = losses <= _NOT_MUCH_WORSE * losses[0]
    shorter = delays[fits_well & (delays < delays[0] / 2)]
    return float(np.min(shorter, initial=delays[0]))


def _checked_curve(model: Equation, data: Data) -> Curve:
    """Return the smooth curve through the data, which must have all states."""
    if model.depends_on_time:
        raise ValueError(
            f"The equation contains the time t, but {wording.history('data')} moves "
            "the time at which it begins. Choose another history, as "
            f"{wording.history('spline')}."
        )
    if model.lines.of("initial"):
        line = model.lines.of("initial")[0]
        raise ValueError(
            f"The text gives a value at time zero ({line}), but with "
            f"{wording.history('data')} the equation begins later. Remove the line, or "
            "choose another history."
        )
    measured = np.isfinite(data.x).sum(axis=0)
    lacking = [n for n, count in zip(data.names, measured) if count < 5]
    curve = None if lacking or model.lines.observe else smooth(data)
    if curve is None:
        few = ", ".join(lacking) or ", ".join(model.states)
        raise ValueError(
            f"With {wording.history('data')} the measured beginning is the past, so "
            "that every state must be measured, at five times or more; it is not for: "
            f"{few}. "
            f"Choose another history, as {wording.history('spline')}."
        )
    return curve


def _longest_delay(
    model: Equation, settings: Mapping[str, Any], default: float
) -> tuple[float, dict[str, Any]]:
    """Return the longest possible delay, and settings with the upper bound `default`
    for the delays to which the user gives none."""
    blank = model.blank
    arrays = parameter_arrays(blank)
    leaves = jax.tree.leaves(blank.tau, is_leaf=is_delay)
    lengths = [default] if any(map(is_delay, leaves)) else []
    bounds: dict[str, Any] = {}
    for array in (each for each in arrays if each.is_delay):
        keys = [k for k in settings if array.first in find(k, arrays)]
        setting = settings[keys[0]] if keys else Parameter()
        if not isinstance(setting, Parameter | Fixed):
            setting = Parameter(start=setting)
        if isinstance(setting, Fixed):
            value = setting.value
            lengths.append(float(np.max(blank.tau if value is None else value)))
        elif setting.upper is not None and np.isfinite(setting.upper):
            lengths.append(float(setting.upper))
        else:
            lengths.append(default)
            bounds[array.name] = replace(setting, upper=default)
    return max(lengths), bounds


def _fit_from(
    model: Equation,
    data: Data,
    curve: Curve,
    longest: float,
    settings: Mapping[str, Any],
    fits: _Fits,
    solver: Any,
) -> Estimate:
    """Fit to the record after the time `longest` from its beginning."""
    zero = float(data.t[0]) + longest
    is_later = data.t >= zero
    if len(np.unique(data.t[is_later])) < 2:
        raise ValueError(
            f"The delay may be as long as {longest:g}, but the record from t = "
            f"{zero:g} on has fewer than two times. Give the delay a smaller "
            f"upper bound {wording.BOUNDS}."
        )
    later = data.with_fields(
        t=data.t[is_later] - zero,
        x=data.x[is_later],
        sd=None if data.sd is None else data.sd[is_later],
        below=None if data.below is None else data.below[is_later],
    )
    text, names = model.texts[0], _start_names(model)
    lines = [f"{state}(0) = {name}" for state, name in zip(model.states, names)]
    past = _past(curve, zero)
    begun = equation("; ".join([text, *lines]), history=past, networks=model.networks)
    at_zero = curve.x(np.array([zero]))[0].tolist()
    starts = {f"initial.{name}": value for name, value in zip(names, at_zero)}
    held = {f"history.{name}": Fixed() for name in vars(past)}
    return fits.fit(begun, later, {**settings, **starts, **held}, solver)


def _start_names(model: Equation) -> list[str]:
    """Return names, new to the equation, for the states at which the fit begins."""
    taken, ending = {*model.names, *model.states}, "_0"
    while any(f"{state}{ending}" in taken for state in model.states):
        ending += "0"
    return [f"{state}{ending}" for state in model.states]


def _past(curve: Curve, zero: float) -> Measured:
    """Return the curve before `zero` as a history. The second derivative of a cubic
    spline is linear between its knots, so that it can be divided at those of others."""
    knots = np.unique(np.concatenate([spline.t for spline in curve.splines]))
    knots = knots[: max(int(np.searchsorted(knots, zero)) + 1, 2)]
    second = [np.interp(knots, spline.t, spline.second) for spline in curve.splines]
    return Measured(
        knots=knots - zero,
        x=np.stack([spline(knots) for spline in curve.splines], axis=1),
        second=np.stack(second, axis=1),
        lowest=curve.lowest,
        highest=curve.highest,
        zero=zero,
    )
