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
from .._engine.adaptive.methods import AbstractAdaptive, Radau
from .._engine.solution import Solution, observed
from .._problem.problem import Problem
from .._search.batches import Minimum
from .._search.misfit import Criteria, criteria_of
from .._shooting.process_noise import ProcessNoise, innovations, path_at, rebuild
from .._util import wording
from .assessment import (
    Assessment,
    LargeResiduals,
    assess,
    find_large_residuals,
    model_values,
    residuals_of,
    test_residuals,
)
from .covariance import Uncertainty, quantile
from .follow_profile import FoundEnds
from .identifiability import verdicts
from .learned_function import Trajectory
from .predict import Prediction, predict
from .profile import Profile
from .profile_intervals import distinct_minima, profiles
from .residual_tests import ResidualTest, run_tests


class AbstractSystem(abc.ABC):
    """The kind of system that a fit has."""

    process: ProcessNoise | None

    # What follows from a fit.

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
        self,
        uncertainty: Uncertainty,
        known: tuple[Profile, ...] | None,
        level: float,
        found: FoundEnds | None,
    ) -> Assessment:
        """Assess a fit, with intervals of this `level`; profiles may be `known`."""

    @abc.abstractmethod
    def profile(
        self, uncertainty: Uncertainty, j: int, level: float, found: FoundEnds
    ) -> Profile:
        """Return the profile of free value j."""

    @abc.abstractmethod
    def most_moves(self, starts: int) -> int:
        """Return how often a fit from so many starts moves to better places that its
        profiles come across."""

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
    # Why steps could not be checked, and what may be done about correlated residuals.
    why_unchecked: ClassVar[str]
    about_correlation: ClassVar[str]

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
