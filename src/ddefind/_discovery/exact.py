"""Exact fits of structures: least squares on trajectories, with the delays, the inner
parameters and the history free.

All structures of a library share one compiled program (see `library.py`): a structure
only says which values are held at zero. A fit then takes milliseconds. A call fits many
structures, one in each row. The rows are cut into blocks of a fixed size, so that one
program serves any number of them, and the blocks run on a pool of threads."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax

import ddefind as dd

from .._data.smoothing import rough_noise, smooth_or_followed, spread
from .._data.study_data import Records, parts_of
from .._engine.engine import Points
from .._equation.expression import Expression
from .._search.batches import StartTask, fit_one, map_in_blocks, shortest_delays
from .._search.explore import LARGEST_REDUCED_CHI_SQUARE
from .._search.levenberg_marquardt import LIMIT, Convergence, MinimiserResult
from .._search.make_setup import make_setup, make_study_setup
from .._search.normal_equations import LeastSquaresModel
from .._search.setup import FitSetup
from .._search.symmetries import rate_of
from .inner_parameters import InnerParameters, inner_parameters
from .library import (
    Candidates,
    Library,
    Structure,
    delay_names,
    make_library,
    read_terms,
)
from .proposals import WeakRecord

# The number of fits that one call of the compiled program runs, one after the other.
_BLOCK = 4
# A fit has converged when its sum of squares falls by less than this share: the BIC of
# a thousand values then falls by a thousandth.
_CONVERGED = Convergence(reduction=1e-7, hidden=1e-5, slow=1e-6)
# Slots that structures may fill: some, and others for each state. Those beyond, in
# which candidates are tried.
_SLOTS, _SLOTS_OF_STATE, SPARE = 3, 5, 5
# The solver makes a step for each sampling interval, with these limits in the record.
_LEAST_STEPS, _MOST_STEPS = 120, 2000
# The length of a smooth history, in delays, and the number of its curves.
_LENGTH, _CURVES = 1.1, 4
# Residuals below this share of the spread are errors of the solver, not of a model.
_LEAST_NOISE = 1e-4
# The evaluations of a fit at first, and of one that comes near the best.
_FEW, _MANY = 20, 120


@final
@dataclass(frozen=True)
class Question:
    """The arguments of `discover`: the data with their test functions, the candidate
    terms, the known parts of equations, the settings of parameters, the range of the
    delays, and the charge for each term."""

    states: tuple[str, ...]
    data: Records
    records: Sequence[WeakRecord]
    terms: Any
    known: Mapping[str, Expression]
    settings: Mapping[str, Any]
    bounds: tuple[float, float]
    term_charge: float

    @property
    def has_fixed_delays(self) -> bool:
        """Whether the user gave the value of the delays."""
        return self.bounds[0] == self.bounds[1]

    @property
    def rate(self) -> float:
        """How fast the states change."""
        measured = np.ones(len(self.states), bool)
        curves = [(each.curve, float(each.t[-1])) for each in self.records]
        return max(rate_of(curve, T, measured) for curve, T in curves)

    @cached_property
    def spacing(self) -> float:
        """The typical distance of two times."""
        times = [np.unique(part.t) for part in parts_of(self.data)]
        return float(np.median(np.concatenate([np.diff(each) for each in times])))

    def scan(self, most: int) -> np.ndarray:
        """Return at most `most` delays, as far apart as measurements if possible."""
        low, high = self.bounds
        if self.has_fixed_delays:
            return np.array([low])
        count = int(np.clip((high - low) / self.spacing, 6, most))
        even = np.linspace(low, high, count)
        # Between the first ones, which are far apart relative to their size.
        between = np.sqrt(even[:3] * even[1:4])
        return np.unique(np.concatenate([even, between]))


@eqx.filter_jit
def _fit_block(
    model: LeastSquaresModel, rows: Any, points: Points, limits: Any, capacity: int
) -> MinimiserResult:
    """Minimise the sums of squares of a block of rows, one after the other."""

    def one(each: Any) -> MinimiserResult:
        (theta, box, n, chosen, target), limit = each
        task = StartTask(theta, box, points, n, jnp.asarray(0.0), limit)
        filled = _with_structure(model, chosen, target)
        return fit_one(filled, task, capacity, _CONVERGED)

    return lax.map(one, (rows, limits))


def _with_structure(
    model: LeastSquaresModel, chosen: Any, target: Any
) -> LeastSquaresModel:
    """Return the model with a structure in its slots, in all experiments."""

    def filled(fixed: Any) -> Any:
        slots = fixed.rhs.chosen, fixed.rhs.target
        arrays = [jnp.broadcast_to(a, s.shape) for a, s in zip((chosen, target), slots)]
        return eqx.tree_at(lambda p: (p.rhs.chosen, p.rhs.target), fixed, arrays)

    experiments = model.experiments.with_fixed(filled)
    return replace(model, fixed=filled(model.fixed), experiments=experiments)


class Fitted(NamedTuple):
    """A structure at its best values `theta`: the normal equations there, the sum of
    squares of each quantity, the number of parameters, the BIC, the score without a
    charge for delays, and whether the fit ended before its limit of evaluations."""

    structure: Structure
    theta: np.ndarray
    gram: np.ndarray
    squares: np.ndarray
    parameters: int
    bic: float
    score: float
    converged: bool


@final
@dataclass(frozen=True)
class Exact:
    """The fits of all structures of one library with one kind of history.

    `noise` are the noise levels that weigh the quantities against each other; data with
    standard deviations have their own weights."""

    question: Question
    library: Library
    inner: InnerParameters
    setup: FitSetup
    history: str
    slots: int
    noise: np.ndarray

    @cached_property
    def points(self) -> Points:
        """The data with their weights."""
        return self.setup.points(self.noise)

    # Places of values.

    @cached_property
    def _places_of_arrays(self) -> Mapping[str, list[int]]:
        found = defaultdict[str, list[int]](list)
        for j, path in enumerate(self.setup.model.free.paths):
            found[re.split(r"[@\[]", path)[0]].append(j)
        return found

    def _places(self, *arrays: str) -> np.ndarray:
        """Return the places of the values of some arrays, by their names."""
        known = self._places_of_arrays
        return np.array([j for name in arrays for j in known.get(name, ())], int)

    @cached_property
    def coefficients(self) -> np.ndarray:
        """The places of the coefficients of the slots."""
        return self._places("rhs.coefficients")

    @cached_property
    def inner_places(self) -> np.ndarray:
        """The places of the inner parameters."""
        return self._places(*(f"rhs.library.{n}" for n in self.library.parameters))

    @cached_property
    def delays(self) -> np.ndarray:
        """The places of the delays."""
        return self._places(*self.library.delay_paths)

    def history_places(self, field: str) -> np.ndarray:
        """Return the places [experiments, d] of the state at time zero, `b`, or of the
        slope before it, `a`."""
        # The values of one state in all experiments stand together.
        count = len(parts_of(self.setup.data))
        return self._places(f"history.{field}").reshape(-1, count).T

    @cached_property
    def _start(self) -> np.ndarray:
        """A vector with the history from the data, and nothing else."""
        theta = np.zeros(len(self.setup.lower))
        for place, part in zip(self.history_places("b"), parts_of(self.setup.data)):
            curve = smooth_or_followed(part)
            if curve is None:
                theta[place] = np.nanmean(part.x, axis=0)
            else:
                theta[place] = curve.x(part.t[:1])[0]
        theta[self.inner_places] = self.inner.typical
        lower, upper = self.setup.lower[self.delays], self.setup.upper[self.delays]
        theta[self.delays] = np.sqrt(lower * upper)
        theta[self._places("history.length")] = self.setup.data.T / 3
        return theta

    # Which values are free.

    def is_held(self, structure: Structure) -> np.ndarray:
        """Return which values a structure does not use."""
        held = np.zeros(len(self.setup.lower), bool)
        held[self.coefficients[len(structure) :]] = True
        used, known = self.library.parameters_in(structure), self.library.parameters
        is_unused = ~np.isin(known, used)
        held[self.inner_places] = is_unused | self.inner.is_fixed
        delays = self.library.delays_in(structure)
        is_unread = ~np.isin(np.arange(len(self.delays)), delays)
        held[self.delays] = is_unread | self.question.has_fixed_delays
        held[self._places("history.length")] = True
        if not delays:
            held[self._places("history.a")] = True
        if not delays or self.history == "affine":
            held[self._places("history.c")] = True
        return held

    def parameters_of(self, structure: Structure) -> int:
        """Return the number of free parameters, with the noise levels."""
        library = self.library
        used = library.delays_in(structure), library.parameters_in(structure)
        key = len(structure), *used
        if key not in self._numbers:
            levels = 0 if self.setup.data.sd is not None else np.sum(self._counts > 0)
            self._numbers[key] = int(np.sum(~self.is_held(structure)) + levels)
        return self._numbers[key]

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        """The numbers of parameters that were counted."""
        return {}

    # Starts.

    def start(
        self, coefficients: np.ndarray, inner: np.ndarray, delays: Sequence[float]
    ) -> np.ndarray:
        """Return a vector of free values with the history from the data."""
        theta = self._start.copy()
        theta[self.coefficients[: len(coefficients)]] = coefficients
        theta[self.inner_places] = inner
        theta[self.delays[: len(delays)]] = delays
        if len(delays):
            theta[self._places("history.length")] = _LENGTH * max(delays)
        return np.clip(theta, self.setup.lower, self.setup.upper)

    def start_from(self, other: "Exact", fit: Fitted) -> np.ndarray:
        """Return a start at the values of a fit of another library or history."""
        known = dict(zip(other.library.parameters, fit.theta[other.inner_places]))
        pairs = zip(self.library.parameters, self.inner.typical)
        inner = np.array([known.get(name, typical) for name, typical in pairs])
        coefficients = fit.theta[other.coefficients[: len(fit.structure)]]
        return self.start(coefficients, inner, other.delays_of(fit).tolist())

    def delays_of(self, fit: Fitted) -> np.ndarray:
        """Return the delays that a fit reads."""
        return fit.theta[self.delays[list(self.library.delays_in(fit.structure))]]

    # Fits.

    def fit(self, structure: Structure, starts: np.ndarray) -> Fitted:
        """Return the best fit of a structure from several starts."""
        return self.fit_all([structure], [starts])[0]

    def fit_all(
        self,
        structures: Sequence[Structure],
        starts: Sequence[np.ndarray],
        near: float = np.inf,
        finer: int = 1,
    ) -> list[Fitted]:
        """Return the best fit of each structure, from several starts each. Fits whose
        score is not below `near` after a few evaluations are given up. The solver's
        steps are `finer` by a factor."""
        if not structures:
            return []
        repeated = [s for s, tried in zip(structures, starts) for _ in tried]
        fits = iter(self.fitted(repeated, np.concatenate(list(starts)), _FEW, finer))
        best = [
            min(islice(fits, len(tried)), key=lambda each: each.score)
            for tried in starts
        ]
        rows = [
            j
            for j, each in enumerate(best)
            if each.score < near and not each.converged and np.isfinite(each.bic)
        ]
        if rows:
            theta = np.array([best[j].theta for j in rows])
            unfinished = [structures[j] for j in rows]
            for j, each in zip(rows, self.fitted(unfinished, theta, _MANY, finer)):
                best[j] = each
        return best

    def glance(
        self,
        structures: Sequence[Structure],
        theta: np.ndarray,
        share: float,
        limit: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Make a short fit to a `share` of the record from each row. Return the values,
        and the logarithm of the mean squares as a rough score."""
        points = self._early(share)
        fits = self._minimised(structures, theta, points, limit)
        count = np.sum(np.asarray(points.weights) > 0)
        loss = fits.normal.gram[:, 0, 0]
        loss = np.where(np.isfinite(loss), loss, np.inf)
        return fits.theta, np.log(np.maximum(loss, 1e-300) / count)

    def fitted(
        self,
        structures: Sequence[Structure],
        theta: np.ndarray,
        limit: int,
        finer: int = 1,
    ) -> list[Fitted]:
        """Fit each structure from a start, with at most `limit` evaluations; with one
        evaluation, linearise it there."""
        fits = self._minimised(structures, theta, self.points, limit, finer)
        normal, found = fits.normal, []
        ended = (fits.status != LIMIT) & np.isfinite(normal.gram[:, 0, 0])
        for j, structure in enumerate(structures):
            gram, squares = normal.gram[j], normal.squares[j]
            parameters = self.parameters_of(structure)
            bic = self._bic(parameters, squares, float(gram[0, 0]))
            score = bic + self.question.term_charge * len(structure)
            numbers = parameters, bic, score, bool(ended[j])
            found.append(Fitted(structure, fits.theta[j], gram, squares, *numbers))
        return found

    def _minimised(
        self,
        structures: Sequence[Structure],
        theta: np.ndarray,
        points: Points,
        limit: int,
        finer: int = 1,
    ) -> MinimiserResult:
        """Minimise by Levenberg-Marquardt from each row, with at most `limit`
        evaluations. Delays become shorter by no more than a factor, since the steps
        follow them."""
        setup, count, n = self.setup, len(theta), finer * self._steps(theta)
        chosen = np.zeros((count, self.slots, len(self.library.terms)), int)
        target = np.zeros((count, self.slots, len(self.library.states)), int)
        for row, structure in enumerate(structures):
            for slot, (state, term) in enumerate(structure):
                chosen[row, slot, term] = target[row, slot, state] = 1
        held = np.array([self.is_held(each) for each in structures])
        box = setup.box(count, held)._replace(lower=shortest_delays(setup, theta))
        rows = theta, box, n, chosen, target
        end = float(np.max(np.asarray(points.times)))
        capacity = setup.model.engine.capacity(int(n.max()), end)

        def fit_block(block: Any, is_new: np.ndarray) -> MinimiserResult:
            # Repetitions cost nothing with a limit of zero evaluations.
            limits = np.where(is_new, limit, 0)
            return _fit_block(setup.model, block, points, limits, capacity)

        return map_in_blocks(fit_block, rows, setup.workers, _BLOCK)

    def _bic(self, parameters: int, squares: np.ndarray, loss: float) -> float:
        """Return the BIC from the sum of squares of each quantity or, for data with
        standard deviations, from the chi-square `loss`. Without a finite solution it is
        infinite."""
        if not (np.isfinite(squares).all() and np.isfinite(loss)):
            return np.inf
        charge = parameters * np.log(self.setup.count)
        if self.setup.data.sd is not None:
            return float(loss + charge)
        counts = self._counts
        variance = np.maximum(squares, self._least_noise**2 * counts)[counts > 0]
        variance = variance / counts[counts > 0]
        return float(np.sum(counts[counts > 0] * np.log(variance)) + charge)

    def _steps(self, theta: np.ndarray) -> np.ndarray:
        """Return the numbers of steps that are enough for each sampling interval."""
        setup, count = self.setup, int(self._steps_in_record)
        given = setup.delay, theta, setup.data.T, count
        return setup.model.engine.steps_in_record(*given)

    @cached_property
    def _steps_in_record(self) -> int:
        """One for each typical sampling interval."""
        wanted = 1 + round(self.setup.data.T / self.question.spacing)
        times = [np.unique(part.t) for part in parts_of(self.setup.data)]
        least = max(_LEAST_STEPS, *map(len, times))
        return min(max(wanted, least), max(_MOST_STEPS, least))

    def _early(self, share: float) -> Points:
        """Return the points with no weight after the first `share` of each record."""
        times, weights = np.array(self.points.times), np.array(self.points.weights)
        first = 0
        for part in parts_of(self.setup.data):
            rows = slice(first, first + len(part.t))
            begin = part.t[0]
            end = begin + share * (part.t[-1] - begin)
            weights[rows][times[rows] > end] = 0.0
            times[rows] = np.minimum(times[rows], end)
            first = rows.stop
        return self.points._replace(times=times, weights=weights)

    @cached_property
    def _counts(self) -> np.ndarray:
        """The number of values of each quantity."""
        return np.isfinite(self.setup.data.x).sum(axis=0)

    @cached_property
    def _least_noise(self) -> np.ndarray:
        """The residuals of each quantity that are errors of the solver."""
        return _LEAST_NOISE * spread(self.setup.data)

    @cached_property
    def least_loss(self) -> float:
        """The weighted sum of squares of residuals that are errors of the solver; next
        to nothing where the data have standard deviations, which are larger."""
        if self.setup.data.sd is not None:
            return 1e-300
        return float(np.sum(self._counts * (self._least_noise / self.noise) ** 2))

    def noise_of(self, fitted: Fitted) -> np.ndarray:
        """Return the noise levels that the residuals of a fit show."""
        levels = np.sqrt(fitted.squares / np.maximum(self._counts, 1))
        return np.maximum(levels, self._least_noise)

    def is_near(self, fitted: Fitted) -> bool:
        """Whether a fit is about as near to the data as noise allows."""
        data = self.setup.data
        if data.sd is not None:
            mean = fitted.gram[0, 0] / self.setup.count
        else:
            mean = np.mean((self.noise_of(fitted) / rough_noise(data)) ** 2)
        return bool(mean < LARGEST_REDUCED_CHI_SQUARE)


def make_exact(question: Question, delays: int, history: str) -> Exact:
    """Return the fits of the equations with this number of `delays`."""
    terms = read_terms(question.terms, question.states, delays)
    library = make_library(question.states, terms, delays, question.known)
    inner = inner_parameters(library, question.data.x, question.rate, question.settings)
    data, (low, high), d = question.data, question.bounds, len(library.states)
    slots, zeros = _SLOTS + SPARE + _SLOTS_OF_STATE * d, np.zeros(d)
    if history == "constant":
        past: Any = dd.Constant(zeros)
    elif isinstance(data, dd.Data):
        # A straight line is a smooth curve that is not bent, by the same program.
        past = dd.Smooth(zeros, zeros, np.zeros((_CURVES, d)), data.T / 3)
    else:
        past = dd.Affine(zeros, zeros)
    rhs = Candidates(
        library.module,
        jnp.zeros(slots),
        jnp.zeros((slots, len(terms)), int),
        jnp.zeros((slots, d), int),
        library.fragile,
    )
    tau = 1.0 if delays < 2 else dict.fromkeys(delay_names(delays), 1.0)
    problem = dd.Problem(rhs, past, tau)
    settings = {
        f"rhs.library.{name}": dd.Parameter(lower=lower, upper=upper)
        for name, lower, upper in zip(inner.names, inner.lower, inner.upper)
    }
    if question.has_fixed_delays:
        low, high = 0.999 * low, 1.001 * high
    delay = dd.Parameter(lower=low, upper=high)
    settings |= dict.fromkeys(library.delay_paths, delay)
    how = dd.RK4(), 10, 0
    if isinstance(data, dd.Data):
        setup, _ = make_setup(problem, data, settings, *how)
    else:
        problems = [problem] * len(data.parts)
        known = [{} for _ in data.parts]
        setup, _ = make_study_setup(problems, data, settings, known, *how)
    return Exact(question, library, inner, setup, history, slots, rough_noise(data))
