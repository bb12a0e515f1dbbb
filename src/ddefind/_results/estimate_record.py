"""The record of a fit by least squares: the estimates, how precise they are, and what
tests say of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from .._equation.equation import Equation
from .._inference.assessment import (
    Assessment,
    assess,
    has_fit,
    is_rejected,
    model_values,
    residuals_of,
    test_residuals,
)
from .._inference.bootstrap import check_level
from .._inference.covariance import Uncertainty
from .._inference.determined_weights import determined_weights
from .._inference.disturbed import (
    assess_disturbed,
    disturbed_criteria,
    disturbed_profile,
    test_innovations,
)
from .._inference.evidence import free_count
from .._inference.explained import Explained
from .._inference.identifiability import Verdict
from .._inference.information_criteria import Criteria, criteria, likelihood_criteria
from .._inference.profile import Profile
from .._inference.profile_intervals import profiles
from .._inference.profile_likelihood import FoundEnds
from .._inference.residual_tests import ResidualTest, failed
from .._least_squares.search import Minimum, SearchResult
from .._least_squares.setup import FitSetup
from .._problem.problem import Problem
from .._shooting.process_noise import ProcessNoise
from .._solve.solution import Solution
from .._util.progress import Progress, Reporter
from .experiment_view import experiment_view
from .limits import limits
from .result import AbstractFit

# How progress is shown: by a callback, by a bar (True), or not at all (False).
Shown = bool | Callable[[Progress], None] | None
# Intervals that take so many seconds have no bar.
_PATIENCE = 1.0


@dataclass(frozen=True, kw_only=True)
class AbstractEstimate(AbstractFit):
    """The estimates of a fit by least squares or multiple shooting, how precise they
    are, and what tests say of them. `Estimate` explains the fields."""

    start: Problem
    starts: int
    seed: int
    setup: FitSetup = field(repr=False)
    search_result: SearchResult = field(repr=False)
    assessment: Assessment | None = field(repr=False)
    histories: tuple[tuple[str, float], ...] = field(default=(), repr=False)
    process: ProcessNoise | None = field(default=None, repr=False)
    problems: tuple[Problem, ...] = field(default=(), repr=False)
    models: tuple[Equation, ...] = field(default=(), repr=False)
    study: "Self | None" = field(default=None, repr=False)
    experiment: int = field(default=0, repr=False)

    # The experiments of a study

    @cached_property
    def experiments(self) -> dict[str, Self]:
        """The fit of each experiment of a study by its label; empty for a fit of one
        data set. Their uncertainty is that of the whole study."""
        if self.setup.joint is None:
            return {}
        return {
            label: experiment_view(self, e) for e, label in enumerate(self.data.labels)
        }

    def _check_one_data_set(self, what: str) -> None:
        """Refuse what needs one experiment of a study, or the whole of it."""
        if self.setup.joint is not None:
            label = self.data.labels[0]
            raise ValueError(
                f"{what} is for one experiment of this study: "
                f"`fit.experiments[{label!r}]`."
            )

    def _check_whole(self, what: str) -> None:
        if self.study is not None:
            raise ValueError(
                f"{what} is for the whole study, and this is one of its experiments."
            )

    # The estimates and their errors

    def _check_there_is_a_fit(self) -> None:
        if not has_fit(self.uncertainty):
            raise ValueError(f"There is no fit: {self.message}")

    @property
    def noise(self) -> dict[str, float]:
        """The standard deviation of the noise of each measured quantity, as given or as
        estimated: from the squares of the residuals over the degrees of freedom. If it
        differs from value to value, the root mean square."""
        sd = self.search_result.noise
        if not self.setup.weights_are_absolute and self.process is None:
            # The search counted every free parameter as determined.
            searched = self.setup if self.study is None else self.study.setup
            sd = sd * np.sqrt(searched.freedom / self.freedom)
        measured = self.setup.measured & np.isfinite(self.loss)
        named = zip(self.data.names, sd.tolist(), measured)
        return {name: value for name, value, is_in in named if is_in}

    @property
    def process_noise(self) -> dict[str, float] | None:
        """The standard deviation of the process noise of each state, per square root of
        time (a share of the state if `process.is_relative`); None without it."""
        if self.process is None:
            return None
        return dict(zip(self.state_names, self.process.sd.tolist()))

    @cached_property
    def minima(self) -> tuple[Minimum, ...]:
        """The distinct minima, best first, with the sums of squares in the unit of
        `loss`."""
        best_loss = float(self.search_result.best.loss[0])
        scale = self.loss / best_loss if 0 < best_loss < np.inf else 1.0
        return tuple(m._replace(loss=scale * m.loss) for m in self.search_result.minima)

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """The curvature of the sum of squares at the estimates."""
        if self.study is None:
            return Uncertainty(self.setup, self.search_result)
        joint = self.study.setup.joint
        assert joint is not None
        place = joint.place[self.experiment]
        whole = self.study.uncertainty
        return Uncertainty(self.setup, self.search_result, whole, place)

    @cached_property
    def determined_weights(self) -> dict[str, float]:
        """How many weights of each network the data determine, by the keys of
        `networks`; the prior determines the others."""
        if self.study is not None:
            return self.study.determined_weights
        return determined_weights(self.uncertainty, self.networks)

    @property
    def solution(self) -> Solution:
        """The learned trajectory, at the times of the data."""
        self._check_one_data_set("`solution`")
        return super().solution

    @property
    def covariance(self) -> np.ndarray:
        """The covariance of the estimates, in the order of `names`; infinite on the
        diagonal where the data determine nothing."""
        return self.uncertainty.covariance

    @property
    def standard_errors(self) -> dict[str, float]:
        """The standard error of each estimate, by name."""
        return dict(zip(self.names, self.uncertainty.standard_errors.tolist()))

    @property
    def freedom(self) -> int:
        """The degrees of freedom: measured values less determined directions."""
        return self.uncertainty.freedom

    @property
    def chi_square(self) -> float:
        """The sum of squares in units of the noise, without what priors add. Where the
        noise is estimated it is about the degrees of freedom."""
        if self.data.sd is not None or self.setup.model.likelihood is not None:
            return float(np.nansum(self.residuals**2))
        return (
            float(self.search_result.best.loss[0]) / self.uncertainty.residual_variance
        )

    # Intervals, verdicts and tests: from the assessment

    def with_intervals(self, level: float = 0.95, progress: Shown = None) -> Self:
        """The same fit with its intervals of the given confidence `level`, verdicts and
        tests of the residuals, which take some further fits. `progress` is as in `fit`:
        by default a terminal has a bar, if it takes more than a second."""
        check_level(level)
        self._check_whole("`with_intervals`")
        if self.assessment is not None and self.assessment.level == level:
            return self
        if self.process is not None:
            assessment = assess_disturbed(self.uncertainty, self.process, level)
        else:
            with self._counted_ends(progress) as found:
                assessment = assess(self.uncertainty, level=level, found=found)
        return replace(self, assessment=assessment)

    @contextmanager
    def _counted_ends(self, progress: Shown) -> Iterator[FoundEnds]:
        """Shows how many ends of intervals are found."""
        tau = float(self.setup.delay(self.best[None])[0])
        with Reporter(progress, 1, 1, patience=_PATIENCE) as reporter:
            yield lambda found, sought: reporter.show_ends(
                found, sought, self.loss, tau
            )

    @property
    def _assessed(self) -> Assessment:
        """The assessment; an error if it was left out."""
        if self.assessment is None:
            raise ValueError(
                "This fit was made without intervals. Compute them with "
                "`fit = fit.with_intervals()`, or fit with `intervals=True`."
            )
        return self.assessment

    @property
    def level(self) -> float:
        """The confidence level of the intervals; 0.95 where they were left out."""
        return 0.95 if self.assessment is None else self.assessment.level

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The interval of each parameter, by profile likelihood (with process noise, by
        the covariance), cut at the bounds that were given; infinite on a side where
        nothing sets a limit, and NaN where nothing is known."""
        pairs = zip((each.name for each in self._assessed.profiles), limits(self))
        return {name: (ends.low, ends.high) for name, ends in pairs}

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """What the data say of each parameter, by name: determined, weakly determined
        or not determined; and its `reason`."""
        return {verdict.name: verdict for verdict in self._assessed.verdicts}

    def profile(
        self, name: str, level: float = 0.95, progress: Shown = None
    ) -> Profile:
        """The profile likelihood of one parameter, with its interval of the given
        level. A level other than that of the fit is computed for this parameter, with
        `progress` as in `with_intervals`."""
        check_level(level)
        self._check_whole("`profile`")
        index = self.setup.model.free.index(name)
        if self.assessment is not None and level == self.assessment.level:
            return self.assessment.profiles[index]
        if self.process is not None:
            return disturbed_profile(self.uncertainty, index, level)
        with self._counted_ends(progress) as found:
            return profiles(self.uncertainty, level, [index], found)[0]

    @cached_property
    def _values_with_derivatives(self) -> np.ndarray:
        return model_values(self.uncertainty)

    @property
    def fitted(self) -> np.ndarray:
        """What the model says at the times of the data, of the shape of `data.x`. With
        process noise it is the path that the system took."""
        if self.process is not None:
            return self.process.fitted
        if self.assessment is not None:
            return self.assessment.fitted
        return self._values_with_derivatives[..., 0]

    @property
    def residuals(self) -> np.ndarray:
        """Data minus model in units of the noise; NaN where nothing was measured. With
        process noise the model is what was expected from the values before. Where the
        noise has a model they are quantile residuals, which a right model leaves
        standard Gaussian."""
        if self.process is not None:
            return self.process.residuals
        return residuals_of(self.uncertainty, self.fitted)

    @cached_property
    def checks(self) -> tuple[ResidualTest, ...]:
        """Tests of the residuals: whiteness, normality and outliers of each quantity,
        and chi-square where the noise is given. There are none where the model passes
        through the data, or where there is no fit."""
        if self.assessment is not None:
            return self.assessment.checks
        if self.process is not None:
            return test_innovations(self.uncertainty, self.process)
        return test_residuals(self.uncertainty, self._values_with_derivatives)

    @property
    def failed_checks(self) -> tuple[ResidualTest, ...]:
        """The tests that the residuals fail. A right model fails any of them in 5% of
        fits."""
        return tuple(failed(list(self.checks)))

    @property
    def rejected(self) -> bool:
        """Whether the residuals reject the model: by their order, or by their size
        against the given noise."""
        return is_rejected(self.checks)

    @property
    def explained(self) -> Explained | None:
        """The share of the variance of each quantity that the model explains, and that
        a smooth curve explains, and whether the model explains no more than chance.
        None with process noise, and without degrees of freedom."""
        return self._assessed.explained

    @cached_property
    def criteria(self) -> Criteria:
        """Log-likelihood, AIC, AICc and BIC; `dd.compare` compares them."""
        self._check_there_is_a_fit()
        free = free_count(self.setup, self.search_result.best.gram[0])
        if self.process is not None:
            return disturbed_criteria(self.uncertainty, self.process, free)
        if self.setup.model.likelihood is not None:
            return likelihood_criteria(self.uncertainty, free)
        return criteria(self.data, self.fitted, free)
