r"""What a fit makes small: the contract of its misfit.

A misfit is chosen once, when the setup of a fit is made: `Squares` (`squares.py`) or,
where the noise has a model, `Likelihood` (`likelihood.py`). What differs between them
is a method here, so that nobody asks which of them a fit has. A misfit is a part of the
`LeastSquaresModel` of compiled programs; that of a study has the arrays of all
experiments, along a first axis, and the study is the sum over them.

*Information criteria* charge the likelihood $L$ of a fit for its $k$ parameters (noise
levels that are not given among them); $n$ is the number of measured values:

$$AIC = 2k - 2\log L, \qquad AIC_c = AIC + \frac{2k(k+1)}{n-k-1}, \qquad
  BIC = k\log n - 2\log L.$$

Every free parameter counts in k, also one on a bound or one that the data do not
determine: the model could have used it. A parameter with a prior counts by the share
that its prior does not determine, so that k need not be a whole number."""

import abc
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import equinox as eqx
import jax
import numpy as np

from .._problem.free_parameters import FreeParameters
from .levenberg_marquardt import Convergence, Priors

if TYPE_CHECKING:
    from .._data.study_data import StudyData
    from .._engine.engine import AbstractSensitivity, Points
    from .batches import RefinedFits, SearchResult
    from .search import DirectedSearch
    from .setup import FitSetup


# The phases of a search, in order, as they are reported to the user.
FIRST_LOOK, SECOND_LOOK = "first look", "second look"
NOISE, FINER_STEPS = "noise", "finer steps"
PHASES = FIRST_LOOK, SECOND_LOOK, NOISE, FINER_STEPS


class AbstractFitted(Protocol):
    """What a misfit reads of a fit: its setup, the result of its search, its degrees of
    freedom, and the information about its free values."""

    @property
    def setup(self) -> "FitSetup": ...
    @property
    def search_result(self) -> "SearchResult": ...
    @property
    def freedom(self) -> Any: ...
    @property
    def information(self) -> np.ndarray: ...


class AbstractMisfit(eqx.Module):
    """What a fit makes small, and how it is found."""

    @property
    @abc.abstractmethod
    def is_plain(self) -> bool:
        """Whether many data sets can be searched for together."""

    # In compiled programs: at the free values `theta` of a `LeastSquaresModel`, with
    # the arguments of `normal_equations`. The `place` of an experiment in the data are
    # the number of its first point and the first one after it, and its last time.

    @abc.abstractmethod
    def equations(self, model, theta, points, place, steps, memory) -> Any:
        """Compute the normal equations of one experiment, without priors; return also
        the last memory."""

    @abc.abstractmethod
    def linearise(self, model, theta, points, steps, memory) -> Any:
        """Compute what a step of Levenberg and Marquardt's method needs, of all
        experiments and with priors: normal equations, or rows that are stored; return
        also the last memory."""

    @abc.abstractmethod
    def matched(self, model, theta, target, priors, start, visit) -> Any:
        """Compute the same for gradient matching, from the weighted rows [r, J] at time
        zero and at all other times: see `gradient_matching.py`."""

    @abc.abstractmethod
    def without_noise(
        self, sensitivity: "AbstractSensitivity", theta: jax.Array
    ) -> "AbstractSensitivity":
        """Drop the derivatives for the noise, on which no trajectory depends."""

    @abc.abstractmethod
    def negligible(self, points: Any, rounding: float) -> tuple[Any, Any]:
        """Return the S that counts as zero, where squared values have this relative
        `rounding`; and the scale of S, None if S is its own."""

    @abc.abstractmethod
    def convergence(self, priors: Priors | None, by_steps: Convergence) -> Convergence:
        """Return what counts as convergence, where the steps of the solver allow for
        `by_steps`."""

    # The setup of a fit.

    @abc.abstractmethod
    def joined(
        self, others: Sequence[Any], free: FreeParameters, data: "StudyData"
    ) -> "AbstractMisfit":
        """Return the misfit of a study with the joint values `free`, in whose
        experiments it is this one and the `others`."""

    @abc.abstractmethod
    def points(self, setup: "FitSetup", noise: np.ndarray | None = None) -> Any:
        """Return the data with their weights. Where these are not known they are those
        of the `noise` levels, one for each quantity, or one."""

    @abc.abstractmethod
    def explored(self, setup: "FitSetup") -> "FitSetup":
        """Return the setup of the weighted squares that explore for this misfit."""

    @abc.abstractmethod
    def natural_sizes(self, setup: "FitSetup") -> np.ndarray:
        """Return the natural size of each free value; 1 where nothing is known."""

    @abc.abstractmethod
    def knows_variance(self, setup: "FitSetup") -> bool:
        """Whether the weights are those of the noise, so that S is a chi-square."""

    # The search.

    @abc.abstractmethod
    def margin(self, setup: "FitSetup", lowest: float, factor: float) -> float:
        """Return by how much S may be above the `lowest` one, if it is chi-square that
        is larger by this `factor`."""

    @abc.abstractmethod
    def looks(
        self, search: "DirectedSearch"
    ) -> "Generator[SearchResult, None, tuple[RefinedFits, Points, int]]":
        """Explore, and estimate the noise. Yield the result after each phase; return
        the fits, the points with their final weights, and the number of starts."""

    @abc.abstractmethod
    def noise_levels(self, setup: "FitSetup", fits: "RefinedFits") -> np.ndarray:
        """Return the standard deviation of each quantity's noise, given or estimated
        from the first fit."""

    # The noise of a fit: residuals, simulated and new values, criteria. `fitted` is the
    # model at the times of the data.

    @abc.abstractmethod
    def knows_noise(self, setup: "FitSetup") -> bool:
        """Whether the noise is given, and nothing of it was learned."""

    @abc.abstractmethod
    def excess(self, fit: AbstractFitted, q: float) -> float:
        """Return the root of the excess chi-square at the ends of a profile interval
        that is 2 q standard errors wide where a profile is a parabola."""

    @abc.abstractmethod
    def residuals(self, fit: AbstractFitted, fitted: np.ndarray) -> np.ndarray:
        """Compute the residuals in units of the noise, [N, k]; NaN where nothing was
        measured."""

    @abc.abstractmethod
    def sizes(self, fit: AbstractFitted, fitted: np.ndarray) -> np.ndarray:
        """Compute the unit of a change of each prediction: one over the square root of
        the information of the value about it, which is the standard deviation of
        Gaussian noise."""

    @abc.abstractmethod
    def simulated(
        self, fit: AbstractFitted, fitted: np.ndarray, n: int, kind: str, random: Any
    ) -> Any:
        """Simulate the points of `n` data sets, with random numbers from `random`."""

    @abc.abstractmethod
    def new_sizes(self, fit: AbstractFitted, mean: np.ndarray) -> np.ndarray:
        """Return the size of the noise of new values at predictions [times, k]."""

    @abc.abstractmethod
    def new_ends(
        self, fit: AbstractFitted, mean: np.ndarray, sd: np.ndarray, q: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends between which new values are expected, `q` standard
        deviations from predictions with the uncertainty `sd`."""

    @abc.abstractmethod
    def without_priors(self, fit: AbstractFitted, noise: np.ndarray) -> float:
        """Return S without what priors and corrections add. Where the noise is not
        known, it is weighted by the `noise` levels; of one quantity it is the plain sum
        of squares."""

    @abc.abstractmethod
    def deviances(self, setup: "FitSetup", fits: "RefinedFits") -> np.ndarray:
        """Return minus two log-likelihoods of fits, up to a constant of the data."""

    @abc.abstractmethod
    def comparable(self, setup: "FitSetup", fits: "RefinedFits") -> np.ndarray:
        """Return what can be compared between fits whose weights may differ."""

    @abc.abstractmethod
    def criteria(self, fit: AbstractFitted, fitted: np.ndarray) -> "Criteria":
        """Compute the information criteria of a fit."""

    # Words for the sentences that are printed with a fit.

    minimised: ClassVar[str]
    kind_of_residuals: ClassVar[str]
    # What is wrong with residuals of another distribution, and what it means.
    not_normal: ClassVar[tuple[str, str]]

    @abc.abstractmethod
    def title(self, setup: "FitSetup") -> str:
        """Return the noise models in words, empty if there are none."""

    @abc.abstractmethod
    def about_noise(
        self, setup: "FitSetup", degrees: str, sizes: str, chi_square: str
    ) -> str:
        """Describe the number of values, the degrees of freedom, and the noise: the
        `sizes` of its quantities and the chi-square, if that is known."""

    @abc.abstractmethod
    def chi_square_is_off(self, setup: "FitSetup", *, is_large: bool) -> str:
        """Return what it means that chi-square is too large, or too small."""

    @abc.abstractmethod
    def about_outlier(self, setup: "FitSetup", quantity: str) -> str:
        """Return what else may be done about an outlier of a quantity."""

    @abc.abstractmethod
    def about_growth(self, setup: "FitSetup", quantity: str) -> tuple[str, str]:
        """Return what it means that residuals grow with the level of a quantity, and
        which other noise there is."""


class Criteria(NamedTuple):
    """Log-likelihood and information criteria of a fit. `parameters` counts the free
    parameters and the noise levels that were not given."""

    parameters: float
    log_likelihood: float
    aic: float
    aicc: float
    bic: float


def criteria_of(deviance: float, k: float, n: int) -> Criteria:
    """Compute the criteria for k parameters and n values."""
    aic = deviance + 2 * k
    aicc = aic + 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else np.inf
    return Criteria(k, -0.5 * deviance, aic, aicc, deviance + k * np.log(n))
