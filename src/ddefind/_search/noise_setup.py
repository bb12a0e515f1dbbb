"""The setup of a likelihood: its points, where its noise begins, and the least-squares
fit that explores for it.

A search explores with weighted least squares (`without_noise`): the weights are those
of the noise at a smooth curve through the data, and its parameters rest. The likelihood
then refines what was found, with the noise as large as the residuals show
(`with_noise_parameters`)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._data.data import Data
from .._data.smoothing import scatter, smooth, spread
from .._data.study_data import Records, StudyData, parts_of
from .._loss.losses import SumOfSquares
from .._problem.free_parameters import FreeParameters
from .._problem.parameters import noise_parameter
from .._problem.problem import Problem, with_noise
from ..noise._abstract import AbstractNoise
from ..noise._gaussian import Given
from .bounds import Bounds
from .levenberg_marquardt import Priors
from .likelihood import Likelihood, NoisyPoints, mean_log_information

if TYPE_CHECKING:
    from .batches import RefinedFits
    from .setup import FitSetup


# The number of typical predictions for the correction of degrees of freedom.
_LEVELS = 16
# A level of a positive quantity, or of one with proportional noise, counts as at least
# this share of the median in weights; and a count as at least this large.
_LEAST_LEVEL, _LEAST_COUNT = 0.1, 0.5
# What counts as zero for a positive quantity, as a share of its typical size.
_SMALL = 1e-6


class _Rough(NamedTuple):
    """The levels of a quantity where it was measured, and its noise at first."""

    levels: np.ndarray
    eta: np.ndarray
    size: np.ndarray


def is_below(data: Records) -> np.ndarray:
    """Whether each value is only known to be below a limit."""
    return np.zeros(data.x.shape, bool) if data.below is None else data.below


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
            if j < len(bounds.lower) - noise_count(free):
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


def noise_count(free: FreeParameters) -> int:
    """Count the free values that belong to the noise alone. They are the last."""
    others = {
        source
        for array in free.arrays
        if not array.is_noise
        for source in free.source[array.first : array.first + array.size]
        if source >= 0
    }
    return len(free.names) - len(others)


def make_likelihood(
    problem: Problem, data: Data, free: FreeParameters
) -> Likelihood | None:
    """Return the likelihood of a problem whose noise has models."""
    if problem.noise is None:
        return None
    rough, k, p = _rough(data, problem), len(data.names), len(free.names)
    others = p - noise_count(free)
    here, sizes = np.isfinite(data.x), spread(data)
    counts = here.sum(axis=0)
    levels = np.ones((_LEVELS, k))
    choices, charges, references = {}, np.zeros(k), np.zeros(k)
    for q, name in enumerate(data.names):
        if name not in rough:
            continue
        model = problem.noise[name]
        sources = [_source(free, name, field) for field in model.names]
        choices[name] = np.array([np.arange(p) == j for j in sources]).reshape(-1, p)
        shares = np.linspace(0.5 / _LEVELS, 1 - 0.5 / _LEVELS, _LEVELS)
        levels[:, q] = np.quantile(rough[name].levels, shares)
        if np.any(choices[name]):
            charges[q] = min(others * counts[q] / counts.sum(), 0.9 * counts[q])
            eta, at = jnp.asarray(rough[name].eta), jnp.asarray(levels[:, q])
            references[q] = float(mean_log_information(model, eta, at))
    below = is_below(data)
    is_count = [name in rough and problem.noise[name].is_count for name in data.names]
    limits = data.x[below & np.array(is_count)]
    return Likelihood(
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
    )


def noise_of(setup: "FitSetup") -> dict[str, AbstractNoise]:
    """Return the noise models of the quantities that have one."""
    return setup.model.problem.noise or {}


def describe_noise(setup: "FitSetup") -> str | None:
    """Return the noise models of a fit in words; None if it has none."""
    models = noise_of(setup)
    if len(set(map(str, models.values()))) < 2:
        return next(map(str, models.values()), None)
    return ", ".join(
        f"{name} {models[name]}" for name in setup.data.names if name in models
    )


def likelihood_points(setup: "FitSetup") -> Any:
    """Return the data for a likelihood: the weight of a measured value is one, or that
    of its given standard deviation."""
    each = [SumOfSquares().prepare(part).points for part in parts_of(setup.data)]
    times, values, given = map(np.concatenate, zip(*each))
    weights = np.where(np.isfinite(setup.data.x), 1.0, 0.0)
    noise = noise_of(setup)
    for q, name in enumerate(setup.data.names):
        if isinstance(noise.get(name), Given):
            weights[:, q] = given[:, q]
    return NoisyPoints(times, values, weights, setup.data.below)


def without_noise(setup: "FitSetup") -> "FitSetup":
    """Return the weighted least-squares fit that explores for a likelihood."""
    model, priors, joint = setup.model, setup.model.priors, setup.joint
    free = _without_noise(model.free)
    p, study = len(free.names), model.experiments
    if study is not None and joint is not None:
        local = _without_noise(study.free)
        q = len(local.names)
        study = replace(
            study,
            free=local,
            learned=with_noise(study.learned, None),
            fixed=with_noise(study.fixed, None),
            selection=study.selection[:, :q, :p],
            known=study.known[:, :q],
        )
        joint = replace(
            joint, free=free, place=joint.place[:, :q], known=joint.known[:, :q]
        )
    plain = replace(
        model,
        free=free,
        learned=with_noise(model.learned, None),
        fixed=with_noise(model.fixed, None),
        priors=None if priors is None else Priors(*(each[:p] for each in priors)),
        likelihood=None,
        is_robust=any(each.has_outliers for each in noise_of(setup).values()),
        experiments=study,
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
        joint=joint,
    )


def _without_noise(free: FreeParameters) -> FreeParameters:
    """Drop the free values of the noise, which are the last."""
    arrays = tuple(array for array in free.arrays if not array.is_noise)
    elements = sum(array.size for array in arrays)
    p = len(free.names) - noise_count(free)
    return FreeParameters(
        arrays,
        free.names[:p],
        free.source[:elements],
        free.like[:elements],
        (-np.inf,) * p,
        (np.inf,) * p,
    )


def _weighted(setup: "FitSetup") -> Records:
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
    data = setup.data
    return parts[0] if isinstance(data, Data) else replace(data, parts=tuple(parts))


def _rough_of(part: "FitSetup") -> dict[str, _Rough]:
    """Estimate levels and noise in one experiment."""
    assert isinstance(part.data, Data)
    return _rough(part.data, part.model.problem)


def with_noise_parameters(setup: "FitSetup", fits: "RefinedFits") -> np.ndarray:
    """Add to the free values of exploring fits the noise that their residuals show."""
    others = len(setup.lower) - noise_count(setup.model.free)
    theta = np.repeat(setup.guess[None], len(fits.theta), axis=0)
    theta[:, :others] = fits.theta
    freedom = max(setup.count - others, 1)
    ratios = np.sqrt(np.where(np.isfinite(fits.loss), fits.loss, freedom) / freedom)
    for e, part in enumerate(setup.parts):
        for j, row, value in _noise_values(part, np.clip(ratios, 1e-2, 1e2)):
            place = j if setup.joint is None else int(setup.joint.place[e, j])
            if place >= others:
                low, high = _inner(setup.lower[place], setup.upper[place])
                theta[row, place] = np.clip(value, low, high)
    return theta


def _noise_values(
    part: "FitSetup", ratios: np.ndarray
) -> Iterator[tuple[int, int, float]]:
    """Yield the noise's parameters in one experiment, if the noise is larger by each of
    the `ratios` than assumed: the numbers of the free value and of the ratio, and the
    value."""
    likelihood = part.model.likelihood
    assert likelihood is not None
    rough = _rough_of(part)
    for name, model in noise_of(part).items():
        if isinstance(model, Given) or not model.names:
            continue
        choice = np.asarray(likelihood.choices[name])
        for row, ratio in enumerate(ratios.tolist()):
            eta = model.stretched(rough[name].eta, rough[name].levels, ratio)
            for value, chosen in zip(eta, choice):
                if chosen.any():
                    yield int(np.argmax(chosen)), row, float(value)


def joint_likelihood(
    likelihoods: Sequence[Likelihood | None], data: StudyData, others: int
) -> Likelihood | None:
    """Stack the likelihoods of a study along a first axis over the experiments.

    `others` is the number of joint values that do not belong to the noise. They are
    divided among experiments and quantities in proportion to their numbers of
    values."""
    known = [each for each in likelihoods if each is not None]
    if not known:
        return None
    counts = np.array([np.isfinite(part.x).sum(axis=0) for part in data.parts])
    shares = np.minimum(others * counts / counts.sum(), 0.9 * counts)
    charges = np.where([each.charges > 0 for each in known], shares, 0.0)
    has_below = tuple(map(any, zip(*(each.has_below for each in known))))
    most = max(each.most for each in known)
    alike = [
        replace(
            each,
            charges=charge,
            rests=1 - charge / np.maximum(count, 1),
            has_below=has_below,
            most=most,
        )
        for each, charge, count in zip(known, charges, counts)
    ]
    return jax.tree.map(lambda *arrays: np.stack(arrays), *alike)
