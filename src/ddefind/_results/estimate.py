"""The result of least squares: estimates, their precision, tests and predictions."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from .._data.data import Data
from .._data.study_data import each_part, experiment_labels
from .._engine.runge_kutta import AbstractIntegrator
from .._engine.solution import Solution
from .._inference.assessment import Assessment, has_fit, is_rejected
from .._inference.bootstrap import Bootstrap, Kind, bootstrap
from .._inference.covariance import Uncertainty, determined_weights
from .._inference.derived import Derived, derive
from .._inference.explained import Explained
from .._inference.identifiability import NOT_DETERMINED, Verdict
from .._inference.posterior import sample
from .._inference.predict import Prediction, read_times
from .._inference.profile import FoundEnds, Profile
from .._inference.residual_tests import ResidualTest, failed
from .._inference.stability import Stability, stability
from .._inference.system import UNDISTURBED, AbstractSystem
from .._problem.network_weights import (
    count_weights,
    named_indices,
    network_name,
    networks_of,
)
from .._problem.problem import Problem
from .._search.batches import Minimum, SearchResult
from .._search.misfit import Criteria
from .._search.setup import FitSetup
from .._shooting.process_noise import ProcessNoise
from .._util.errors import check_level
from .._util.files import nonfinite_as_none
from .._util.machine import one_blas_thread
from .._util.progress import Progress, Reporter
from .._util.shown import Cells, Shown
from . import printed_table
from .printed_table import limits
from .result import AbstractFit
from .saved_fit import estimate_content
from .status import STATUS, Status

if TYPE_CHECKING:
    from .._equation.equation import Equation

# How progress is shown: by a callback, by a bar (True), or not at all (False).
ShowProgress = bool | Callable[[Progress], None] | None
# Intervals that take less than this many seconds have no bar.
_PATIENCE = 1.0


class FitOrigin(NamedTuple):
    """How a fit was found: the `seed` of its starts, and the `seconds` that it took.

    `histories` are the kinds of history that `history="auto"` compared, the chosen one
    first, each with its BIC less that of the chosen one. `interruption` is a sentence
    on what the fit is if the work was interrupted."""

    seed: int
    seconds: float
    histories: tuple[tuple[str, float], ...] = ()
    interruption: str = Status.interrupted.value


@final
@dataclass(frozen=True, kw_only=True)
class Estimate(AbstractFit):
    """A fit by least squares, at the best minimum that was found, or by multiple
    shooting.

    - `uncertainty`: the model with its data (`setup`), its best minimum
      (`search_result`), and the precision of the estimates by the curvature there.
    - `assessment`: what takes further computing: the intervals, the verdicts and the
      tests of the residuals. It is None where they were left out (by `fit_many`, or by
      `intervals=False`); `with_intervals` adds them.
    - `system`: what the system is taken to be. With `MultipleShooting` it has a
      `process`: the process noise, and the path that it took.
    - `origin`: how the fit was found.

    All else follows from these. The best of `starts` starts was taken, drawn with
    `seed`; `minima` are the distinct minima that were found. `problems` are the learned
    problems of the experiments of a study, and `models` the equations with the inputs
    and doses of each, if it is of texts. Its `experiments` are fits by themselves:
    `fit.experiments["low"].predict()`."""

    uncertainty: Uncertainty = field(repr=False)
    assessment: Assessment | None = field(repr=False)
    system: AbstractSystem = field(repr=False)
    origin: FitOrigin

    # The model with its data

    @property
    def setup(self) -> FitSetup:
        """The model with its data, its noise and the bounds of its parameters."""
        return self.uncertainty.setup

    @cached_property
    def data(self) -> Any:
        """The data, with their own times: a `Data`, or those of a study."""
        data = self.setup.data
        return data.later(self.time_zero) if isinstance(data, Data) else data

    @property
    def models(self) -> "tuple[Equation, ...]":
        """The text equation of each experiment; empty if the model is no text."""
        return self.setup.equations

    @property
    def model(self) -> "Equation | None":
        """The text equation that was fitted, if any."""
        return next(iter(self.models), None)

    @property
    def solver(self) -> AbstractIntegrator:
        return self.setup.model.engine.solver

    @property
    def _steps(self) -> tuple[int, float | None]:
        """The steps per delay, and the largest step if they do not follow from that."""
        setup, n = self.uncertainty.whole.setup, int(self.search_result.best.n[0])
        engine = setup.model.engine
        return engine.reported_steps(n, setup.steps_per_delay, setup.data.T)

    @property
    def steps_per_delay(self) -> int:
        return self._steps[0]

    @property
    def max_step(self) -> float | None:
        return self._steps[1]

    # The minimum

    @property
    def search_result(self) -> SearchResult:
        """The best fit of the search, and all minima that it found."""
        return self.uncertainty.search_result

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the free parameters."""
        return self.setup.model.free.names

    @property
    def best(self) -> np.ndarray:
        """The estimates, by `names`."""
        return self.uncertainty.theta

    @cached_property
    def loss(self) -> float:
        """The weighted sum of squares; of one quantity without given noise the plain
        one."""
        best = self.search_result.best
        return float(self.setup.shown_loss(best.loss, best.squares)[0])

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """The learned problem of each experiment; a single one without a study."""
        return self.setup.problems(self.best)

    @property
    def problem(self) -> Problem:
        """The learned problem; of a study that of its first experiment."""
        return self.problems[0]

    @cached_property
    def start(self) -> Problem:
        """The problem at the user's start values, and at the estimates of all else."""
        guess = self.setup.guess
        return self.setup.problems(np.where(np.isnan(guess), self.best, guess))[0]

    @cached_property
    def minima(self) -> tuple[Minimum, ...]:
        """The distinct minima, best first, with sums of squares in the unit of
        `loss`."""
        best_loss = float(self.search_result.best.loss[0])
        scale = self.loss / best_loss if 0 < best_loss < np.inf else 1.0
        return tuple(m._replace(loss=scale * m.loss) for m in self.search_result.minima)

    # How it was found

    @property
    def status(self) -> Status:
        """How the search ended."""
        if self.search_result.interrupted:
            return Status.interrupted
        return STATUS[int(self.search_result.best.status[0])]

    @property
    def message(self) -> str:
        """The same as a sentence."""
        is_interrupted = self.status is Status.interrupted
        return self.origin.interruption if is_interrupted else self.status.value

    @property
    def starts(self) -> int:
        """How many starts were tried."""
        return self.search_result.starts

    @property
    def seed(self) -> int:
        """The seed of the random starts."""
        return self.origin.seed

    @property
    def seconds(self) -> float:
        """How long the fit took."""
        return self.origin.seconds

    @property
    def histories(self) -> tuple[tuple[str, float], ...]:
        """The kinds of history that were compared, each with its BIC less that of the
        chosen one, which is the first; empty if only one was fitted."""
        return self.origin.histories

    def at(
        self, search_result: SearchResult, seconds: float | None = None
    ) -> "Estimate":
        """Return the fit at another minimum, without intervals."""
        seconds = self.seconds if seconds is None else seconds
        origin = self.origin._replace(seconds=seconds)
        return estimate_at(self.setup, search_result, origin)

    # The experiments of a study

    @property
    def is_part(self) -> bool:
        """Whether this is one experiment of a study. Its uncertainty is that of the
        whole study."""
        return self.uncertainty.is_part

    @cached_property
    def experiments(self) -> dict[str, "Estimate"]:
        """The fit of each experiment of a study by its label, with the estimates of the
        study; empty for a fit of one data set."""
        labels, parts, found = experiment_labels(self.data), self.uncertainty.parts, {}
        pairs = each_part(self.data, self.fitted) if labels else ()
        for label, part, (_, fitted) in zip(labels, parts, pairs):
            minimum = _of_experiment(part, fitted)
            alone = replace(part, search_result=minimum)
            found[label] = replace(self, uncertainty=alone, assessment=None)
        return found

    def _check_one_data_set(self, what: str) -> None:
        """Refuse what needs one experiment of a study."""
        for label in experiment_labels(self.data):
            raise ValueError(
                f"{what} is for one experiment of this study: "
                f"`fit.experiments[{label!r}]`."
            )

    def _check_whole(self, what: str) -> None:
        if self.is_part:
            raise ValueError(
                f"{what} is for the whole study, and this is one of its experiments."
            )

    def _check_there_is_a_fit(self) -> None:
        if not has_fit(self.uncertainty):
            raise ValueError(f"There is no fit: {self.message}")

    # The precision of the estimates

    @property
    def noise(self) -> dict[str, float]:
        """The standard deviation of the noise of each measured quantity, as given or as
        estimated: from the squares of the residuals over the degrees of freedom. If it
        differs from value to value, the root mean square."""
        sd = self.system.noise(self.uncertainty)
        measured = self.setup.measured & np.isfinite(self.loss)
        named = zip(self.data.names, sd.tolist(), measured)
        return {name: value for name, value, is_in in named if is_in}

    @property
    def process(self) -> ProcessNoise | None:
        """The process noise, and the path that the system took; None without it."""
        return self.system.process

    @property
    def process_noise(self) -> dict[str, float] | None:
        """The standard deviation of the process noise of each state, per square root of
        time (a share of the state if `process.is_relative`); None without it."""
        sd = self.system.process_sd
        return None if sd is None else dict(zip(self.state_names, sd.tolist()))

    @cached_property
    def determined_weights(self) -> dict[str, float]:
        """How many weights of each network the data determine, by the keys of
        `networks`; the prior determines the others."""
        whole = self.uncertainty.whole
        names = whole.setup.model.free.names
        return determined_weights(whole, networks_of(self.problem, names))

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
        if self.setup.misfit.knows_variance(self.setup):
            return float(np.nansum(self.residuals**2))
        return (
            float(self.search_result.best.loss[0]) / self.uncertainty.residual_variance
        )

    # Intervals, verdicts and tests: from the assessment

    def with_intervals(
        self, level: float = 0.95, progress: ShowProgress = None
    ) -> "Estimate":
        """Return the same fit with its intervals of the given confidence `level`,
        verdicts and tests of the residuals, which take some further fits. `progress` is
        as in `fit`: by default a terminal has a bar, if it takes more than a second."""
        check_level(level)
        self._check_whole("`with_intervals`")
        if self.assessment is not None and self.assessment.level == level:
            return self
        with Reporter(progress, 1, 1, patience=_PATIENCE) as reporter:
            return self.made_precise(level, reporter)

    def made_precise(self, level: float, reporter: Reporter) -> "Estimate":
        """Return the fit with its assessment, at a better minimum if the intervals come
        across one. The `reporter` shows how many of their ends are found."""
        began = time.perf_counter()
        found = self._counted_ends(reporter)
        with one_blas_thread():
            uncertainty, assessment = self.system.assess(
                self.uncertainty, level, self.seed, found
            )
        seconds = self.seconds + time.perf_counter() - began
        origin = self.origin._replace(seconds=seconds)
        return replace(
            self, uncertainty=uncertainty, assessment=assessment, origin=origin
        )

    def _counted_ends(self, reporter: Reporter) -> FoundEnds:
        """Return what shows how many ends of intervals are found."""
        tau = float(self.setup.delay(self.best[None])[0])
        return lambda found, sought: reporter.show_ends(found, sought, self.loss, tau)

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
        """What the data say about each parameter, by name: determined, weakly
        determined or not determined; and its `reason`."""
        return {verdict.name: verdict for verdict in self._assessed.verdicts}

    def profile(
        self, name: str, level: float = 0.95, progress: ShowProgress = None
    ) -> Profile:
        """Compute the profile likelihood of one parameter, with its interval of the
        given level; the fit already has it for its own level. `progress` is as in
        `with_intervals`."""
        check_level(level)
        self._check_whole("`profile`")
        index = self.setup.model.free.index(name)
        if self.assessment is not None and level == self.assessment.level:
            return self.assessment.profiles[index]
        with Reporter(progress, 1, 1, patience=_PATIENCE) as reporter:
            found = self._counted_ends(reporter)
            return self.system.profile(self.uncertainty, index, level, found)

    @cached_property
    def _values(self) -> np.ndarray:
        return self.system.values(self.uncertainty)

    @property
    def fitted(self) -> np.ndarray:
        """What the model says at the times of the data, of the shape of `data.x`. With
        process noise it is the path that the system took."""
        if self.assessment is not None:
            return self.assessment.fitted
        return self._values[..., 0]

    @property
    def residuals(self) -> np.ndarray:
        """Data minus model in units of the noise; NaN where nothing was measured. With
        process noise the model is what was expected from the values before. Where the
        noise has a model they are quantile residuals, which a right model leaves
        standard Gaussian."""
        return self.system.residuals(self.uncertainty, self.fitted)

    @cached_property
    def checks(self) -> tuple[ResidualTest, ...]:
        """Tests of the residuals: whiteness, normality and outliers of each quantity,
        and chi-square where the noise is given. There are none where the model passes
        through the data, or where there is no fit."""
        if self.assessment is not None:
            return self.assessment.checks
        return self.system.checks(self.uncertainty, self._values)

    @property
    def failed_checks(self) -> tuple[ResidualTest, ...]:
        """The failed tests of the residuals. A right model fails any in 5% of fits."""
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
        return self.system.criteria(self.uncertainty, self.fitted)

    # What follows from the fit

    def predict(
        self,
        times: Any = None,
        parameters: Mapping[str, Any] | None = None,
        level: float = 0.95,
    ) -> Prediction:
        """Predict the observed quantities, each with its confidence band and, for a new
        measurement, its prediction interval, by the delta method.

        **Arguments**

        - `times`: from 0 on (with `history="data"`, from `time_zero` on), also beyond
          the data. A number is the last of 201 times; by default that is the last time
          of the data.
        - `parameters`: other values by name, of learned or fixed parameters. They count
          as known exactly; the uncertainty of the others stays as it is.
        - `level`: of the band.

        With process noise it is the path that the system took and, beyond the data,
        the one to be expected; the bands include the disturbances.
        """
        check_level(level)
        self._check_there_is_a_fit()
        self._check_one_data_set("`predict`")
        at = read_times(times, self.data.T, self.time_zero)
        found = self.system.predict(
            self.uncertainty, self.problem, at, parameters or {}, level
        )
        return replace(found, t=found.t + self.time_zero, data=self.data)

    def derived(self, expression: str, level: float = 0.95) -> Derived:
        """Compute a function of the parameters, such as `"r * tau"` or `"b[0] / K"`,
        with its standard error and its interval by the delta method. It may use the
        names of the fit, those of fixed parameters too, and the functions of text
        equations."""
        check_level(level)
        self._check_there_is_a_fit()
        known = self.setup.indices_or_values()
        return derive(self.uncertainty, known, expression, level)

    def stability(self) -> Stability:
        """Find the equilibria of the fitted equation near its trajectory: whether they
        are stable, and the period with which disturbances oscillate."""
        self._check_there_is_a_fit()
        self._check_one_data_set("`stability`")
        states = self.system.states(self.solution)
        return stability(self.uncertainty, states, self.state_names)

    def bootstrap(
        self, n: int = 1000, kind: Kind = "parametric", seed: int = 0
    ) -> Bootstrap:
        """Estimate again from `n` data sets that are drawn anew: the fitted trajectory
        with Gaussian noise (`"parametric"`) or with noise drawn from the residuals
        (`"residual"`). Each fit starts at the estimate; priors stay as they are."""
        known = self._for_draws("`bootstrap`")
        undetermined = tuple(
            name for name, v in known.verdicts.items() if v == NOT_DETERMINED
        )
        found = bootstrap(known.uncertainty, known.fitted, undetermined, n, kind, seed)
        return replace(found, networks=self.networks)

    def sample(
        self, draws: int = 1000, warmup: int = 1000, chains: int = 2, seed: int = 0
    ) -> Any:
        """Draw samples of the posterior by NUTS, as ArviZ data. The prior is Jeffreys',
        between the bounds, times the fit's own priors; noise levels that are not given
        are sampled too. Needs `pip install 'ddefind[sample]'`."""
        known = self._for_draws("`sample`")
        profiles = list(known._assessed.profiles)
        return sample(known.uncertainty, profiles, draws, warmup, chains, seed)

    def _for_draws(self, what: str) -> "Estimate":
        """Return the fit with its intervals, or refuse what it cannot be drawn for."""
        self._check_there_is_a_fit()
        self._check_whole(what)
        self.system.check_draws(what)
        return self if self.assessment is not None else self.with_intervals()

    # How it is shown and kept

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings for JSON; network weights are only
        counted."""
        named = named_indices(len(self.names), self.networks)
        return {
            "parameters": {self.names[j]: float(self.best[j]) for j in named},
            "networks": {
                network_name(owner): {
                    "weights": len(indices),
                    "determined": self.determined_weights.get(owner),
                }
                for owner, indices in self.networks.items()
            },
            "loss": nonfinite_as_none(self.loss),
            "status": self.status.name,
            "message": self.message,
            "noise": self.noise,
            "process_noise": self.process_noise,
            "starts": self.starts,
            "seed": self.seed,
            "minima": [
                {
                    "loss": each.loss,
                    "starts": each.starts,
                    "parameters": {self.names[j]: float(each.theta[j]) for j in named},
                }
                for each in self.minima
            ],
            "seconds": self.seconds,
        }

    def cells(self) -> Cells:
        return printed_table.cells(self)

    def sentences(self) -> list[str]:
        return [*printed_table.sentences(self), *self._cautions()]

    def shown(self) -> Shown:
        if not np.isfinite(self.loss):
            return Shown([self.message])
        counts = count_weights(self.networks, self.determined_weights)
        return Shown([self.cells(), *counts, "", *self.sentences()])

    def doubts(self) -> list[str]:
        return [*([] if self.status.ok else [self.message]), *self._cautions()]

    def _cautions(self) -> list[str]:
        """Return the warnings that follow from the assessment of a whole fit."""
        if self.assessment is None or self.is_part:
            return []
        return printed_table.cautions(self, self.assessment)

    def file_content(self) -> dict[str, Any]:
        self._check_whole("`save`")
        return estimate_content(self)

    def plot(self, ax: Any = None) -> Any:
        """Return a matplotlib figure: data and fitted trajectory, and the residuals.
        `ax` are axes to draw on: one for each quantity, or also one for its
        residuals."""
        from ..plots import plot_estimate

        return plot_estimate(self, ax)

    def plot_profile(
        self, *names: str, level: float | None = None, ax: Any = None
    ) -> Any:
        """Return a matplotlib figure of profiles, by default of all parameters but the
        weights of networks, with intervals of the confidence `level`, by default that
        of the fit. `ax` are axes to draw on, one for each."""
        from ..plots import plot_profiles

        level = self.level if level is None else level
        named = [self.names[j] for j in named_indices(len(self.names), self.networks)]
        profiles = [self.profile(name, level) for name in names or named]
        return plot_profiles(profiles, level, ax)

    def plot_waterfall(self, ax: Any = None) -> Any:
        """Return a matplotlib figure of the chi-squares at which the starts ended."""
        from ..plots import plot_waterfall

        return plot_waterfall(self, ax)


def estimate_at(
    setup: FitSetup,
    search_result: SearchResult,
    origin: FitOrigin,
    assessment: Assessment | None = None,
    system: AbstractSystem = UNDISTURBED,
) -> Estimate:
    """Return the fit at the minimum that a search found."""
    return Estimate(
        uncertainty=system.uncertainty(setup, search_result),
        assessment=assessment,
        system=system,
        origin=origin,
    )


def _of_experiment(part: Uncertainty, fitted: np.ndarray) -> SearchResult:
    """Return the minimum of one experiment of a study, whose sum of squares is the part
    that belongs to it; `fitted` is the model at its data."""
    setup, result = part.setup, part.search_result
    data, weights = setup.data, result.points.weights
    residuals = np.nan_to_num(data.x) - fitted
    loss = float(np.sum(np.where(weights > 0, weights * residuals**2, 0.0)))
    squares = np.nansum((data.x - fitted) ** 2, axis=0)
    return replace(result, best=result.best.of_loss(part.theta, loss, squares))
