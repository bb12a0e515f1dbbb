r"""The likelihood of a fit whose noise has a model of its own, as normal equations.

In place of a sum of squares a fit minimises

$$S(\theta) = \sum_{j,i} D_i(\hat x_i(t_j; \theta), \eta_i; x_{ji}) +
  \sum_i p_i\,\overline{\log I_i(F; \eta_i)} + \text{priors},$$

where $D_i$ is the deviance of quantity i (see `noise/_abstract.py`), and $\eta_i$ are
the parameters of its noise, which are among the free values $\theta$. The Fisher
information of the noise takes the place of the squares of the Jacobian: Levenberg and
Marquardt's steps are then those of Fisher's scoring.

The second sum is the correction for the degrees of freedom that the other parameters
cost. Maximum likelihood takes noise for smaller than it is, since a fit follows a part
of it. $I_i$ is the information about a prediction, and the bar is its mean over typical
predictions F. For Gaussian noise of one size s it is $-2\log s$: the logarithm of the
size then counts $N_i - p_i$ times instead of $N_i$ times, as in an unbiased variance.
The free values other than those of the noise are divided among the quantities in
proportion to their numbers of values, $p_i = p N_i / N$.

A search explores with weighted least squares (`Likelihood.explored`): the weights are
those of the noise at a smooth curve through the data, and its parameters rest. The
likelihood then refines what was found, with the noise as large as the residuals
show."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._data.data import Data
from .._data.smoothing import scatter, smooth, spread
from .._data.study_data import Records, each_part, parts_of, with_parts
from .._loss.losses import SumOfSquares
from .._problem.free_parameters import FreeParameters
from .._problem.parameters import noise_parameter
from .._problem.problem import Problem, with_noise
from .._util import wording
from .._util.arrays import read
from ..noise._abstract import AbstractNoise, Terms, above_zero
from ..noise._gaussian import AbstractGaussian, Given, LogNormal
from .batches import (
    SURVIVORS,
    RefinedFits,
    SearchResult,
    keep_distinct,
    refine,
    refine_promising,
)
from .bounds import Bounds
from .levenberg_marquardt import NormalEquations, Priors
from .misfit import NOISE, AbstractFitted, AbstractMisfit, criteria_of
from .normal_equations import normal_equations
from .setup import FitSetup
from .squares import Squares, given_noise, noise_from_residuals

if TYPE_CHECKING:
    from .normal_equations import LeastSquaresModel


# The number of typical predictions for the correction of degrees of freedom.
_LEVELS = 16
# A level of a positive quantity, or of one with proportional noise, counts as at least
# this share of the median in weights; and a count as at least this large.
_LEAST_LEVEL, _LEAST_COUNT = 0.1, 0.5
# What counts as zero for a positive quantity, as a share of its typical size.
_SMALL = 1e-6


class NoisyPoints(NamedTuple):
    """The measured values, in the order of time. A weight is zero where nothing was
    measured, the inverse variance where noise is given, and else one. `below` marks the
    values that are only known to be below the number; it is None if there are none."""

    times: Any  # [N]
    values: Any  # [N, k]
    weights: Any  # [N, k]
    below: Any  # [N, k]


@final
class Likelihood(AbstractMisfit):
    """The likelihood of noise that has models, and what it needs beside these.

    - `quantities`: the names of the k quantities.
    - `others`: the number of free values that do not belong to the noise; they are the
      first.
    - `choices`: for each quantity with noise, the matrix [m, p] that takes the m
      parameters of its noise from the free values. A row of a known one is zero.
    - `small` [k]: what counts as zero for a positive quantity.
    - `levels` [levels, k]: typical predictions.
    - `charges` [k] and `rests` [k]: the numbers $p_i$ and $1 - p_i / N_i$.
    - `references` [k]: the mean of log I with the noise at the start, which is
      subtracted, so that the correction does not depend on units.
    - `has_below` and `most`: whether there are values of each quantity that are only
      known to be below a limit, and the largest limit of a count.
    - `count`: the number of values.
    - `exploring`: the sum of squares with which a search explores."""

    quantities: tuple[str, ...] = eqx.field(static=True)
    others: int = eqx.field(static=True)
    choices: dict[str, Any]
    small: Any
    levels: Any
    charges: Any
    rests: Any
    references: Any
    has_below: tuple[bool, ...] = eqx.field(static=True)
    most: int = eqx.field(static=True)
    count: Any
    exploring: Squares

    @property
    def is_plain(self) -> bool:
        return False

    @classmethod
    def of(cls, problem: Problem, data: Data, free: FreeParameters) -> "Likelihood":
        """Return the likelihood of a problem whose noise has models."""
        noise, rough = problem.noise or {}, _rough(data, problem)
        k, p = len(data.names), len(free.names)
        others = p - free.noise_count
        here, sizes = np.isfinite(data.x), spread(data)
        counts = here.sum(axis=0)
        levels = np.ones((_LEVELS, k))
        choices, charges, references = {}, np.zeros(k), np.zeros(k)
        for q, name in enumerate(data.names):
            if name not in rough:
                continue
            model = noise[name]
            sources = [_source(free, name, field) for field in model.names]
            choices[name] = np.array([np.arange(p) == j for j in sources])
            choices[name] = choices[name].reshape(-1, p)
            shares = np.linspace(0.5 / _LEVELS, 1 - 0.5 / _LEVELS, _LEVELS)
            levels[:, q] = np.quantile(rough[name].levels, shares)
            if np.any(choices[name]):
                charges[q] = min(others * counts[q] / counts.sum(), 0.9 * counts[q])
                eta, at = jnp.asarray(rough[name].eta), jnp.asarray(levels[:, q])
                references[q] = float(mean_log_information(model, eta, at))
        below = is_below(data)
        is_count = [name in rough and noise[name].is_count for name in data.names]
        limits = data.x[below & np.array(is_count)]
        has_outliers = any(each.has_outliers for each in noise.values())
        return cls(
            quantities=data.names,
            others=others,
            choices={name: choice.astype(float) for name, choice in choices.items()},
            small=_SMALL * sizes,
            levels=levels,
            charges=charges,
            rests=1 - charges / np.maximum(counts, 1),
            references=references,
            has_below=tuple(bool(np.any(column)) for column in below.T),
            most=int(np.ceil(limits.max())) if len(limits) else 0,
            count=np.asarray(float(counts.sum())),
            exploring=Squares.of(others, is_robust=has_outliers),
        )

    # In compiled programs.

    def equations(self, model, theta, points, place, steps, memory):
        rows_of_data, end = place
        models = noise_models(model, theta)
        sensitivity = model.marching(theta, steps, end)
        first = {}  # the place of the first parameter of each noise model
        size = 1 + self.others
        for name, noise in models.items():
            first[name] = size
            size += len(noise.names)

        def rows(name: str, derivatives: jax.Array) -> jax.Array:
            """Return the derivatives of a prediction and of its noise's parameters, for
            1, for the free values of the trajectory, and for the parameters of all
            noise models."""
            m = len(models[name].names)
            place = jnp.arange(size)
            chosen = first[name] + jnp.arange(m)
            units = jnp.where(place[None] == chosen[:, None], 1.0, 0.0)
            zero = jnp.zeros(size - 1 - derivatives.shape[0])
            top = jnp.concatenate([jnp.zeros(1), derivatives, zero])
            return jnp.concatenate([top[None], units])

        def add(total: NormalEquations, j, observed):
            weight, value = read(points.weights, j), read(points.values, j)
            gram, squares = total
            for q, name in enumerate(self.quantities):
                if name not in models:
                    continue
                is_below = None if points.below is None else read(points.below, j)[q]
                f, derivatives = observed[q, 0], observed[q, 1:]
                noise, w = models[name], weight[q]
                if noise.is_positive:
                    f, slope = jax.value_and_grad(above_zero)(f, self.small[q])
                    derivatives = slope * derivatives
                terms = _terms(self, q, noise, f, w, value[q], is_below)
                # Where nothing was measured, nothing is added.
                terms = jax.tree.map(lambda a, w=w: jnp.where(w > 0, a, 0.0), terms)
                gram = _added(gram, terms, rows(name, derivatives))
                is_square = w > 0 if is_below is None else (w > 0) & ~is_below
                square = jnp.where(is_square, (observed[q, 0] - value[q]) ** 2, 0.0)
                squares += jnp.where(jnp.arange(squares.shape[0]) == q, square, 0.0)
            return NormalEquations(gram, squares)

        zero = NormalEquations(
            jnp.zeros((size, size)), jnp.zeros(jnp.shape(points.values)[1:])
        )
        total, memory = sensitivity.visit(points, rows_of_data, memory, add, zero)
        gram = total.gram
        for q, name in enumerate(self.quantities):
            if name in models:
                gram = _corrected(self, q, models[name], gram, first[name])
        chosen = _choice(self, models, first, size, theta.shape[0])
        half = jnp.sum(chosen[:, :, None] * gram[:, None, :], axis=0)
        gram = jnp.sum(half[:, :, None] * chosen[None], axis=1)
        return NormalEquations(gram, total.squares), memory

    def linearise(self, model, theta, points, steps, memory):
        return normal_equations(model, theta, points, steps, memory)

    def matched(self, model, theta, target, priors, start, visit):
        return self.exploring.matched(model, theta, target, priors, start, visit)

    def without_noise(self, sensitivity, theta):
        noise, join = theta[self.others :], sensitivity.join
        return replace(
            sensitivity,
            theta=theta[: self.others],
            join=lambda others: join(jnp.concatenate([others, noise])),
        )

    def negligible(self, points, rounding):
        return -jnp.inf, jnp.sum(self.count)

    def convergence(self, priors, by_steps):
        return by_steps

    # The setup of a fit.

    def joined(self, others, free, data):
        """Stack the likelihoods along a first axis over the experiments.

        The joint values that do not belong to the noise are divided among experiments
        and quantities in proportion to their numbers of values."""
        known = (self, *others)
        p = len(free.names) - free.noise_count
        counts = np.array([np.isfinite(part.x).sum(axis=0) for part in data.parts])
        shares = np.minimum(p * counts / counts.sum(), 0.9 * counts)
        charges = np.where([each.charges > 0 for each in known], shares, 0.0)
        has_below = tuple(map(any, zip(*(each.has_below for each in known))))
        most = max(each.most for each in known)
        exploring = self.exploring.joined([], free.without_noise(), data)
        alike = [
            replace(
                each,
                charges=charge,
                rests=1 - charge / np.maximum(count, 1),
                has_below=has_below,
                most=most,
                exploring=exploring,
            )
            for each, charge, count in zip(known, charges, counts)
        ]
        return jax.tree.map(lambda *arrays: np.stack(arrays), *alike)

    def points(self, setup, noise=None):
        """Return the data: the weight of a measured value is one, or that of its given
        standard deviation."""
        each = [SumOfSquares().prepare(part).points for part in parts_of(setup.data)]
        times, values, given = map(np.concatenate, zip(*each))
        weights = np.where(np.isfinite(setup.data.x), 1.0, 0.0)
        models = noise_of(setup)
        for q, name in enumerate(setup.data.names):
            if isinstance(models.get(name), Given):
                weights[:, q] = given[:, q]
        return NoisyPoints(times, values, weights, setup.data.below)

    def explored(self, setup):
        """Return the fit by weighted least squares, with the weights of the noise at a
        smooth curve."""
        model, priors = setup.model, setup.model.priors
        free, local = (
            each.model.free.without_noise() for each in (setup, setup.parts[0])
        )
        p = len(free.names)
        plain = replace(
            model,
            free=free,
            learned=with_noise(model.learned, None),
            fixed=with_noise(model.fixed, None),
            priors=None if priors is None else Priors(*(each[:p] for each in priors)),
            misfit=self.exploring,
            experiments=model.experiments.without_noise(p),
        )
        return replace(
            setup,
            model=plain,
            data=_weighted(setup),
            lower=setup.lower[:p],
            upper=setup.upper[:p],
            guess=setup.guess[:p],
            is_history=setup.is_history[:p],
            is_frequency=setup.is_frequency[:p],
            is_given=setup.is_given[:, :p],
            joint=setup.joint.without_noise(len(local.names)),
        )

    def natural_sizes(self, setup):
        sizes = setup.exploring.natural_sizes
        return np.concatenate([sizes, np.abs(setup.guess[len(sizes) :])])

    def knows_variance(self, setup):
        return True

    # The search.

    def margin(self, setup, lowest, factor):
        return (factor - 1) * setup.count

    def looks(self, search):
        """Refine by likelihood what weighted least squares explores."""
        setup = search.setup
        points, plain = setup.points(), setup.exploring

        def refined(kept: RefinedFits) -> RefinedFits:
            theta = _with_noise_parameters(setup, kept)
            fits = refine_promising(setup, theta, points, setup.steps(theta))
            return replace(fits, starts=kept.starts)

        def result(fits: RefinedFits, start_count: int) -> SearchResult:
            best = fits.take([int(np.argmin(fits.loss))])
            noise = noise_from_residuals(setup, best)
            return search.result(fits, points, noise, start_count)

        if search.starts == 1 and np.isfinite(setup.guess).all():
            theta, start_count = setup.guess[None], 1
            fits = refine_promising(setup, theta, points, setup.steps(theta))
        else:
            noise = given_noise(plain.data)
            assert noise is not None
            for found, start_count, phase in search.explore(
                plain, plain.points(), noise
            ):
                fits = refined(keep_distinct(plain, found, 1))
                yield result(fits, start_count)
                search.report(phase, found)
            fits = refined(keep_distinct(plain, found, SURVIVORS))
        yield result(fits, start_count)
        search.report(NOISE, fits)
        return fits, points, start_count

    def noise_levels(self, setup, fits):
        return noise_from_residuals(setup, fits)

    # The noise of a fit: residuals, simulated and new values, criteria.

    def knows_noise(self, setup):
        return setup.model.free.noise_count == 0

    def excess(self, fit, q):
        # The size of the noise is fitted again along a profile: where Student's
        # statistic is t, the excess is freedom * log(1 + t^2 / freedom).
        if self.knows_noise(fit.setup):
            return q
        return float(np.sqrt(fit.freedom * np.log1p(q**2 / fit.freedom)))

    def residuals(self, fit, fitted):
        return _by_parts(_quantile_residuals, fit, fitted)

    def sizes(self, fit, fitted):
        return 1 / _by_parts(_information_roots, fit, fitted)

    def simulated(self, fit, fitted, n, kind, random):
        """A simulated value below a limit is only known to be below it: the limit of
        its own time or, where all limits of a quantity are the same, this one."""
        if kind == "residual":
            raise ValueError(
                'With a noise model `kind` must be "parametric": the noise differs '
                "from value to value."
            )
        points: Any = fit.search_result.points
        times, _, weights, below = points

        def simulate(part: FitSetup, theta: np.ndarray, fitted: np.ndarray):
            return _simulated(part, theta, fitted, n, random)

        values, is_below = _by_parts(simulate, fit, fitted, axis=2)
        return NoisyPoints(
            np.broadcast_to(times, (n, *np.shape(times))),
            values,
            np.broadcast_to(weights, (n, *np.shape(weights))),
            None if below is None else is_below.astype(bool),
        )

    def new_sizes(self, fit, mean):
        sizes = np.zeros(mean.shape)
        for noise in fitted_noise(fit.setup, fit.search_result.best.theta[0]):
            f = mean[:, noise.column]
            sizes[:, noise.column] = noise.model.size(f, noise.usual)
        return sizes

    def new_ends(self, fit, mean, sd, q):
        low, high = mean - q * sd, mean + q * sd
        for noise in fitted_noise(fit.setup, fit.search_result.best.theta[0]):
            c = noise.column
            low[:, c], high[:, c] = noise_interval(noise, mean[:, c], sd[:, c], q)
        return low, high

    def without_priors(self, fit, noise):
        return float(self.deviances(fit.setup, fit.search_result.best)[0])

    def deviances(self, setup, fits):
        """Return what fits minimise, without the priors and without the correction for
        degrees of freedom."""
        return fits.loss - np.array([_beside(setup, theta) for theta in fits.theta])

    def comparable(self, setup, fits):
        return fits.loss

    def criteria(self, fit, fitted):
        """Compute the criteria at the greatest likelihood."""
        setup, result = fit.setup, fit.search_result
        charges, rests = 0 * self.charges, np.ones_like(self.rests)
        plain = replace(self, charges=charges, rests=rests)
        plain = replace(setup, model=replace(setup.model, misfit=plain))
        best = refine(plain, result.best.theta, result.points, result.best.n)
        # Where nothing is better, the first fit counts.
        deviance = min(
            plain.misfit.deviances(plain, best)[0],
            self.deviances(setup, result.best)[0],
        )
        free = setup.free_count(fit.information)
        return criteria_of(float(deviance), free, setup.count)

    # Words.

    minimised: ClassVar[str] = "minus twice the log-likelihood"
    kind_of_residuals: ClassVar[str] = (
        "quantile residuals: values of a standard Gaussian variable with the same "
        "cumulative probability as the measured values have in the noise model"
    )
    not_normal: ClassVar[tuple[str, str]] = (
        "do not follow this noise model",
        "compare other noise models",
    )

    def title(self, setup):
        models = noise_of(setup)
        if len(set(map(str, models.values()))) == 1:
            return str(next(iter(models.values())))
        return ", ".join(
            f"{name} {models[name]}" for name in setup.data.names if name in models
        )

    def about_noise(self, setup, degrees, sizes, chi_square):
        below = is_below(setup.data).sum()
        values = f"{setup.count} values" + (f" ({below} below limits)" if below else "")
        return f"{values}, {degrees} of freedom; noise: {self.title(setup)}."

    def chi_square_is_off(self, setup, *, is_large):
        if not any(model.is_count for model in noise_of(setup).values()):
            return f"the given noise is too {'small' if is_large else 'large'}"
        if not is_large:
            return "the counts scatter less than Poisson's"
        other = wording.noise("negative-binomial")
        return f"the counts scatter more than Poisson's; fit with {other}"

    def about_outlier(self, setup, quantity):
        if noise_of(setup)[quantity].is_count or setup.data.sd is not None:
            return ""
        return f", or fit with {wording.noise('student')}"

    def about_growth(self, setup, quantity):
        return "compare noise that grows more with the level", ""


def is_below(data: Records) -> np.ndarray:
    """Whether each value is only known to be below a limit."""
    return np.zeros(data.x.shape, bool) if data.below is None else data.below


class _Rough(NamedTuple):
    """The levels of a quantity where it was measured, and its noise at first."""

    levels: np.ndarray
    eta: np.ndarray
    size: np.ndarray


def _guessed(data: Data) -> np.ndarray:
    """Return the values, with half of a positive limit for those below one."""
    x = data.x.copy()
    below = is_below(data)
    x[below & (x > 0)] /= 2
    return x


def _rough(data: Data, problem: Problem) -> dict[str, _Rough]:
    """Estimate levels and noise of each quantity whose noise has a model."""
    x, noise = _guessed(data), problem.noise or {}
    here = np.isfinite(x)
    filled = Data(data.t, np.where(here.any(axis=0), x, 1.0), names=data.names)
    curve, sizes = smooth(filled), spread(filled)
    found = {}
    for q, name in enumerate(data.names):
        if name not in noise:
            continue
        model, y = noise[name], x[here[:, q], q]
        if len(y) == 0:
            # In an experiment of a study in which the quantity was not measured.
            ones = np.ones(1)
            eta = _known(model, model.start(ones, 0.1 * ones))
            found[name] = _Rough(ones, eta, np.zeros(0))
            continue
        levels = y if curve is None else curve.x(data.t[here[:, q]])[:, q]
        least = _LEAST_LEVEL * float(np.median(np.abs(y)))
        least = max(least, _LEAST_COUNT) if model.is_count else least
        least = max(least, 1e-9 * float(sizes[q]))
        sign = np.where(levels < 0, -1.0, 1.0)
        sign = np.ones_like(sign) if model.is_positive else sign
        levels = sign * np.maximum(sign * levels, least)
        residuals = scatter(data.t[here[:, q]], y)
        if len(residuals) == 0 or not np.any(residuals):
            residuals = np.full(len(y) - 2 if len(y) > 2 else 1, 1e-3 * sizes[q])
        between = levels[1:-1] if len(levels) > 2 else levels[:1]
        eta = _known(model, model.start(between, residuals))
        if isinstance(model, Given):
            assert data.sd is not None
            size = data.sd[here[:, q], q]
        else:
            size = np.maximum(model.size(levels, eta), 1e-6 * sizes[q])
        found[name] = _Rough(levels, eta, size)
    return found


def _known(model: AbstractNoise, eta: np.ndarray) -> np.ndarray:
    """Replace the parameters to begin with by those that are given as constants."""
    fields = [getattr(model, name) for name in model.names]
    pairs = zip(fields, eta.tolist())
    values = [float(a) if isinstance(a, np.ndarray) else b for a, b in pairs]
    return np.array(values, float)


def bound_noise(
    problem: Problem, data: Data, free: FreeParameters, bounds: Bounds
) -> None:
    """Fill in the bounds and start values of the noise's parameters."""
    if problem.noise is None:
        return
    rough, sizes = _rough(data, problem), spread(data)
    for name, model in problem.noise.items():
        q = data.names.index(name)
        usual = model.bounds(float(sizes[q]))
        for field, eta, (low, high) in zip(model.names, rough[name].eta, usual):
            j = _source(free, name, field)
            if j < len(bounds.lower) - free.noise_count:
                continue
            bounds.fill(j, low, high)
            if np.isnan(bounds.guess[j]) and np.isfinite(data.x[:, q]).any():
                inner = _inner(bounds.lower[j], bounds.upper[j])
                bounds.guess[j] = np.clip(eta, *inner)


def _inner(low: float, high: float) -> tuple[float, float]:
    """Return an interval within the bounds, in which a fit may begin."""
    if np.isfinite(low + high):
        margin = 0.01 * (high - low)
        return low + margin, high - margin
    return low * 1.001 if low > 0 else low, high


def _source(free: FreeParameters, quantity: str, field: str) -> int:
    """Return the free value that is a parameter of the noise; -1 if it is known."""
    name = noise_parameter(quantity, field)
    found = (free.source[each.first] for each in free.arrays if each.name == name)
    return next(found, -1)


def noise_of(setup: FitSetup) -> dict[str, AbstractNoise]:
    """Return the noise models of the quantities that have one."""
    return setup.model.problem.noise or {}


def _weighted(setup: FitSetup) -> Records:
    """Return the data with the standard deviations of the noise at a smooth curve."""
    parts = []
    for part in setup.parts:
        data = part.data
        assert isinstance(data, Data)
        x, sd = _guessed(data), np.ones(data.x.shape)
        for name, rough in _rough_of(part).items():
            q = data.names.index(name)
            sd[np.isfinite(x[:, q]), q] = rough.size
        parts.append(data.with_fields(x=x, sd=sd, below=None))
    return with_parts(setup.data, parts)


def _rough_of(part: FitSetup) -> dict[str, _Rough]:
    """Estimate levels and noise in one experiment."""
    assert isinstance(part.data, Data)
    return _rough(part.data, part.model.problem)


def _with_noise_parameters(setup: FitSetup, fits: RefinedFits) -> np.ndarray:
    """Add to the free values of exploring fits the noise that their residuals show."""
    others = len(setup.lower) - setup.model.free.noise_count
    theta = np.repeat(setup.guess[None], len(fits.theta), axis=0)
    theta[:, :others] = fits.theta
    freedom = max(setup.count - others, 1)
    ratios = np.sqrt(np.where(np.isfinite(fits.loss), fits.loss, freedom) / freedom)
    for e, part in enumerate(setup.parts):
        for j, row, value in _noise_values(part, np.clip(ratios, 1e-2, 1e2)):
            place = int(setup.joint.place[e, j])
            if place >= others:
                low, high = _inner(setup.lower[place], setup.upper[place])
                theta[row, place] = np.clip(value, low, high)
    return theta


def _noise_values(
    part: FitSetup, ratios: np.ndarray
) -> Iterator[tuple[int, int, float]]:
    """Yield the noise's parameters in one experiment, if the noise is larger by each of
    the `ratios` than assumed: the numbers of the free value and of the ratio, and the
    value."""
    likelihood: Any = part.model.misfit
    rough = _rough_of(part)
    for name, model in noise_of(part).items():
        choice = np.asarray(likelihood.choices[name])
        for row, ratio in enumerate(ratios.tolist()):
            eta = model.stretched(rough[name].eta, rough[name].levels, ratio)
            for value, chosen in zip(eta, choice):
                if chosen.any():
                    yield int(np.argmax(chosen)), row, float(value)


# Probabilities nearer to zero and one count as these.
_LEAST, _MOST = 1e-300, 1 - 1e-16


class FittedNoise(NamedTuple):
    """Noise model of the quantity in a column, and its parameters `eta`. Noise that is
    given with the data has a parameter for each value."""

    column: int
    model: AbstractNoise
    eta: np.ndarray

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Return the parameters for some of the values."""
        return self.eta[:, rows] if isinstance(self.model, Given) else self.eta

    @property
    def usual(self) -> np.ndarray:
        """The parameters for a new value, whose noise is of the usual size."""
        if isinstance(self.model, Given):
            return np.sqrt(np.nanmean(self.eta**2, axis=1))
        return self.eta


def fitted_noise(part: FitSetup, theta: np.ndarray) -> list[FittedNoise]:
    """Return the noise of each quantity that has a model, in one experiment."""
    data, models = part.data, noise_models(part.model, jnp.asarray(theta))
    found = []
    for column, name in enumerate(data.names):
        if name in models:
            model = models[name]
            eta = np.asarray(model.eta())
            if isinstance(model, Given):
                assert data.sd is not None
                eta = data.sd[:, column][None]
            found.append(FittedNoise(column, model, eta))
    return found


def _by_parts(
    function: Callable[[FitSetup, np.ndarray, np.ndarray], np.ndarray],
    fit: AbstractFitted,
    fitted: np.ndarray,
    axis: int = 0,
) -> np.ndarray:
    """Join `function(part, local values, fitted rows)` of all experiments, whose noise
    may differ, along an axis."""
    setup, theta = fit.setup, fit.search_result.best.theta[0]
    pairs = each_part(setup.data, fitted)
    found = [
        function(part, setup.local(theta, e), rows)
        for e, (part, (_, rows)) in enumerate(zip(setup.parts, pairs))
    ]
    return np.concatenate(found, axis=axis)


def _quantile_residuals(
    part: FitSetup, theta: np.ndarray, fitted: np.ndarray
) -> np.ndarray:
    """Compute the quantile residuals of the data around the `fitted` values; NaN where
    nothing was measured."""
    from scipy.special import ndtri

    data = part.data
    random = np.random.default_rng(0)
    residuals = np.full(data.x.shape, np.nan)
    for noise in fitted_noise(part, theta):
        here = np.isfinite(data.x[:, noise.column])
        model, eta = noise.model, noise.at(here)
        f, y = fitted[here, noise.column], data.x[here, noise.column]
        below = is_below(data)[here, noise.column]
        if isinstance(model, AbstractGaussian):
            exact = (y - f) / model.size(f, eta)
        elif isinstance(model, LogNormal):
            with np.errstate(invalid="ignore", divide="ignore"):
                exact = (np.log(y) - np.log(f)) / np.log(eta[0])
        else:
            high = model.cdf(f, eta, y)
            low = model.cdf(f, eta, y - 1) if model.is_count else high
            share = random.uniform(size=len(y))
            exact = ndtri(np.clip(low + share * (high - low), _LEAST, _MOST))
        limit = np.ceil(y) - 1 if model.is_count else y
        share = random.uniform(size=len(y)) * model.cdf(f, eta, limit)
        censored = ndtri(np.clip(share, _LEAST, _MOST))
        residuals[here, noise.column] = np.where(below, censored, exact)
    return residuals


def _information_roots(
    part: FitSetup, theta: np.ndarray, fitted: np.ndarray
) -> np.ndarray:
    """Compute the square roots of the information of each value about its prediction:
    one over the standard deviation, for Gaussian noise."""
    roots = np.ones(fitted.shape)
    for noise in fitted_noise(part, theta):
        f = fitted[:, noise.column]
        if isinstance(noise.model, Given):
            roots[:, noise.column] = 1 / noise.eta[0]
            continue
        f = np.where(f > 0, f, 1e-9) if noise.model.is_positive else f
        information = _information(noise.model, jnp.asarray(noise.eta), jnp.asarray(f))
        roots[:, noise.column] = np.sqrt(np.asarray(information))
    return roots


def _simulated(
    part: FitSetup,
    theta: np.ndarray,
    fitted: np.ndarray,
    n: int,
    random: np.random.Generator,
) -> np.ndarray:
    """Simulate the values of one experiment, and whether they are below a limit, [2, n,
    N, k]."""
    data = part.data
    many = np.broadcast_to(fitted, (n, *fitted.shape))
    values, below = np.array(many), np.zeros(many.shape, bool)
    for noise in fitted_noise(part, theta):
        column = noise.column
        drawn = noise.model.draw(many[..., column], noise.eta, random)
        was_below = is_below(data)[:, column]
        limits = np.where(was_below, data.x[:, column], -np.inf)
        if was_below.any() and len(set(limits[was_below].tolist())) == 1:
            limits = np.full(len(limits), limits[was_below][0])
        below[..., column] = drawn < limits
        values[..., column] = np.where(drawn < limits, limits, drawn)
    return np.stack([values, below])


def noise_interval(
    noise: FittedNoise, mean: np.ndarray, sd: np.ndarray, q: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the ends between which a new value is expected, q standard deviations
    from the mean. Distances by the noise and by the uncertainty `sd` of the mean are
    added like independent errors, $\sqrt{d^2 + (q\,sd)^2}$, for log-normal noise on the
    logarithmic scale."""
    from scipy.special import ndtr

    model, eta = noise.model, noise.usual
    ends = [model.quantile(mean, eta, float(ndtr(side * q))) for side in (-1, 1)]
    if isinstance(model, LogNormal):
        # Where the model is zero, so is every value.
        share = np.where(mean > 0, sd / np.where(mean > 0, mean, 1.0), 0.0)
        width = np.hypot(q * np.log(eta[0]), q * share)
        return mean * np.exp(-width), mean * np.exp(width)
    low, high = (np.hypot(end - mean, q * sd) for end in ends)
    lowest = 0.0 if model.is_positive else -np.inf
    return np.maximum(mean - low, lowest), mean + high


def _beside(setup: FitSetup, theta: np.ndarray) -> float:
    """Compute what priors and correction add to minus two log-likelihoods."""
    total = setup.prior_penalty(theta)
    for e, part in enumerate(setup.parts):
        likelihood: Any = part.misfit
        models = noise_models(part.model, jnp.asarray(setup.local(theta, e)))
        for q, name in enumerate(likelihood.quantities):
            if name in models and likelihood.charges[q] > 0:
                model = models[name]
                total += float(correction(likelihood, q, model, model.eta()))
    return total


@eqx.filter_jit
def _information(model: AbstractNoise, eta: jax.Array, f: jax.Array) -> jax.Array:
    return jax.vmap(lambda f: model.information(f, eta)[0, 0])(f)


def noise_models(model: "LeastSquaresModel", theta: Any) -> dict[str, AbstractNoise]:
    """Return the noise models with the parameters that the free values `theta` give."""
    return model.problem_at(theta).noise or {}


def _terms(
    likelihood: Likelihood, q: int, noise: AbstractNoise, f, weight, y, is_below
) -> Terms:
    """Compute what one value of quantity q contributes."""
    eta = noise.eta()
    if isinstance(noise, Given):
        eta = jnp.where(weight > 0, weight, 1.0)[None] ** -0.5
    terms = noise.terms(f, eta, y)
    if not likelihood.has_below[q]:
        return terms
    below = noise.terms_below(f, eta, y, likelihood.most)
    return jax.tree.map(lambda b, t: jnp.where(is_below, b, t), below, terms)


def _added(gram: jax.Array, terms: Terms, rows: jax.Array) -> jax.Array:
    """Add the terms of one value, whose `rows` are derivatives, to the equations."""
    # Not `jnp.dot`: XLA compiles a loop with one in it much worse.
    side = 0.5 * jnp.sum(terms.slope[:, None] * rows, axis=0)
    half = jnp.sum(terms.information[:, :, None] * rows[None], axis=1)
    square = jnp.sum(rows[:, :, None] * half[:, None, :], axis=0)
    corner = jnp.arange(side.shape[0]) == 0
    side = jnp.where(corner, 0.5 * terms.deviance, side)
    border = jnp.where(corner[:, None], side[None], 0.0)
    return gram + square + border + border.T


def correction(
    likelihood: Likelihood, q: int, noise: AbstractNoise, eta: jax.Array
) -> jax.Array:
    """Compute what the degrees of freedom add to S, for quantity q."""
    mean = mean_log_information(noise, eta, likelihood.levels[:, q])
    return likelihood.charges[q] * (mean - likelihood.references[q])


def mean_log_information(noise: AbstractNoise, eta: Any, levels: Any) -> jax.Array:
    """Return the mean of the logarithm of the information about predictions."""
    informations = jax.vmap(lambda f: noise.information(f, eta)[0, 0])(levels)
    return jnp.mean(jnp.log(informations))


def _corrected(
    likelihood: Likelihood, q: int, noise: AbstractNoise, gram: jax.Array, first: int
) -> jax.Array:
    """Add the correction of quantity q, whose noise's parameters begin at the place
    `first`, to the equations. The information about these is that of fewer values."""
    if isinstance(noise, Given) or not noise.names:
        return gram
    value, slope = jax.value_and_grad(correction, 3)(likelihood, q, noise, noise.eta())
    place = jnp.arange(gram.shape[0])
    is_own = (place >= first) & (place < first + len(noise.names))
    scale = jnp.where(is_own, jnp.sqrt(likelihood.rests[q]), 1.0)
    is_inside = (place > 0)[:, None] & (place > 0)[None]
    gram = gram * jnp.where(is_inside, scale[:, None] * scale[None], 1.0)
    more = jnp.zeros(gram.shape[0]).at[0].set(0.5 * value)
    more = more.at[first : first + len(noise.names)].set(0.5 * slope)
    border = jnp.where((place == 0)[:, None], more[None], 0.0)
    return gram + border + border.T


def _choice(
    likelihood: Likelihood, models: dict[str, AbstractNoise], first, size: int, p: int
) -> jax.Array:
    """Return the matrix [size, 1 + p] that leads from the places of the equations to
    the free values: one place for S, one for each other value, then the noise."""
    place, target = jnp.arange(size), jnp.arange(1 + p)
    is_same = place[:, None] == target[None]
    chosen = jnp.where(is_same & (place <= likelihood.others)[:, None], 1.0, 0.0)
    for name, noise in models.items():
        if noise.names:
            m = len(noise.names)
            part = jnp.asarray(likelihood.choices[name], float)
            chosen = chosen.at[first[name] : first[name] + m, 1:].set(part)
    return chosen
