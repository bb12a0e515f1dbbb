"""What least squares returns: a record of the best fit, with thin methods on it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from .._equation.equation import Equation
from .._inference.assessment import Assessment
from .._inference.bootstrap import Bootstrap, Kind, bootstrap, check_level
from .._inference.derived import Derived, derive
from .._inference.disturbed import predict_disturbed
from .._inference.identifiability import NOT_DETERMINED
from .._inference.posterior import sample
from .._inference.predict import Prediction, predict, read_times
from .._inference.stability import Stability, stability
from .._least_squares.search import SearchResult
from .._least_squares.setup import FitSetup
from .._problem.network_weights import named_indices
from .._problem.problem import Problem
from .._shooting.process_noise import ProcessNoise
from .cautions import cautions
from .estimate_record import AbstractEstimate
from .report import as_dict, as_html, as_text, cells, sentences, table
from .save import estimate_content
from .search_fields import search_fields


@final
@dataclass(frozen=True, kw_only=True)
class Estimate(AbstractEstimate):
    """A fit by least squares, at the best minimum that was found, or by multiple
    shooting.

    The best of `starts` starts was taken, drawn with `seed`; `minima` are the distinct
    minima that were found. `assessment` holds what takes further computing: the
    intervals, the verdicts and the tests of the residuals. It is None where they were
    left out (by `fit_many`, or by `intervals=False`); `with_intervals` adds them.
    `histories` are the kinds of history that `history="auto"` compared, the chosen one
    first, each with its BIC less that of the chosen one.

    `process` holds the process noise of a fit by `MultipleShooting`, and the path that
    the system took; it is None for one by `LeastSquares`.

    A study has `problems`, one for each experiment (and `models`, if it is of texts:
    the equations with the inputs and doses of each), and its `experiments` are fits by
    themselves: `fit.experiments["low"].predict()`. In such a part of a study, `study`
    is the whole fit and `experiment` the number of the part."""

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

        With process noise it is the path that the system took and, beyond the data,
        the one to be expected; the bands include the disturbances.
        """
        check_level(level)
        self._check_there_is_a_fit()
        self._check_one_data_set("`predict`")
        at = read_times(times, self.data.T, self.time_zero)
        if self.process is not None:
            if parameters:
                self._refuse("`predict` with other `parameters`")
            return predict_disturbed(self.uncertainty, self.process, at, level)
        said = predict(self.uncertainty, self.problem, at, parameters or {}, level)
        return replace(said, t=said.t + self.time_zero, data=self.data)

    def derived(self, expression: str, level: float = 0.95) -> Derived:
        """A function of the parameters, such as `"r * tau"` or `"b[0] / K"`, with its
        standard error and its interval by the delta method. It may use the names of the
        fit, those of fixed parameters too, and the functions of text equations."""
        check_level(level)
        self._check_there_is_a_fit()
        known = self.setup.indices_or_values(self.problems or (self.problem,))
        return derive(self.uncertainty, known, expression, level)

    def stability(self) -> Stability:
        """The equilibria of the fitted equation near its trajectory: whether they are
        stable, and the period with which disturbances oscillate."""
        self._check_there_is_a_fit()
        self._check_one_data_set("`stability`")
        states = self.solution.x if self.process is None else self.process.x
        return stability(self.uncertainty, np.asarray(states), self.state_names)

    def bootstrap(
        self, n: int = 1000, kind: Kind = "parametric", seed: int = 0
    ) -> Bootstrap:
        """The estimates of `n` data sets that are made again, from the fitted
        trajectory with Gaussian noise (`"parametric"`) or with noise drawn from the
        residuals (`"residual"`). Each fit starts at the estimate; priors stay as they
        are."""
        self._check_there_is_a_fit()
        self._check_whole("`bootstrap`")
        if self.process is not None:
            self._refuse("`bootstrap`")
        known = self if self.assessment is not None else self.with_intervals()
        undetermined = tuple(
            name for name, v in known.verdicts.items() if v == NOT_DETERMINED
        )
        found = bootstrap(known.uncertainty, known.fitted, undetermined, n, kind, seed)
        return replace(found, networks=self.networks)

    def sample(
        self, draws: int = 1000, warmup: int = 1000, chains: int = 2, seed: int = 0
    ) -> Any:
        """Samples of the posterior by NUTS, as ArviZ data. The prior is Jeffreys',
        between the bounds, times the fit's own priors; noise levels that are not given
        are sampled too. Needs `pip install 'ddefind[sample]'`."""
        self._check_there_is_a_fit()
        self._check_whole("`sample`")
        if self.process is not None:
            self._refuse("`sample`")
        known = self if self.assessment is not None else self.with_intervals()
        profiles = list(known._assessed.profiles)
        return sample(known.uncertainty, profiles, draws, warmup, chains, seed)

    def _refuse(self, what: str) -> None:
        raise ValueError(
            f"{what} is for fits by `LeastSquares()`; this one is by "
            "`MultipleShooting()`, whose disturbances it does not know."
        )

    # How it is shown and kept

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return as_dict(self)

    def summary(self) -> list[dict[str, Any]]:
        """A row for each parameter, without the weights of networks: name, estimate,
        standard error and, unless they were left out, its interval and verdict. None
        stands where there is no number."""
        return table(self)

    def cells(self) -> list[tuple[str, ...]]:
        """The printed table, with its header."""
        return cells(self)

    def sentences(self) -> list[str]:
        """What is printed below the table."""
        return sentences(self)

    def doubts(self) -> list[str]:
        """Those of the sentences that warn of something."""
        found = [] if self.status.ok else [self.message]
        if self.assessment is not None and self.study is None:
            found += cautions(self, self.assessment)
        return found

    def file_content(self) -> dict[str, Any]:
        """What `save` writes, as plain words and numbers."""
        self._check_whole("`save`")
        return estimate_content(self)

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def plot(self, ax: Any = None) -> Any:
        """A matplotlib figure: data and fitted trajectory, and the residuals. `ax` are
        axes to draw on: one for each quantity, or also one for its residuals."""
        from ..plots import plot_estimate

        return plot_estimate(self, ax)

    def plot_profile(
        self, *names: str, level: float | None = None, ax: Any = None
    ) -> Any:
        """A matplotlib figure of profiles, by default of all parameters but the weights
        of networks, with intervals of the confidence `level`, by default that of the
        fit. `ax` are axes to draw on, one for each."""
        from ..plots import plot_profiles

        level = self.level if level is None else level
        named = [self.names[j] for j in named_indices(len(self.names), self.networks)]
        profiles = [self.profile(name, level) for name in names or named]
        return plot_profiles(profiles, level, ax)

    def plot_waterfall(self, ax: Any = None) -> Any:
        """A matplotlib figure: the chi-squares at which the starts ended, sorted."""
        from ..plots import plot_waterfall

        return plot_waterfall(self, ax)


def make_estimate(
    setup: FitSetup,
    problem: Problem | tuple[Problem, ...],
    search_result: SearchResult,
    seed: int,
    seconds: float,
    equation: Equation | None,
    assessment: Assessment | None = None,
    process: ProcessNoise | None = None,
) -> Estimate:
    """Make the estimate of a search; `problem` has the values of what is fixed. For a
    study there is one for each experiment."""
    return Estimate(
        **search_fields(setup, problem, search_result),
        seed=seed,
        seconds=seconds,
        model=equation,
        assessment=assessment,
        process=process,
    )
