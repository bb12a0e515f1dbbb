"""What least squares returns: a record of the best fit, with thin methods on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from .._equation.equation import Equation
from .._inference.assessment import (
    Assessment,
    assess,
    has_fit,
    is_rejected,
    model_values,
    standard_deviations,
    test_residuals,
)
from .._inference.bootstrap import Bootstrap, Kind, bootstrap, check_level
from .._inference.covariance import Uncertainty
from .._inference.derived import Derived, derive
from .._inference.evidence import effective_dimension
from .._inference.identifiability import NOT_DETERMINED, Verdict
from .._inference.information_criteria import Criteria, criteria
from .._inference.posterior import sample
from .._inference.predict import Prediction, predict, read_times
from .._inference.profile_intervals import profiles
from .._inference.profile_likelihood import Profile
from .._inference.residual_tests import ResidualTest, failed
from .._inference.stability import Stability, stability
from .._least_squares import levenberg_marquardt
from .._least_squares.search import Minimum, SearchResult
from .._least_squares.setup import FitSetup
from .._problem.history import time_zero
from .._problem.problem import Problem
from .report import as_dict, as_html, as_text, table
from .result import AbstractFit
from .save import estimate_content
from .status import Status

_STATUS = {
    levenberg_marquardt.LIMIT: Status.limit,
    levenberg_marquardt.GRADIENT: Status.converged_gradient,
    levenberg_marquardt.STEP: Status.converged_step,
    levenberg_marquardt.EXACT: Status.exact,
    levenberg_marquardt.STUCK: Status.stuck,
    levenberg_marquardt.NO_START: Status.no_start,
}


@final
@dataclass(frozen=True, kw_only=True)
class Estimate(AbstractFit):
    """A least-squares fit, at the best minimum that was found.

    The best of `starts` starts was taken, drawn with `seed`; `minima` are the distinct
    minima that were found. `assessment` holds what takes further computing: the 95%
    intervals, the verdicts and the tests of the residuals. It is None where they were
    left out (by `fit_many`, or by `intervals=False`); `with_intervals` adds them.
    `histories` are the kinds of history that `history="auto"` compared, the chosen one
    first, each with its BIC less that of the chosen one."""

    start: Problem
    starts: int
    seed: int
    setup: FitSetup = field(repr=False)
    search_result: SearchResult = field(repr=False)
    assessment: Assessment | None = field(repr=False)
    histories: tuple[tuple[str, float], ...] = field(default=(), repr=False)

    # The estimates and their errors

    @property
    def noise(self) -> dict[str, float]:
        """The standard deviation of the noise of each measured quantity, as given or as
        estimated."""
        named = zip(self.data.names, self.search_result.noise.tolist())
        measured = self.setup.measured & np.isfinite(self.loss)
        return {name: sd for (name, sd), is_in in zip(named, measured) if is_in}

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
        return Uncertainty(self.setup, self.search_result)

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
        if self.setup.model.huber is None and self.data.sd is not None:
            return float(np.nansum(self.residuals**2))
        return (
            float(self.search_result.best.loss[0]) / self.uncertainty.residual_variance
        )

    # Intervals, verdicts and tests: from the assessment

    def with_intervals(self) -> "Estimate":
        """The same fit with its 95% intervals, verdicts and tests of the residuals,
        which take some further fits."""
        if self.assessment is not None:
            return self
        return replace(self, assessment=assess(self.uncertainty))

    @property
    def _assessed(self) -> Assessment:
        if self.assessment is None:
            raise ValueError(
                "This fit was made without intervals. Compute them with "
                "`fit = fit.with_intervals()`, or fit with `intervals=True`."
            )
        return self.assessment

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The 95% interval of each parameter, by profile likelihood; infinite on a side
        where the data set no limit."""
        return {profile.name: profile.interval for profile in self._assessed.profiles}

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What the data say of each parameter: determined, weakly determined or not
        determined; and why."""
        return self._assessed.verdicts

    def profile(self, name: str, level: float = 0.95) -> Profile:
        """The profile likelihood of one parameter, with its interval of the given
        level. A level other than that of the fit is computed for this parameter."""
        check_level(level)
        index = self.setup.model.free.index(name)
        if level == 0.95 and self.assessment is not None:
            return self.assessment.profiles[index]
        return profiles(self.uncertainty, level, [index])[0]

    @cached_property
    def _values_with_derivatives(self) -> np.ndarray:
        return model_values(self.uncertainty)

    @property
    def fitted(self) -> np.ndarray:
        """What the model says at the times of the data, of the shape of `data.x`."""
        if self.assessment is not None:
            return self.assessment.fitted
        return self._values_with_derivatives[..., 0]

    @property
    def residuals(self) -> np.ndarray:
        """Data minus model in units of the noise; NaN where nothing was measured."""
        return (self.data.x - self.fitted) / standard_deviations(self.uncertainty)

    @cached_property
    def checks(self) -> tuple[ResidualTest, ...]:
        """Tests of the residuals: whiteness, normality and outliers of each quantity,
        and chi-square where the noise is given. There are none where the model passes
        through the data, or where there is no fit."""
        if self.assessment is not None:
            return self.assessment.checks
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

    @cached_property
    def criteria(self) -> Criteria:
        """Log-likelihood, AIC, AICc and BIC; `dd.compare` compares them."""
        self._check_there_is_a_fit()
        dimension = self.uncertainty.dimension
        if self.setup.model.priors is not None:
            gram = self.search_result.best.gram[0]
            dimension = effective_dimension(self.setup, gram)
        return criteria(self.data, self.fitted, dimension)

    # What follows from the fit

    def predict(
        self,
        times: Any = None,
        parameters: Mapping[str, Any] | None = None,
        level: float = 0.95,
    ) -> Prediction:
        """What the model says, with its confidence band and, for a new measurement, its
        prediction interval, by the delta method.

        **Arguments**

        - `times`: from 0 on (with `history="data"`, from `time_zero` on), also beyond
          the data. A number is the last of 201 times; by default that is the last time
          of the data.
        - `parameters`: other values by name, of learned or fixed parameters. They count
          as known exactly; the uncertainty of the others stays as it is.
        - `level`: of the band.
        """
        check_level(level)
        self._check_there_is_a_fit()
        at = read_times(times, self.data.T, self.time_zero)
        said = predict(self.uncertainty, self.problem, at, parameters or {}, level)
        return replace(said, t=said.t + self.time_zero)

    def derived(self, expression: str, level: float = 0.95) -> Derived:
        """A function of the parameters, such as `"r * tau"` or `"b[0] / K"`, with its
        standard error and its interval by the delta method. It may use the names of the
        fit, those of fixed parameters too, and the functions of text equations."""
        check_level(level)
        self._check_there_is_a_fit()
        known = self.setup.model.free.indices_or_values(self.problem)
        return derive(self.uncertainty, known, expression, level)

    def stability(self) -> Stability:
        """The equilibria of the fitted equation near its trajectory: whether they are
        stable, and the period with which disturbances oscillate."""
        self._check_there_is_a_fit()
        states = np.asarray(self.solution.x)
        return stability(self.uncertainty, states, self._state_names)

    @property
    def _state_names(self) -> tuple[str, ...]:
        d = self.problem.dimension
        if self.model is not None:
            return self.model.states
        if self.problem.observe is None:
            return self.data.names
        return ("x",) if d == 1 else tuple(f"x[{i}]" for i in range(d))

    def bootstrap(
        self, n: int = 1000, kind: Kind = "parametric", seed: int = 0
    ) -> Bootstrap:
        """The estimates of `n` data sets that are made again, from the fitted
        trajectory with Gaussian noise (`"parametric"`) or with noise drawn from the
        residuals (`"residual"`). Each fit starts at the estimate; priors stay as they
        are."""
        self._check_there_is_a_fit()
        known = self.with_intervals()
        undetermined = tuple(
            v.name for v in known.verdicts if v.verdict == NOT_DETERMINED
        )
        return bootstrap(self.uncertainty, known.fitted, undetermined, n, kind, seed)

    def sample(
        self, draws: int = 1000, warmup: int = 1000, chains: int = 2, seed: int = 0
    ) -> Any:
        """Samples of the posterior by NUTS, as ArviZ data. The prior is Jeffreys',
        between the bounds, times the fit's own priors; noise levels that are not given
        are sampled too. Needs `pip install 'ddefind[sample]'`."""
        self._check_there_is_a_fit()
        profiles = list(self.with_intervals()._assessed.profiles)
        return sample(self.uncertainty, profiles, draws, warmup, chains, seed)

    def _check_there_is_a_fit(self) -> None:
        if not has_fit(self.uncertainty):
            raise ValueError(f"There is no fit: {self.message}")

    # How it is shown and kept

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return as_dict(self)

    def summary(self) -> list[dict[str, Any]]:
        """A row for each parameter: name, estimate, standard error and, unless they
        were left out, its 95% interval and verdict. None stands where there is no
        number."""
        return table(self)

    def file_content(self) -> dict[str, Any]:
        """What `save` writes, as plain words and numbers."""
        return estimate_content(self)

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def plot(self) -> Any:
        """A matplotlib figure: data and fitted trajectory, and the residuals."""
        from ..plots import plot_estimate

        return plot_estimate(self)

    def plot_profile(self, *names: str) -> Any:
        """A matplotlib figure of profiles, by default of all parameters."""
        from ..plots import plot_profiles

        return plot_profiles([self.profile(name) for name in names or self.names])

    def plot_waterfall(self) -> Any:
        """A matplotlib figure: the chi-squares at which the starts ended, sorted."""
        from ..plots import plot_waterfall

        return plot_waterfall(self)


def make_estimate(
    setup: FitSetup,
    problem: Problem,
    search_result: SearchResult,
    seed: int,
    seconds: float,
    equation: Equation | None,
    assessment: Assessment | None = None,
) -> Estimate:
    """The estimate of a search; `problem` has the values of what is fixed."""
    free, best = setup.model.free, search_result.best
    theta = best.theta[0]
    status = _STATUS[int(best.status[0])]
    if search_result.interrupted:
        status = Status.interrupted
    loss = float(best.loss[0])
    # One quantity without given noise: its plain sum of squares.
    is_plain = not setup.weights_are_absolute and len(search_result.noise) == 1
    if is_plain and np.isfinite(loss):
        loss = float(best.squares[0].sum())
    first = np.where(np.isnan(setup.guess), theta, setup.guess)
    # On a mesh n is the number of steps in the record.
    n, is_mesh = int(best.n[0]), setup.model.mesh is not None
    return Estimate(
        problem=free.problem_at(theta, problem),
        start=free.problem_at(first, problem),
        data=setup.data.later(time_zero(problem.history)),
        names=free.names,
        best=theta,
        loss=loss,
        status=status,
        message=status.value,
        starts=search_result.starts,
        seed=seed,
        seconds=seconds,
        solver=setup.model.solver,
        steps_per_delay=setup.steps_per_delay if is_mesh else n,
        max_step=setup.data.T / n if is_mesh else None,
        setup=setup,
        search_result=search_result,
        assessment=assessment,
        model=equation,
    )
