"""Exact fits of structures: least squares on trajectories, with the delays, the inner
parameters and the history free.

All structures of a library share one compiled program (see `library.py`): a structure
only says which values are held at zero. A fit then takes milliseconds. A call fits many
structures, one in each row. The rows are cut into blocks of a fixed size, so that one
program serves any number of them, and the blocks run on a pool of threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._data.smoothing import rough_noise, smooth_or_followed, spread
from .._data.study_data import parts_of
from .._engine.aligned.path import Points
from .._search.batches import SHRINKAGE, StartTask, capacity_for, fit_one
from .._search.explore import LARGEST_REDUCED_CHI_SQUARE
from .._search.levenberg_marquardt import LIMIT, Box, Convergence, MinimiserResult
from .._search.normal_equations import LeastSquaresModel
from .._search.setup import FitSetup
from .._util.machine import cores, one_blas_thread
from .inner_parameters import InnerParameters
from .library import Library, Structure
from .terms import delay_names

# The number of fits that one call of the compiled program runs, one after the other.
_BLOCK = 4
# A fit has converged when its sum of squares falls by less than this share: the BIC of
# a thousand values then falls by a thousandth.
_CONVERGED = Convergence(reduction=1e-7, hidden=1e-5, slow=1e-6)
# Slots beyond those that structures fill, in which candidates are tried.
SPARE = 5
# The solver makes a step for each sampling interval, with these limits in the record.
_LEAST_STEPS, _MOST_STEPS = 120, 2000
# The length of a smooth history, in delays.
_LENGTH = 1.1
# Residuals below this share of the spread are errors of the solver, not of a model.
_LEAST_NOISE = 1e-4
# The evaluations of a fit at first, and of one that comes near the best.
_FEW, _MANY = 20, 120


class Rows(NamedTuple):
    """The rows of a call: the start of each, its held values, its steps of the solver,
    and the structure in its slots (see `Candidates`)."""

    theta: np.ndarray  # [rows, p]
    held: np.ndarray  # [rows, p]
    n: np.ndarray  # [rows]
    chosen: np.ndarray  # [rows, slots, terms]
    target: np.ndarray  # [rows, slots, d]


def fit_rows(
    setup: FitSetup, rows: Rows, points: Points, limit: int
) -> MinimiserResult:
    """Minimise by Levenberg-Marquardt from each row, with at most `limit` evaluations.
    Delays become shorter by no more than a factor, since the steps follow them."""
    end = float(np.max(np.asarray(points.times)))
    capacity = capacity_for(setup.model, int(rows.n.max()), end)
    lower = np.broadcast_to(setup.lower, rows.theta.shape).copy()
    if setup.model.mesh is None:
        for j in setup.model.free.delays:
            lower[:, j] = np.maximum(lower[:, j], rows.theta[:, j] / SHRINKAGE)
    upper = np.broadcast_to(setup.upper, rows.theta.shape)

    def fit_block(numbers: np.ndarray) -> MinimiserResult:
        # An incomplete block is filled with repetitions, which cost nothing with a
        # limit of zero evaluations.
        filled = np.resize(numbers, _BLOCK)
        limits = np.where(np.arange(_BLOCK) < len(numbers), limit, 0)
        block = Rows(*(array[filled] for array in rows))
        box = Box(lower[filled], upper[filled], block.held)
        found = _fit_block(setup.model, block, box, points, limits, capacity)
        return jax.tree.map(lambda a: np.asarray(a)[: len(numbers)], found)

    count = len(rows.theta)
    blocks = np.split(np.arange(count), range(_BLOCK, count, _BLOCK))
    results = in_parallel(fit_block, blocks)
    return jax.tree.map(lambda *a: np.concatenate(a), *results)


@eqx.filter_jit
def _fit_block(
    model: LeastSquaresModel,
    rows: Rows,
    box: Box,
    points: Points,
    limits: np.ndarray,
    capacity: int,
) -> MinimiserResult:
    def one(each: tuple[Rows, Box, jax.Array]) -> MinimiserResult:
        row, box, limit = each
        task = StartTask(row.theta, box, points, row.n, jnp.asarray(0.0), limit)
        filled = _with_structure(model, row.chosen, row.target)
        return fit_one(filled, task, capacity, _CONVERGED)

    return lax.map(one, (rows, box, limits))


def _with_structure(model: LeastSquaresModel, chosen: Any, target: Any):
    """Return the model with a structure in its slots, in all experiments."""

    def filled(fixed: Any, lead: tuple[int, ...]) -> Any:
        arrays = [jnp.broadcast_to(a, (*lead, *a.shape)) for a in (chosen, target)]
        return eqx.tree_at(lambda p: (p.rhs.chosen, p.rhs.target), fixed, arrays)

    study = model.experiments
    if study is not None:
        study = replace(study, fixed=filled(study.fixed, (study.count,)))
    return replace(model, fixed=filled(model.fixed, ()), experiments=study)


def in_parallel(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Call a function for many items, on all cores, and return the results."""
    if len(items) == 1 or cores() == 1:
        with one_blas_thread():
            return list(map(function, items))
    with one_blas_thread(), ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(function, items))


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
    standard deviations have their own weights. The delays are fixed if the user gave
    their value. `term_charge` is part of the scores (see `search.py`)."""

    library: Library
    inner: InnerParameters
    setup: FitSetup
    points: Points
    history: str
    slots: int
    noise: np.ndarray
    has_fixed_delays: bool
    term_charge: float

    # Places of values.

    @cached_property
    def _paths(self) -> list[str]:
        return [path.split("@")[0] for path in self.setup.model.free.paths]

    def _places(self, prefix: str) -> np.ndarray:
        return self._known_places.get(prefix, np.zeros(0, int))

    @cached_property
    def _known_places(self) -> dict[str, np.ndarray]:
        """The places of all values by the name of their array."""
        names = [path.split("[")[0] for path in self._paths]
        return {
            name: np.array([j for j, other in enumerate(names) if other == name], int)
            for name in set(names)
        }

    @cached_property
    def coefficients(self) -> np.ndarray:
        """The places of the coefficients of the slots."""
        return self._places("rhs.coefficients")

    @cached_property
    def inner_places(self) -> np.ndarray:
        """The places of the inner parameters."""
        names = self.library.parameters
        found = [self._places(f"rhs.library.{name}") for name in names]
        return np.concatenate(found) if found else np.zeros(0, int)

    @cached_property
    def delays(self) -> np.ndarray:
        """The places of the delays."""
        if self.library.delays < 2:
            return self._places("tau")
        return np.concatenate(
            [self._places(f"tau.{name}") for name in delay_names(self.library.delays)]
        )

    def history_places(self, field: str) -> np.ndarray:
        """Return the places [experiments, d] of the state at time zero, `b`, or of the
        slope before it, `a`."""
        # The values of one state in all experiments stand together.
        count = len(parts_of(self.setup.data))
        return self._places(f"history.{field}").reshape(-1, count).T

    @cached_property
    def _start(self) -> np.ndarray:
        """A vector with the history from the data, and nothing else."""
        theta = np.zeros(len(self._paths))
        curves = [smooth_or_followed(part) for part in parts_of(self.setup.data)]
        places = self.history_places("b")
        for place, curve, part in zip(places, curves, parts_of(self.setup.data)):
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
        held = np.zeros(len(self._paths), bool)
        held[self.coefficients[len(structure) :]] = True
        used = self.library.parameters_in(structure)
        unused = [name not in used for name in self.library.parameters]
        held[self.inner_places] = np.array(unused, bool) | self.inner.is_fixed
        delays = set(self.library.delays_in(structure))
        unread = [j not in delays for j in range(len(self.delays))]
        held[self.delays] = np.array(unread, bool) | self.has_fixed_delays
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
            data, levels = self.setup.data, 0
            if data.sd is None:
                levels = int(np.isfinite(data.x).any(axis=0).sum())
            self._numbers[key] = int(np.sum(~self.is_held(structure))) + levels
        return self._numbers[key]

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        """The numbers of parameters that were counted."""
        return {}

    @cached_property
    def count(self) -> int:
        """The number of measured values."""
        return int(np.isfinite(self.setup.data.x).sum())

    # Starts.

    def start(
        self,
        coefficients: np.ndarray,
        inner: np.ndarray,
        delays: Sequence[float],
    ) -> np.ndarray:
        """Return a vector of free values with the history from the data."""
        theta = self._start.copy()
        theta[self.coefficients[: len(coefficients)]] = coefficients
        theta[self.inner_places] = inner
        theta[self.delays[: len(delays)]] = delays
        if len(delays):
            theta[self._places("history.length")] = _LENGTH * max(delays)
        return np.clip(theta, self.setup.lower, self.setup.upper)

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
        theta = np.concatenate(list(starts))
        fits = self._fitted(repeated, theta, _FEW, finer)
        ends = np.cumsum([len(tried) for tried in starts])
        best = [
            min(fits[end - len(tried) : end], key=lambda each: each.score)
            for tried, end in zip(starts, ends)
        ]
        rows = [
            j
            for j, each in enumerate(best)
            if each.score < near and not each.converged and np.isfinite(each.bic)
        ]
        if rows:
            theta = np.array([best[j].theta for j in rows])
            unfinished = [structures[j] for j in rows]
            for j, each in zip(rows, self._fitted(unfinished, theta, _MANY, finer)):
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
        fits = fit_rows(self.setup, self._rows(structures, theta), points, limit)
        count = np.sum(np.asarray(points.weights) > 0)
        loss = fits.normal.gram[:, 0, 0]
        loss = np.where(np.isfinite(loss), loss, np.inf)
        return fits.theta, np.log(np.maximum(loss, 1e-300) / count)

    def linearised(
        self, structures: Sequence[Structure], theta: np.ndarray
    ) -> list[Fitted]:
        """Evaluate structures at given values, one for each row, without any fit."""
        return self._fitted(structures, theta, 1)

    def _fitted(
        self,
        structures: Sequence[Structure],
        theta: np.ndarray,
        limit: int,
        finer: int = 1,
    ) -> list[Fitted]:
        """Fit each structure from a start, with at most `limit` evaluations."""
        rows = self._rows(structures, theta, finer)
        fits = fit_rows(self.setup, rows, self.points, limit)
        normal = fits.normal
        ended = (fits.status != LIMIT) & np.isfinite(normal.gram[:, 0, 0])
        bic = [
            self.bic(structure, normal.squares[j], float(normal.gram[j, 0, 0]))
            for j, structure in enumerate(structures)
        ]
        return [
            Fitted(
                structure,
                fits.theta[j],
                normal.gram[j],
                normal.squares[j],
                self.parameters_of(structure),
                bic[j],
                bic[j] + self.term_charge * len(structure),
                bool(ended[j]),
            )
            for j, structure in enumerate(structures)
        ]

    def _rows(
        self, structures: Sequence[Structure], theta: np.ndarray, finer: int = 1
    ) -> Rows:
        """Return starts with their structures in the slots."""
        terms, states = len(self.library.terms), len(self.library.states)
        chosen = np.zeros((len(structures), self.slots, terms), int)
        target = np.zeros((len(structures), self.slots, states), int)
        for row, structure in enumerate(structures):
            for slot, (state, term) in enumerate(structure):
                chosen[row, slot, term] = target[row, slot, state] = 1
        held = np.array([self.is_held(each) for each in structures])
        return Rows(theta, held, finer * self._steps(theta), chosen, target)

    def bic(self, structure: Structure, squares: np.ndarray, loss: float) -> float:
        """Return the BIC from the sum of squares of each quantity or, for data with
        standard deviations, from the chi-square `loss`. Without a finite solution it is
        infinite."""
        data, k = self.setup.data, self.parameters_of(structure)
        counts, n = np.isfinite(data.x).sum(axis=0), self.count
        if not (np.isfinite(squares).all() and np.isfinite(loss)):
            return np.inf
        if data.sd is not None:
            return float(loss + k * np.log(n))
        least = (_LEAST_NOISE * spread(data)) ** 2 * counts
        variance = np.maximum(squares, least)[counts > 0] / counts[counts > 0]
        return float(np.sum(counts[counts > 0] * np.log(variance)) + k * np.log(n))

    def _steps(self, theta: np.ndarray) -> np.ndarray:
        """Return the steps per delay (on a mesh: in the record) that are enough for
        each sampling interval."""
        if self.setup.model.mesh is not None:
            return np.full(len(theta), int(self._steps_in_record))
        share = self.setup.delay(theta) / self.setup.data.T
        return np.clip(np.ceil(self._steps_in_record * share), 1, 250).astype(int)

    @cached_property
    def _steps_in_record(self) -> int:
        """One for each typical sampling interval."""
        times = [np.unique(part.t) for part in parts_of(self.setup.data)]
        interval = np.median(np.concatenate([np.diff(each) for each in times]))
        wanted = 1 + round(self.setup.data.T / float(interval))
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

    def with_noise(self, noise: np.ndarray) -> "Exact":
        """Return these fits with other noise levels."""
        return replace(self, noise=noise, points=self.setup.points(noise))

    @cached_property
    def least_loss(self) -> float:
        """The weighted sum of squares of residuals that are errors of the solver; next
        to nothing where the data have standard deviations, which are larger."""
        data = self.setup.data
        if data.sd is not None:
            return 1e-300
        counts = np.isfinite(data.x).sum(axis=0)
        return float(np.sum(counts * (_LEAST_NOISE * spread(data) / self.noise) ** 2))

    def noise_of(self, fitted: Fitted) -> np.ndarray:
        """Return the noise levels that the residuals of a fit show."""
        counts = np.maximum(np.isfinite(self.setup.data.x).sum(axis=0), 1)
        least = _LEAST_NOISE * spread(self.setup.data)
        return np.maximum(np.sqrt(fitted.squares / counts), least)

    def is_near(self, fitted: Fitted) -> bool:
        """Whether a fit is about as near to the data as noise allows."""
        data = self.setup.data
        if data.sd is not None:
            mean = fitted.gram[0, 0] / self.setup.count
        else:
            mean = np.mean((self.noise_of(fitted) / rough_noise(data)) ** 2)
        return bool(mean < LARGEST_REDUCED_CHI_SQUARE)
