"""A least-squares fit as it is set up: bounds, guesses, conventions, noise."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from .._data.data import Data
from .._data.smoothing import Curve, smooth
from .._loss.losses import SumOfSquares
from .._loss.path_costs import Points
from .._problem.free_parameters import FreeParameters
from .._problem.history import Periodic
from .._problem.parameters import Parameter, find, free_parameters, parameter_vector
from .._problem.problem import Problem
from .._solve.runge_kutta import AbstractSolver
from .._util.cores import cores
from .levenberg_marquardt import Box
from .normal_equations import Model, Priors

# Rows of the ring: the longest delay, in steps, has a few less.
CAPACITY = 512
# At least so many steps over the whole record.
_STEPS = 100


@final
@dataclass(frozen=True)
class FitSetup:
    """A model with its data and its limits: what every start of a search shares.

    `guess` are the user's start values, NaN where there are none. `history` marks the
    free values of the history, `frequencies` its frequencies."""

    model: Model
    data: Data
    lower: np.ndarray
    upper: np.ndarray
    guess: np.ndarray
    steps_per_delay: int
    history: np.ndarray
    frequencies: np.ndarray
    workers: int

    @property
    def tau(self) -> int | None:
        """Where the delay stands among the free values."""
        names = self.model.free.names
        return names.index("tau") if "tau" in names else None

    def delay(self, theta: np.ndarray) -> np.ndarray:
        if self.tau is None:
            known = self.model.learned.tau
            known = self.model.fixed.tau if known is None else known
            return np.full(len(theta), float(known))
        return theta[:, self.tau]

    @property
    def rate(self) -> float:
        """Steps in a unit of time: enough for the record."""
        return _STEPS / self.data.T

    def steps(self, theta: np.ndarray) -> np.ndarray:
        """Steps in a delay: enough for it, and enough for the record."""
        least = self.steps_per_delay
        by_record = np.ceil(self.rate * self.delay(theta))
        return np.clip(by_record, least, max(least, CAPACITY // 2 - 3)).astype(int)

    def box(self, count: int, held: np.ndarray | None = None) -> Box:
        shape = (count, len(self.lower))
        held = np.zeros(shape, bool) if held is None else held
        return Box(
            np.broadcast_to(self.lower, shape),
            np.broadcast_to(self.upper, shape),
            np.broadcast_to(held, shape),
        )

    def points(self, noise: np.ndarray | None = None) -> Points:
        """The data with their weights, from given noise levels where the data have no
        own."""
        points = SumOfSquares().prepare(self.data).points
        if self.data.sd is not None or noise is None:
            return points
        return points._replace(weights=points.weights / noise**2)

    @property
    def needs_noise(self) -> bool:
        """Whether the estimates depend on the noise levels: with several quantities,
        priors, or residuals that count as outliers."""
        several = self.data.x.shape[1] > 1
        return several or self.model.priors is not None or self.model.huber is not None

    @property
    def has_unit(self) -> bool:
        """Whether the weights are those of the noise: as given, or, with outliers, as
        the residuals within the bulk have it. Else the sum of squares says it."""
        return self.data.sd is not None or self.model.huber is not None

    @cached_property
    def measured(self) -> np.ndarray:
        """Which quantities were measured at all."""
        return np.any(np.isfinite(self.data.x), axis=0)

    @property
    def bound_variance(self) -> np.ndarray:
        """The variance of all that lies between a value's bounds; infinite without."""
        width = self.upper - self.lower
        return np.where(np.isfinite(width), width, np.inf) ** 2 / 12

    @property
    def few(self) -> np.ndarray:
        """Which quantities have no more values than there are parameters, so that their
        residuals say nothing of their noise."""
        count = np.isfinite(self.data.x).sum(axis=0)
        return (count > 0) & (count <= len(self.lower)) & (len(count) > 1)

    @cached_property
    def curve(self) -> Curve | None:
        """A smooth curve through the states, a constant for those that are not
        measured; None with too few points, or where something else than the state is
        measured."""
        data = self.data
        if data.x.shape[1] != self.model.dimension or self.model.observes:
            return None
        if self.measured.all():
            return smooth(data)
        return smooth(Data(data.t, np.where(self.measured, data.x, 1.0)))

    def variance(self, loss: float) -> float:
        """The unit of the sum of squares: the variance of the weighted residuals, one
        where the noise is given."""
        if self.has_unit or not np.isfinite(loss):
            return 1.0
        return max(loss / self.freedom, 1e-300)

    @property
    def count(self) -> int:
        """The number of measured values."""
        return int(np.isfinite(self.data.x).sum())

    @property
    def freedom(self) -> int:
        """Degrees of freedom, at least one."""
        return max(self.count - len(self.lower), 1)


def make_setup(
    problem: Problem,
    data: Data,
    parameters: Mapping[str, Any] | None,
    solver: AbstractSolver,
    steps_per_delay: int,
    huber: float | None = None,
    seed: int = 0,
    workers: int | None = None,
) -> tuple[FitSetup, Problem]:
    """The setup of a fit, and the problem with what is fixed in place."""
    names, problem, _ = free_parameters(problem, parameters, seed=seed, partial=True)
    if not names.names:
        raise ValueError("Every parameter is fixed: there is nothing to learn.")
    start = parameter_vector(problem)
    guess = np.array([start[names.source.index(j)] for j in range(len(names.names))])
    lower, upper = np.array(names.lower), np.array(names.upper)
    history = np.array([name.startswith("history.") for name in names.paths])
    frequencies = np.zeros(len(lower), bool)
    if isinstance(problem.history, Periodic):
        frequencies = np.array([n.startswith("history.omega") for n in names.paths])
    _bound_frequencies(data, lower, upper, frequencies)
    if "tau" in names.names:
        _bound_delay(data, lower, upper, guess, names.names.index("tau"))
    inside = (lower <= guess) & (guess <= upper)
    guess = np.where(inside, guess, np.nan)
    free = replace(names, lower=(-np.inf,) * len(lower), upper=(np.inf,) * len(lower))
    learned, fixed = free.split(problem)
    model = Model(
        free,
        learned,
        fixed,
        solver,
        _priors(parameters, names),
        problem.dimension,
        huber,
    )
    setup = FitSetup(
        model,
        data,
        lower,
        upper,
        guess,
        steps_per_delay,
        history,
        frequencies,
        workers or cores(),
    )
    return setup, problem


def spacing(data: Data) -> float:
    """The usual distance of neighbouring times."""
    return float(np.median(np.diff(np.unique(data.t))))


def usual_delays(data: Data) -> tuple[float, float]:
    """Where delays are looked for: two sampling intervals to 0.9 of the record."""
    return min(2 * spacing(data), 0.1 * data.T), 0.9 * data.T


def _bound_delay(data: Data, lower, upper, guess, tau: int) -> None:
    """The usual delays, unless the user says otherwise, by a bound or by a start
    beyond."""
    if upper[tau] <= 0:
        raise ValueError(
            f"`parameters['tau']` has the upper bound {upper[tau]:g}, but a delay is "
            "positive."
        )
    low, high = usual_delays(data)
    if np.isfinite(guess[tau]):
        low, high = min(low, guess[tau] / 4), max(high, 1.5 * guess[tau])
    low = min(low, upper[tau] / 10)
    lower[tau] = low if np.isinf(lower[tau]) else max(lower[tau], 1e-6 * data.T)
    upper[tau] = max(high, 2 * lower[tau]) if np.isinf(upper[tau]) else upper[tau]


def _bound_frequencies(data: Data, lower, upper, frequencies) -> None:
    """(A, omega) and (-A, -omega) are the same history: omega is taken positive where
    it may be; below the sampling limit, where the user gives none; and with a period of
    at most twice the record, where they give no positive limit. Slower sines are
    straight lines, of which A and omega cannot be told."""
    for j in np.flatnonzero(frequencies):
        if upper[j] > 0:
            if np.isinf(upper[j]):
                upper[j] = max(np.pi / spacing(data), 2 * lower[j])
            slowest = min(np.pi / data.T, 0.1 * upper[j])
            lower[j] = lower[j] if lower[j] > 0 else slowest


def _priors(parameters, names: FreeParameters) -> Priors | None:
    """The priors of the free values; None if there are none."""
    given = {
        key: setup.prior
        for key, setup in (parameters or {}).items()
        if isinstance(setup, Parameter) and setup.prior is not None
    }
    if not given:
        return None
    size = len(names.names)
    mean, weight, log = np.zeros(size), np.zeros(size), np.zeros(size, bool)
    for key, prior in given.items():
        for element in find(key, list(names.arrays)):
            j = names.source[element]
            if j < 0:
                raise ValueError(
                    f"`parameters[{key!r}]` is not free: it needs no prior."
                )
            if prior.is_log and names.lower[j] < 0 and names.names[j] != "tau":
                raise ValueError(
                    f"`parameters[{key!r}]`: a log-normal prior is for positive "
                    "values. Add `lower=0`."
                )
            mean[j], weight[j], log[j] = prior.center, prior.width**-2.0, prior.is_log
    return Priors(mean, weight, log)
