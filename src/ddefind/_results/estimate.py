"""What least squares returns: the estimates, and how sure they are."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from .._equation.equation import Equation
from .._inference.bootstrap import Bootstrap, Kind, bootstrap, check_level
from .._inference.covariance import Uncertainty
from .._inference.derived import Derived, derive
from .._inference.identifiability import NOT, Verdict, verdicts
from .._inference.model_selection import Criteria, criteria
from .._inference.posterior import sample
from .._inference.predict import Prediction, predict, read_times
from .._inference.profile_likelihood import Profile
from .._inference.residual_tests import (
    CHI,
    WHITE,
    ResidualTest,
    failed,
    residual_checks,
)
from .._inference.stability import Stability, stability
from .._least_squares import levenberg_marquardt as _levenberg
from .._least_squares.observe import observed
from .._least_squares.search import Minimum, SearchResult
from .._least_squares.setup import FitSetup
from .._problem.parameters import parameter_vector
from .._problem.problem import Problem
from .._util.errors import did_you_mean
from .report import html_of, text_of
from .result import AbstractFit, Status
from .save import estimate_content
from .saved_file import write_saved

_STATUS = {
    _levenberg.LIMIT: Status.limit,
    _levenberg.GRADIENT: Status.converged_gradient,
    _levenberg.STEP: Status.converged_step,
    _levenberg.EXACT: Status.exact,
    _levenberg.STUCK: Status.stuck,
    _levenberg.NO_START: Status.no_start,
}


@final
@dataclass(frozen=True, kw_only=True)
class Estimate(AbstractFit):
    """A least-squares fit, at the best minimum that was found.

    `minima` are the distinct minima, best first, reached from `starts` starts drawn
    with `seed`."""

    start: Problem
    starts: int
    seed: int
    setup: FitSetup = field(repr=False)
    search_result: SearchResult = field(repr=False)

    @cached_property
    def minima(self) -> tuple[Minimum, ...]:
        """The distinct minima, with the sums of squares in the unit of `loss`."""
        unit = float(self.search_result.best.loss[0])
        scale = self.loss / unit if 0 < unit < np.inf else 1.0
        return tuple(m._replace(loss=scale * m.loss) for m in self.search_result.minima)

    @property
    def noise(self) -> dict[str, float]:
        """The standard deviation of the noise of each measured quantity, as given or
        estimated."""
        named = zip(self.data.names, self.search_result.noise.tolist())
        measured = self.setup.measured & np.isfinite(self.loss)
        return {name: sd for (name, sd), is_in in zip(named, measured) if is_in}

    @cached_property
    def uncertainty(self) -> Uncertainty:
        return Uncertainty(self.setup, self.search_result)

    @property
    def covariance(self) -> np.ndarray:
        """Of the estimates, in the order of `names`; infinite on the diagonal where the
        data determine nothing."""
        return self.uncertainty.covariance

    @property
    def standard_errors(self) -> dict[str, float]:
        return dict(zip(self.names, self.uncertainty.standard_errors.tolist()))

    @cached_property
    def _profiles(self) -> list[Profile]:
        return self.uncertainty.profiles()

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The 95% interval of each parameter, by profile likelihood; infinite on a side
        where the data set no limit."""
        return {profile.name: profile.interval for profile in self._profiles}

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What the data say of each parameter: determined, weakly, or not; and why."""
        return tuple(verdicts(self.uncertainty, self._profiles))

    @property
    def chi_square(self) -> float:
        """The sum of squares in units of the noise, without what priors add; without
        given noise it is about the degrees of freedom."""
        if self.setup.model.huber is None and self.data.sd is not None:
            return float(np.nansum(self.residuals**2))
        return float(self.search_result.best.loss[0]) / self.uncertainty.unit

    @property
    def freedom(self) -> int:
        """Degrees of freedom: measured values less determined directions."""
        return self.uncertainty.freedom

    def profile(self, name: str, level: float = 0.95) -> Profile:
        """The profile likelihood of one parameter, with its interval."""
        check_level(level)
        index = self._index(name)
        known = self._profiles if level == 0.95 else self.uncertainty.profiles(level)
        return known[index]

    def plot_profile(self, *names: str) -> Any:
        """A matplotlib figure of profiles (of all parameters by default)."""
        from ..plots import plot_profiles

        chosen = [self._index(name) for name in names] or range(len(self.names))
        return plot_profiles([self._profiles[index] for index in chosen])

    def _check_fit(self) -> None:
        """Where no start had a finite loss, there is nothing to go on from."""
        if not np.isfinite(self.loss):
            raise ValueError(f"There is no fit: {self.message}")

    def _index(self, name: str) -> int:
        if name in self.names:
            return self.names.index(name)
        paths = self.setup.model.free.paths
        if name in paths:
            return paths.index(name)
        raise ValueError(
            f"There is no free parameter {name!r}.{did_you_mean(name, self.names)}"
        )

    @property
    def fitted(self) -> np.ndarray:
        """What the model says at the times of the data, of the shape of `data.x`."""
        return self._observed[..., 0]

    @cached_property
    def _observed(self) -> np.ndarray:
        """What the model says at the times of the data, and its derivatives."""
        model, k = self.setup.model, len(self.data.names)
        return observed(model, self.best, self.data.t, self.steps_per_delay, k)

    @property
    def residuals(self) -> np.ndarray:
        """Data minus model in units of the noise; NaN where nothing was measured."""
        return (self.data.x - self.fitted) / self._sd

    @property
    def _sd(self) -> np.ndarray:
        return self.search_result.noise if self.data.sd is None else self.data.sd

    def bootstrap(
        self, n: int = 1000, kind: Kind = "parametric", seed: int = 0
    ) -> Bootstrap:
        """Estimates of `n` data sets made again, from the fitted trajectory with
        Gaussian noise (`"parametric"`) or with noise drawn from the residuals
        (`"residual"`). Each fit starts at the estimate; priors stay as they are."""
        self._check_fit()
        verdicts = zip(self.names, self.verdicts)
        undetermined = tuple(name for name, v in verdicts if v.verdict == NOT)
        fitted = self.fitted
        return bootstrap(self.uncertainty, fitted, undetermined, n, kind, seed)

    def sample(
        self, draws: int = 1000, warmup: int = 1000, chains: int = 2, seed: int = 0
    ) -> Any:
        """Samples of the posterior by NUTS, as ArviZ data. The prior is Jeffreys',
        between the bounds, times the fit's own priors; noise levels that are not given
        are sampled too. Needs `pip install 'ddefind[sample]'`."""
        self._check_fit()
        found = self._profiles
        return sample(self.uncertainty, found, draws, warmup, chains, seed)

    def predict(
        self,
        times: Any = None,
        parameters: Mapping[str, Any] | None = None,
        level: float = 0.95,
    ) -> Prediction:
        """What the model says, with its confidence band and, for a new measurement, its
        prediction interval, by the delta method.

        **Arguments**

        - `times`: from 0 on, also beyond the data; a number is the last of 201 times,
          by default that of the data.
        - `parameters`: other values by name, of learned or fixed ones; they count as
          known exactly, and the others stay as sure as they are.
        - `level`: of the band.
        """
        check_level(level)
        self._check_fit()
        at = read_times(times, self.data.T)
        return predict(self.uncertainty, self.problem, at, parameters or {}, level)

    def derived(self, expression: str, level: float = 0.95) -> Derived:
        """A function of the parameters, such as `"r * tau"` or `"b[0] / K"`, with its
        standard error and its interval by the delta method. Names are those of the fit,
        fixed parameters included; functions those of text equations."""
        check_level(level)
        self._check_fit()
        return derive(self.uncertainty, self._known, expression, level)

    def stability(self) -> Stability:
        """The equilibria of the fitted equation near its trajectory: are they stable,
        and with which period do disturbances oscillate?"""
        self._check_fit()
        d = self.problem.dimension
        if self.model is not None:
            names = self.model.states
        elif self.problem.observe is None:
            names = self.data.names
        else:
            names = ("x",) if d == 1 else tuple(f"x[{i}]" for i in range(d))
        return stability(self.uncertainty, np.asarray(self.solution.x), names)

    @property
    def _known(self) -> dict[str, int | float]:
        """Every parameter by short and full name: the number of a free one among the
        estimates, the value of any other."""
        free, vector = self.setup.model.free, parameter_vector(self.problem)
        known: dict[str, int | float] = {}
        for array in free.arrays:
            for name in (array.short, array.name):
                for element, key in enumerate(array.elements(name), start=array.first):
                    source = free.source[element]
                    known[key] = source if source >= 0 else float(vector[element])
        return known

    @cached_property
    def checks(self) -> tuple[ResidualTest, ...]:
        """Tests of the residuals: whiteness, normality and outliers of each quantity,
        and chi-square where the noise is given. None where the model passes through
        the data, or where there is no fit."""
        judged = self.status is not Status.exact and np.isfinite(self.loss)
        if not judged or not np.all(np.isfinite(self.fitted)):
            return ()
        sd = np.broadcast_to(self._sd, self.data.x.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            slopes = self._observed[..., 1:] / sd[..., None]
            directions = slopes @ self.uncertainty.half
        # Slopes may overflow where values do not: then nothing is taken out.
        if not np.all(np.isfinite(directions[np.isfinite(self.data.x)])):
            directions = directions[..., :0]
        residuals, huber = self.residuals, self.setup.model.huber
        if huber is not None:
            residuals = np.clip(residuals, -huber, huber)
        found = residual_checks(self.data, residuals, directions, self.freedom)
        if huber is not None:
            # Outliers are what it was chosen for.
            found = [check for check in found if check.test == WHITE]
        return tuple(found)

    @property
    def failed_checks(self) -> tuple[ResidualTest, ...]:
        """The tests that the residuals fail; a right model fails any of them in 5% of
        fits."""
        return tuple(failed(list(self.checks)))

    @property
    def rejected(self) -> bool:
        """Whether the residuals reject the model: by their order, or by their size
        against given noise."""
        return any(check.test in (WHITE, CHI) for check in self.failed_checks)

    @cached_property
    def criteria(self) -> Criteria:
        """Log-likelihood, AIC, AICc and BIC; `dd.compare` compares them."""
        self._check_fit()
        return criteria(self.data, self.fitted, self.uncertainty.dimension)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return {
            "parameters": self.values,
            "loss": self.loss if np.isfinite(self.loss) else None,
            "status": self.status.name,
            "message": self.message,
            "noise": self.noise,
            "starts": self.starts,
            "seed": self.seed,
            "minima": [
                {
                    "loss": minimum.loss,
                    "starts": minimum.starts,
                    "parameters": dict(zip(self.names, minimum.theta.tolist())),
                }
                for minimum in self.minima
            ],
            "seconds": self.seconds,
        }

    def summary(self) -> list[dict[str, Any]]:
        """A row for each parameter: name, estimate, standard error, 95% interval and
        verdict; None where there is no number."""
        rows = []
        for index, (name, value) in enumerate(self.values.items()):
            low, high = self._profiles[index].interval
            rows.append(
                {
                    "name": name,
                    "estimate": value,
                    "standard_error": _finite(self.standard_errors[name]),
                    "low": _finite(low),
                    "high": _finite(high),
                    "verdict": self.verdicts[index].verdict,
                    "reason": self.verdicts[index].reason,
                }
            )
        return rows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit, with its data and profiles, to a file (JSON), whole or not at
        all. `dd.load` gives it back."""
        write_saved(path, estimate_content(self))

    def __str__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)

    def plot(self) -> Any:
        """A matplotlib figure: data and fitted trajectory, and the residuals."""
        from ..plots import plot_estimate

        return plot_estimate(self)

    def plot_waterfall(self) -> Any:
        """A matplotlib figure: the chi-squares that the starts ended at, sorted."""
        from ..plots import plot_waterfall

        return plot_waterfall(self)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def make_estimate(
    setup: FitSetup,
    problem: Problem,
    search_result: SearchResult,
    seed: int,
    seconds: float,
    model: Equation | None,
) -> Estimate:
    free, best = setup.model.free, search_result.best
    theta = best.theta[0]
    status = _STATUS[int(best.status[0])]
    if search_result.interrupted:
        status = Status.interrupted
    loss = float(best.loss[0])
    plain = not setup.has_unit and len(search_result.noise) == 1
    if plain and np.isfinite(loss):
        loss = float(best.squares[0].sum())
    first = np.where(np.isnan(setup.guess), theta, setup.guess)
    return Estimate(
        problem=free.problem(theta, problem),
        start=free.problem(first, problem),
        data=setup.data,
        names=free.names,
        best=theta,
        loss=loss,
        status=status,
        message=status.value,
        starts=search_result.starts,
        seed=seed,
        seconds=seconds,
        solver=setup.model.solver,
        steps_per_delay=int(best.n[0]),
        setup=setup,
        search_result=search_result,
        model=model,
    )
