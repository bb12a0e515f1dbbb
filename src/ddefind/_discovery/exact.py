"""Exact fits of structures: least squares on trajectories, with the delays, the inner
parameters and the history free.

All structures of a library share one compiled program (see `library.py`): a structure
only says which values are held at zero. A fit then takes milliseconds."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._data.data import Data
from .._data.smoothing import rough_noise, smooth, spread
from .._data.study_data import Records, parts_of
from .._least_squares.batches import RefinedFits, refine
from .._least_squares.make_setup import make_setup
from .._least_squares.setup import FitSetup
from .._least_squares.study_setup import make_study_setup
from .._loss.path_costs import Points
from .._problem.history import Affine, Constant, Smooth
from .._problem.parameters import Parameter
from .._problem.problem import Problem
from .._solve.runge_kutta import RK4
from .._util.blas_threads import one_blas_thread
from .._util.cores import cores
from .inner_parameters import InnerParameters
from .library import Candidates, Library, Structure
from .terms import delay_names

# Slots beyond those that structures fill, in which candidates are tried.
SPARE = 5
# Steps of the solver in a sampling interval.
_STEPS = 1.0
# The number of curves of a smooth history, and its length in delays.
_CURVES, _LENGTH = 4, 1.1
# The evaluations of a fit at first, and of one that comes near the best.
_FEW, _MANY = 20, 120


class Fitted(NamedTuple):
    """A structure at its best parameters: the free values `theta`, the normal equations
    there, the sums of squares of each quantity, the number of parameters, the BIC, and
    whether the fit converged."""

    structure: Structure
    theta: np.ndarray
    gram: np.ndarray
    squares: np.ndarray
    parameters: int
    bic: float
    converged: bool


@final
@dataclass(frozen=True)
class Exact:
    """The fits of all structures of one library with one kind of history.

    `noise` are the noise levels that weigh the quantities against each other; data with
    standard deviations have their own weights."""

    library: Library
    inner: InnerParameters
    setup: FitSetup
    points: Points
    history: str
    slots: int
    noise: np.ndarray

    # Places of values.

    @cached_property
    def _paths(self) -> list[str]:
        return [path.split("@")[0] for path in self.setup.model.free.paths]

    def _places(self, prefix: str) -> np.ndarray:
        return np.array(
            [j for j, p in enumerate(self._paths) if p.split("[")[0] == prefix], int
        )

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

    @cached_property
    def _start(self) -> np.ndarray:
        """A vector with the history from the data, and nothing else."""
        theta = np.zeros(len(self._paths))
        curves = [smooth(part) for part in parts_of(self.setup.data)]
        places = self._places("history.b").reshape(len(curves), -1)
        for own, curve, part in zip(places, curves, parts_of(self.setup.data)):
            first = np.zeros(1) if curve is None else part.t[:1]
            x = np.nanmean(part.x, axis=0) if curve is None else curve.x(first)[0]
            theta[own] = x
        theta[self.inner_places] = self.inner.typical
        lower, upper = self.setup.lower[self.delays], self.setup.upper[self.delays]
        theta[self.delays] = np.sqrt(lower * upper)
        length = self._places("history.length")
        theta[length] = self.setup.data.T / 3
        return theta

    # Which values are free.

    def is_held(self, structure: Structure) -> np.ndarray:
        """Which values a structure does not use."""
        held = np.zeros(len(self._paths), bool)
        held[self.coefficients[len(structure) :]] = True
        used = self.library.parameters_in(structure)
        unused = [name not in used for name in self.library.parameters]
        held[self.inner_places] = np.array(unused, bool)
        delays = set(self.library.delays_in(structure))
        unread = [j not in delays for j in range(len(self.delays))]
        held[self.delays] = np.array(unread, bool)
        held[self._places("history.length")] = True
        if not delays:
            held[self._places("history.a")] = True
            held[self._places("history.c")] = True
        fixed = self.setup.lower == self.setup.upper
        return held | fixed

    def parameters_of(self, structure: Structure) -> int:
        """The number of free parameters, those of the noise among them."""
        levels = 0 if self.setup.data.sd is not None else self._levels
        return int(np.sum(~self.is_held(structure))) + levels

    @cached_property
    def _levels(self) -> int:
        return int(np.isfinite(self.setup.data.x).any(axis=0).sum())

    # Starts.

    def start(
        self,
        coefficients: np.ndarray,
        inner: np.ndarray,
        delays: Sequence[float],
    ) -> np.ndarray:
        """A vector of free values with the history from the data."""
        theta = self._start.copy()
        theta[self.coefficients[: len(coefficients)]] = coefficients
        theta[self.inner_places] = inner
        places = self.delays[: len(delays)]
        theta[places] = delays
        if len(delays):
            theta[self._places("history.length")] = _LENGTH * max(delays)
        return np.clip(theta, self.setup.lower, self.setup.upper)

    # Fits.

    def fit(
        self,
        structure: Structure,
        starts: np.ndarray,
        near: float = np.inf,
        finer: int = 1,
    ) -> Fitted:
        """The best fit of a structure from several starts. Those that do not come
        `near` this BIC within a few evaluations are given up. The solver's steps are
        `finer` by a factor."""
        setup, held = self._with(structure), self.is_held(structure)
        n = finer * self._steps(starts)
        fits = refine(setup, starts, self.points, n, _FEW, held=held)
        best = self._best(structure, fits)
        if best.bic < near and not best.converged:
            n = finer * self._steps(best.theta[None])
            fits = refine(setup, best.theta[None], self.points, n, _MANY, held=held)
            best = self._best(structure, fits)
        return best

    def glance(
        self, structure: Structure, starts: np.ndarray, share: float, limit: int
    ):
        """Short fits to a `share` of the record: their values, and the logarithm of
        their mean squares, a rough measure of how good they are."""
        setup, held = self._with(structure), self.is_held(structure)
        points = self._early(share)
        fits = refine(setup, starts, points, self._steps(starts), limit, held=held)
        counts = np.sum(np.asarray(points.weights) > 0)
        return fits.theta, np.log(np.maximum(fits.loss, 1e-300) / counts)

    def linearised(self, structure: Structure, theta: np.ndarray) -> Fitted:
        """A structure at given values, without any fit."""
        setup, held = self._with(structure), self.is_held(structure)
        fits = refine(
            setup, theta[None], self.points, self._steps(theta[None]), 1, held=held
        )
        return self._best(structure, fits)

    def _best(self, structure: Structure, fits: RefinedFits) -> Fitted:
        bics = [self.bic(structure, *each) for each in zip(fits.squares, fits.loss)]
        bics = np.where(np.isfinite(fits.loss), bics, np.inf)
        row = int(np.argmin(bics))
        return Fitted(
            structure,
            fits.theta[row],
            fits.gram[row],
            fits.squares[row],
            self.parameters_of(structure),
            float(bics[row]),
            bool(fits.converged[row]),
        )

    def bic(self, structure: Structure, squares: np.ndarray, loss: float) -> float:
        """The BIC of a fit, given its sums of squares and its weighted one, which is a
        chi-square if the data have standard deviations; infinite where they are not
        finite."""
        data, k = self.setup.data, self.parameters_of(structure)
        counts = np.isfinite(data.x).sum(axis=0)
        n = int(counts.sum())
        if not np.isfinite(squares).all():
            return np.inf
        least = 1e-12 * spread(data) ** 2 * counts
        if data.sd is not None:
            return float(loss + k * np.log(n))
        variance = np.maximum(squares, least)[counts > 0] / counts[counts > 0]
        return float(np.sum(counts[counts > 0] * np.log(variance)) + k * np.log(n))

    def _with(self, structure: Structure) -> FitSetup:
        """The setup with a structure in the slots."""
        terms, states = len(self.library.terms), len(self.library.states)
        chosen = np.zeros((self.slots, terms), int)
        target = np.zeros((self.slots, states), int)
        for slot, (state, term) in enumerate(structure):
            chosen[slot, term] = target[slot, state] = 1
        model = self.setup.model

        def put(fixed: Any, lead: tuple[int, ...]) -> Any:
            arrays = [
                jnp.asarray(np.broadcast_to(a, (*lead, *a.shape)))
                for a in (chosen, target)
            ]
            return eqx.tree_at(
                lambda p: (p.rhs.chosen, p.rhs.target), fixed, tuple(arrays)
            )

        fixed = put(model.fixed, ())
        study = model.experiments
        if study is not None:
            study = replace(study, fixed=put(study.fixed, (study.count,)))
        return replace(
            self.setup, model=replace(model, fixed=fixed, experiments=study), workers=1
        )

    def _steps(self, theta: np.ndarray) -> np.ndarray:
        """Steps per delay (on a mesh: in the record), so that there are enough in each
        sampling interval."""
        longest = max(parts_of(self.setup.data), key=len)
        in_record = _STEPS * max(len(longest), 60)
        if self.setup.model.mesh is not None:
            return np.full(len(theta), int(in_record))
        share = self.setup.delay(theta) / self.setup.data.T
        return np.clip(np.ceil(in_record * share), 1, 250).astype(int)

    def _early(self, share: float) -> Points:
        """The points of the first part of each record; later ones have no weight."""
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
        """The same with other noise levels."""
        return replace(self, noise=noise, points=self.setup.points(noise))

    def noise_of(self, fitted: Fitted) -> np.ndarray:
        """The noise levels that the residuals of a fit show."""
        counts = np.maximum(np.isfinite(self.setup.data.x).sum(axis=0), 1)
        least = 1e-6 * spread(self.setup.data)
        return np.maximum(np.sqrt(fitted.squares / counts), least)


def make_exact(
    library: Library,
    inner: InnerParameters,
    data: Records,
    history: str,
    slots: int,
    bounds: tuple[float, float],
) -> Exact:
    """The fits of one library to data, with delays between `bounds`."""
    d = len(library.states)
    zeros = np.zeros(d)
    past: Any = {
        "constant": lambda: Constant(zeros),
        "affine": lambda: Affine(zeros, zeros),
        "spline": lambda: Smooth(zeros, zeros, np.zeros((_CURVES, d)), data.T / 3),
    }[history]()
    rhs = Candidates(
        library.module,
        jnp.zeros(slots),
        jnp.zeros((slots, len(library.terms)), int),
        jnp.zeros((slots, d), int),
    )
    problem = Problem(rhs, past, library.tau)
    settings = {
        f"rhs.library.{name}": Parameter(lower=lower, upper=upper)
        for name, lower, upper in zip(inner.names, inner.lower, inner.upper)
    }
    names = ["tau"] if library.delays < 2 else delay_names(library.delays)
    prefix = "" if library.delays < 2 else "tau."
    settings |= {
        f"{prefix}{name}": Parameter(lower=bounds[0], upper=bounds[1]) for name in names
    }
    how = RK4(), 10, None, 0, 1
    if isinstance(data, Data):
        setup, _ = make_setup(problem, data, settings, *how)
    else:
        problems = [problem] * len(data.parts)
        known = [{} for _ in data.parts]
        setup, _ = make_study_setup(problems, data, settings, known, *how)
    noise = rough_noise(data)
    return Exact(library, inner, setup, setup.points(noise), history, slots, noise)


def in_parallel(function: Any, items: Sequence[Any]) -> list[Any]:
    """The results of a function for many items, on all cores."""
    with one_blas_thread(), ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(function, items))
