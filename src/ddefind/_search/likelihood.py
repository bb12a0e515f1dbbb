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
proportion to their numbers of values, $p_i = p N_i / N$."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from .._util.arrays import read
from ..noise._abstract import AbstractNoise, Terms, above_zero
from ..noise._gaussian import Given
from .levenberg_marquardt import NormalEquations

if TYPE_CHECKING:
    from .._engine.engine import AbstractSensitivity
    from .normal_equations import LeastSquaresModel


class NoisyPoints(NamedTuple):
    """The measured values, in the order of time. A weight is zero where nothing was
    measured, the inverse variance where noise is given, and else one. `below` marks the
    values that are only known to be below the number; it is None if there are none."""

    times: Any  # [N]
    values: Any  # [N, k]
    weights: Any  # [N, k]
    below: Any  # [N, k]


@final
class Likelihood(eqx.Module):
    """What a likelihood needs beside the noise models themselves.

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
    - `count`: the number of values."""

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

    def without_derivatives(self, sensitivity: "AbstractSensitivity", theta: jax.Array):
        """Drop the derivatives for the noise, on which no trajectory depends."""
        noise, join = theta[self.others :], sensitivity.join
        return replace(
            sensitivity,
            theta=theta[: self.others],
            join=lambda others: join(jnp.concatenate([others, noise])),
        )


def noise_models(model: "LeastSquaresModel", theta: Any) -> dict[str, AbstractNoise]:
    """Return the noise models with the parameters that the free values `theta` give."""
    return model.problem_at(theta).noise or {}


def likelihood_equations(
    model: "LeastSquaresModel",
    theta: jax.Array,
    points: Any,
    rows_of_data: Any,
    end: Any,
    steps: Any,
    memory: Any,
) -> tuple[NormalEquations, Any]:
    """Compute S without priors, half its gradient and the Fisher information, laid out
    as `NormalEquations`. The `points` are `NoisyPoints`, of which those with the
    numbers in `rows_of_data` count, up to the time `end`."""
    likelihood = model.likelihood
    assert likelihood is not None
    models = noise_models(model, theta)
    sensitivity = model.marching(theta, steps, end)
    first = {}  # the place of the first parameter of each noise model
    size = 1 + likelihood.others
    for name, noise in models.items():
        first[name] = size
        size += len(noise.names)

    def rows(name: str, derivatives: jax.Array) -> jax.Array:
        """Return the derivatives of a prediction and of its noise's parameters, for 1,
        for the free values of the trajectory, and for the parameters of all noise
        models."""
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
        for q, name in enumerate(likelihood.quantities):
            if name not in models:
                continue
            is_below = None if points.below is None else read(points.below, j)[q]
            f, derivatives = observed[q, 0], observed[q, 1:]
            noise, w = models[name], weight[q]
            if noise.is_positive:
                f, slope = jax.value_and_grad(above_zero)(f, likelihood.small[q])
                derivatives = slope * derivatives
            terms = _terms(likelihood, q, noise, f, w, value[q], is_below)
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
    for q, name in enumerate(likelihood.quantities):
        if name in models:
            gram = _corrected(likelihood, q, models[name], gram, first[name])
    chosen = _choice(likelihood, models, first, size, theta.shape[0])
    half = jnp.sum(chosen[:, :, None] * gram[:, None, :], axis=0)
    gram = jnp.sum(half[:, :, None] * chosen[None], axis=1)
    return NormalEquations(gram, total.squares), memory


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
