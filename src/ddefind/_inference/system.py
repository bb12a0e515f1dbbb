"""What a fit takes the system to be: one that follows its equation, or one that is
itself disturbed.

What follows from a fit of the first kind comes from further fits: profiles, other
minima, other histories. A fit with process noise is linear around its path. Its
intervals come from Student's distribution around the estimates, with the covariance of
multiple shooting, which accounts for the disturbances and their unknown size; the tests
judge the innovations, which are independent if the model is right."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import jax.numpy as jnp
import numpy as np

from .._data.data import Data
from .._engine.solution import Solution, observed
from .._problem.problem import Problem
from .._search.batches import Minimum, SearchResult
from .._search.misfit import Criteria, criteria_of
from .._search.setup import FitSetup
from .._shooting.process_noise import ProcessNoise, innovations, path_at, rebuild
from .._util import wording
from .assessment import (
    Assessment,
    LargeResiduals,
    assess_best,
    find_large_residuals,
    model_values,
    test_residuals,
)
from .covariance import Uncertainty, quantile
from .identifiability import verdicts
from .learned_function import Trajectory
from .predict import Prediction, predict
from .profile import FoundEnds, Profile
from .profile_intervals import distinct_minima, profiles
from .residual_tests import ResidualTest, run_tests


class AbstractSystem(abc.ABC):
    """The kind of system that a fit has."""

    # The noise of the process with the path, and its standard deviations; or None.
    process: Any
    process_sd: Any

    # What follows from a fit.

    @abc.abstractmethod
    def uncertainty(self, setup: FitSetup, result: SearchResult) -> Uncertainty:
        """Return how precise the estimates of a search are."""

    @abc.abstractmethod
    def values(self, uncertainty: Uncertainty) -> np.ndarray:
        """Compute the model at the times of the data, [N, k, ...], with derivatives
        behind it as far as the tests need them."""

    @abc.abstractmethod
    def residuals(self, uncertainty: Uncertainty, fitted: np.ndarray) -> np.ndarray:
        """Compute the residuals in units of the noise; NaN where nothing was
        measured."""

    @abc.abstractmethod
    def checks(
        self, uncertainty: Uncertainty, values: np.ndarray
    ) -> tuple[ResidualTest, ...]:
        """Test the residuals, given the `values` of the model."""

    @abc.abstractmethod
    def noise(self, uncertainty: Uncertainty) -> np.ndarray:
        """Return the standard deviation of the noise of each quantity."""

    @abc.abstractmethod
    def criteria(self, uncertainty: Uncertainty, fitted: np.ndarray) -> Criteria:
        """Compute the information criteria."""

    @abc.abstractmethod
    def assess(
        self, uncertainty: Uncertainty, level: float, seed: int, found: FoundEnds | None
    ) -> tuple[Uncertainty, Assessment]:
        """Assess a fit at the best minimum that its profiles come across, with
        intervals of this `level`. `seed` is that of the search."""

    @abc.abstractmethod
    def profile(
        self, uncertainty: Uncertainty, j: int, level: float, found: FoundEnds | None
    ) -> Profile:
        """Return the profile of free value j."""

    @abc.abstractmethod
    def predict(
        self,
        uncertainty: Uncertainty,
        problem: Problem,
        times: np.ndarray,
        parameters: Mapping[str, Any],
        level: float,
    ) -> Prediction:
        """Predict the fitted problem at some times."""

    @abc.abstractmethod
    def check_draws(self, what: str) -> None:
        """Refuse draws of data or parameters that the system does not allow for."""

    # The course of the system.

    @abc.abstractmethod
    def states(self, solution: Solution) -> np.ndarray:
        """Return the states that the system passed through."""

    @abc.abstractmethod
    def trajectory(self, solution: Solution, zero: float) -> Trajectory:
        """Return the states as a function of the time since `zero`."""

    @abc.abstractmethod
    def curve(self, fit: Any, t: np.ndarray) -> np.ndarray:
        """Return the observed quantities of a fit at the times `t`."""

    @abc.abstractmethod
    def solutions(self, solution: Solution) -> Sequence[Solution]:
        """Return the solution, if it is the course of the system."""

    # What is said of a fit.

    kind_of_residuals: ClassVar[str]
    # Why steps could not be checked.
    why_unchecked: ClassVar[str]

    @abc.abstractmethod
    def about_correlation(self) -> str:
        """Return what may be done about correlated residuals."""

    @abc.abstractmethod
    def method(self, starts: int, seed: int) -> str:
        """Name the method."""

    @abc.abstractmethod
    def about_search(
        self, uncertainty: Uncertainty, states: Sequence[str], seconds: float
    ) -> list[str]:
        """Say how the fit was found."""

    @abc.abstractmethod
    def about_steps(self, solver: Any) -> str:
        """Say what may be done if the steps matter."""

    @abc.abstractmethod
    def about_noise_models(self, text: str) -> str:
        """Return a text about noise models, if a fit may have them."""

    @abc.abstractmethod
    def large_residuals(self, uncertainty: Uncertainty) -> LargeResiduals | None:
        """Find a quantity whose residuals are larger than the scatter of the data."""

    @abc.abstractmethod
    def shown_profiles(self, found: Sequence[Profile]) -> Sequence[Profile]:
        """Return the profiles that tell more than the intervals."""

    @abc.abstractmethod
    def shown_minima(self, uncertainty: Uncertainty) -> Sequence[Minimum]:
        """Return the minima that tell of the search."""


@final
@dataclass(frozen=True)
class Undisturbed(AbstractSystem):
    """A system that follows its equation."""

    process: ClassVar[None] = None
    process_sd: ClassVar[None] = None
    kind_of_residuals: ClassVar[str] = ""
    why_unchecked: ClassVar[str] = "finer ones failed"

    def uncertainty(self, setup, result):
        return Uncertainty(setup, result)

    def values(self, uncertainty):
        return model_values(uncertainty)

    def residuals(self, uncertainty, fitted):
        return uncertainty.setup.misfit.residuals(uncertainty, fitted)

    def checks(self, uncertainty, values):
        return test_residuals(uncertainty, values)

    def noise(self, uncertainty):
        return uncertainty.noise

    def criteria(self, uncertainty, fitted):
        return uncertainty.setup.misfit.criteria(uncertainty, fitted)

    def assess(self, uncertainty, level, seed, found):
        return assess_best(uncertainty, level, seed, found)

    def profile(self, uncertainty, j, level, found):
        return profiles(uncertainty, level, [j], found)[0]

    def predict(self, uncertainty, problem, times, parameters, level):
        return predict(uncertainty, problem, times, parameters, level)

    def check_draws(self, what):
        pass

    def states(self, solution):
        return np.asarray(solution.x)

    def trajectory(self, solution, zero):
        return lambda t: solution(t + zero)

    def curve(self, fit, t):
        return observed(fit.problem, fit.solution, t)

    def solutions(self, solution):
        return (solution,)

    def method(self, starts, seed):
        return f"least squares from {starts} starts, seed {seed}"

    def about_search(self, uncertainty, states, seconds):
        solver = uncertainty.setup.model.engine.solver
        return [_about_minima(uncertainty, seconds), *solver.about()]

    def about_correlation(self):
        return (
            f"If the system itself is disturbed, fit with {wording.MULTIPLE_SHOOTING}."
        )

    def about_steps(self, solver):
        return solver.remedy()

    def about_noise_models(self, text):
        return text

    def large_residuals(self, uncertainty):
        return find_large_residuals(uncertainty)

    def shown_profiles(self, found):
        return found

    def shown_minima(self, uncertainty):
        return distinct_minima(uncertainty)


UNDISTURBED = Undisturbed()


def _about_minima(uncertainty: Uncertainty, seconds: float) -> str:
    """Say how many minima there are, and how often the best was reached."""
    starts = uncertainty.search_result.starts
    text = "1 start" if starts == 1 else f"{starts} starts"
    if uncertainty.setup.has_networks:  # Minima in weights mean nothing.
        return f"{text}, {seconds:.2g} s."
    minima, text = distinct_minima(uncertainty), f"{text}, {seconds:.2g} s; "
    reached = _reached(minima[0].starts if minima else 0)
    if len(minima) <= 1:
        return f"{text}one minimum, {reached}."
    rise = (minima[1].loss - minima[0].loss) / uncertainty.residual_variance
    where = (
        f"{rise:.3g} above it"
        if rise >= 0
        else f"with a faster history or a longer delay, {-rise:.3g} below it"
    )
    return (
        f"{text}{len(minima)} minima, the best {reached}, the next {where} in "
        "chi-square."
    )


def _reached(starts: int) -> str:
    """Say from how many independent starts a minimum was reached."""
    if starts == 0:
        return "reached only from perturbed fits"
    return "reached once" if starts == 1 else f"reached {starts} times"


# A profile of a disturbed system is given at this many values, over twice the width of
# the interval.
_PROFILE_VALUES = 9


@final
@dataclass(frozen=True)
class Disturbed(AbstractSystem):
    """A system that is itself disturbed, with the `process` noise and the path that it
    took. The `information` about the free values is the inverse of their covariance, in
    the unit of chi-square."""

    process: ProcessNoise
    information: np.ndarray
    kind_of_residuals: ClassVar[str] = (
        "data minus what was expected from the values before, in units of its error"
    )
    why_unchecked: ClassVar[str] = "shorter ones take too long"

    @property
    def process_sd(self) -> np.ndarray:
        return self.process.sd

    def uncertainty(self, setup, result):
        return Uncertainty(setup, result, known=self.information)

    def values(self, uncertainty):
        return self.process.fitted[..., None]

    def residuals(self, uncertainty, fitted):
        return self.process.residuals

    def checks(self, uncertainty, values):
        """Test the residuals one step ahead."""
        setup, data = uncertainty.setup, uncertainty.setup.data
        noise, process = uncertainty.search_result.noise, self.process
        fit = rebuild(setup, uncertainty.theta, process, noise)
        directions = innovations(fit)[1] @ uncertainty.covariance_factor
        how = uncertainty.freedom, uncertainty.noise_is_known
        return tuple(
            run_tests(data, process.fitted, process.residuals, directions, *how)
        )

    def noise(self, uncertainty):
        return uncertainty.search_result.noise

    def criteria(self, uncertainty, fitted):
        """Compute the criteria averaged over all paths. The levels of both kinds of
        noise count as parameters."""
        setup, process = uncertainty.setup, self.process
        k = setup.free_count(uncertainty.information) + process.levels
        return criteria_of(-2 * process.log_likelihood, k, setup.count)

    def assess(self, uncertainty, level, seed, found):
        count = len(uncertainty.theta)
        each = tuple(self.profile(uncertainty, j, level, found) for j in range(count))
        return uncertainty, Assessment(
            profiles=each,
            verdicts=tuple(verdicts(uncertainty, each, [], {})),
            ties=(),
            fitted=self.process.fitted,
            checks=self.checks(uncertainty, self.values(uncertainty)),
            level=level,
        )

    def profile(self, uncertainty, j, level, found):
        """Return a parabola, since the path is linear around the fit. A delay has no
        negative values in its interval."""
        q = quantile(level, uncertainty.freedom)
        theta, free = uncertainty.theta, uncertainty.setup.model.free
        variance = float(uncertainty.covariance[j, j])
        half = q * np.sqrt(variance)
        low, high = theta[j] - half, theta[j] + half
        if j in free.delays and np.isfinite(low):
            low = max(low, 0.0)
        shares = np.linspace(-2, 2, _PROFILE_VALUES)
        shares = shares if np.isfinite(half) and half > 0 else shares[:1] * 0
        direction = (
            uncertainty.covariance[:, j] / variance if len(shares) > 1 else 0 * theta
        )
        moved = np.where(np.isfinite(half), half, 0.0) * shares
        return Profile(
            name=free.names[j],
            estimate=float(theta[j]),
            quantile=q,
            interval=(float(low), float(high)),
            reached=(float(theta[j] + moved[0]), float(theta[j] + moved[-1])),
            values=theta[j] + moved,
            r=q * np.abs(shares),
            theta=theta + moved[:, None] * direction,
        )

    def predict(self, uncertainty, problem, times, parameters, level):
        """Return the path in the data and the expected one beyond, with its band."""
        if parameters:
            self.check_draws("`predict` with other `parameters`")
        setup, noise = uncertainty.setup, uncertainty.search_result.noise
        assert isinstance(setup.data, Data)
        fit = rebuild(setup, uncertainty.theta, self.process, noise)
        mean, sd = path_at(fit, self.process.is_relative, times)
        noise = np.where(setup.measured, noise, 0.0)
        q = quantile(level, uncertainty.freedom)
        half_width, noisy = q * sd, q * np.hypot(sd, noise)
        return Prediction(
            times,
            setup.data.names,
            mean,
            sd,
            mean - half_width,
            mean + half_width,
            mean - noisy,
            mean + noisy,
            np.ones(mean.shape, bool),
            level,
            (),
            setup.data,
        )

    def check_draws(self, what):
        raise ValueError(
            f"{what} is for fits by `LeastSquares()`; this one is by "
            "`MultipleShooting()`, whose disturbances it does not know."
        )

    def states(self, solution):
        return self.process.x

    def trajectory(self, solution, zero):
        nodes, states = jnp.asarray(self.process.t), jnp.asarray(self.process.x)

        def path(t: Any) -> Any:
            x = [jnp.interp(t, nodes, column) for column in states.T]
            before = solution(jnp.minimum(t, 0.0))
            return jnp.where(t[:, None] < 0, before, jnp.stack(x, axis=1))

        return path

    def curve(self, fit, t):
        return fit.predict(t).mean

    def solutions(self, solution):
        return ()

    def method(self, starts, seed):
        return f"multiple shooting, seed {seed}"

    def about_search(self, uncertainty, states, seconds):
        share = " of its level" if self.process.is_relative else ""
        named = zip(states, self.process.sd.tolist())
        noise = ", ".join(f"{name} {sd:.3g}{share}" for name, sd in named)
        return [
            f"Process noise (estimated), per square root of time: {noise}. By multiple "
            f"shooting; {seconds:.2g} s."
        ]

    def about_correlation(self):
        return ""

    def about_steps(self, solver):
        return "Fit a part of the record, for which shorter steps are possible."

    def about_noise_models(self, text):
        return ""

    def large_residuals(self, uncertainty):
        return None  # The path follows the data.

    def shown_profiles(self, found):
        return ()

    def shown_minima(self, uncertainty):
        return ()


def system_of(process: ProcessNoise | None, information: np.ndarray) -> AbstractSystem:
    """Return the system with this noise of its process, if there is any."""
    return UNDISTURBED if process is None else Disturbed(process, information)
