r"""Samples of the posterior by NUTS, with numpyro.

The prior has three factors: Jeffreys' prior $\sqrt{\det(J^T W J + B)}$ between the
bounds (for frequencies of a history: the bounds of slow ones), the priors of the fit,
and $1 / \sigma$ for a noise level that is not given.

Jeffreys' prior measures volumes in parameter space by what the data could distinguish,
and so does not depend on how a model is parametrised. A flat prior would give most
weight to the wide ends of ridges. The diagonal matrix B, one over the variance of a
uniform distribution between the bounds, makes the prior flat where the data contain no
information.

The sampler moves a vector w. Then $u = u_0 + L w$, with L such that w has about unit
scale, and a transform $\theta(u)$ that keeps the bounds gives the free values. The
potential energy is

$$U = \tfrac12 S(\theta, \sigma) + \sum_i n_i \log\sigma_i
  - \log\Big|\frac{d\theta}{du}\Big| - \tfrac12 \log\det(J^T W J + B).$$

The gradient of its first term comes from the normal equations: one solution of the
equation gives both $S$ and $J^T r$.

Where the noise has models, S is minus twice the logarithm of their likelihood, and the
parameters of the noise are among the free values. Jeffreys' prior is then the product
of two, for the parameters of the noise and for all others. Its dependence on the size
of the noise and the correction for degrees of freedom in S cancel each other."""

import warnings
from dataclasses import replace
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._engine.engine import Points
from .._problem.free_parameters import FreeParameters
from .._search.levenberg_marquardt import NormalEquations
from .._search.normal_equations import LeastSquaresModel, normal_equations, work_buffer
from .covariance import Uncertainty
from .profile import Profile
from .profile_intervals import slow_setup


@final
class _Posterior(eqx.Module):
    """Posterior density, as the sampler needs it.

    `center` and `factor` are u_0 and L, `n` the steps per delay. `sigma` are the noise
    levels at the estimate and `counts` the numbers of values of each quantity; both
    are neutral (one and zero) if the noise is given. `sampled` are the indices of the
    quantities whose noise level is sampled. `bound_information` is the diagonal of B,
    and `steps` are the step sizes of finite differences."""

    model: LeastSquaresModel
    points: Points
    free: FreeParameters = eqx.field(static=True)
    center: jax.Array
    factor: jax.Array
    n: int
    counts: jax.Array
    sigma: jax.Array
    sampled: tuple[int, ...] = eqx.field(static=True)
    bound_information: jax.Array
    steps: jax.Array
    capacity: int = eqx.field(static=True)

    def transform(self, w: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Compute theta, log |d theta / du| and log sigma at `w`."""
        p = self.center.shape[0]
        u = self.center + self.factor @ w[:p]
        theta, slope = jax.jvp(self.free.transform, (u,), (jnp.ones_like(u),))
        log_sigma = jnp.log(self.sigma)
        for position, quantity in enumerate(self.sampled):
            # The standard error of the logarithm of a noise level is 1 / sqrt(2 n).
            change = w[p + position] / jnp.sqrt(2 * self.counts[quantity])
            log_sigma = log_sigma.at[quantity].add(change)
        return theta, jnp.sum(jnp.log(jnp.abs(slope))), log_sigma

    def potential(self, w: jax.Array) -> jax.Array:
        """Compute the potential energy U: minus the logarithm of the posterior."""
        theta, log_slope, log_sigma = self.transform(w)
        S = _sum_of_squares((theta, log_sigma), self)
        log_prior = 0.5 * _log_determinant(theta, self)
        return 0.5 * S + jnp.sum(self.counts * log_sigma) - log_slope - log_prior

    def normal(self, theta: jax.Array, log_sigma: jax.Array) -> NormalEquations:
        """Compute the normal equations at the free values and noise levels."""
        inverse = jnp.exp(-2 * log_sigma)
        points = self.points._replace(weights=self.points.weights * inverse)
        end, center = points.times[-1], self.free.transform(self.center)
        steps = self.model.steps(center, self.n, end, self.capacity)
        memory = work_buffer(self.model, theta, steps, self.capacity)
        return normal_equations(self.model, theta, points, steps, memory)[0]

    def log_determinant(self, theta: jax.Array) -> jax.Array:
        """Compute log det(J^T W J + B)."""
        information = self.normal(theta, jnp.log(self.sigma)).gram
        information = information[1:, 1:] + jnp.diag(self.bound_information)
        others = theta.shape[0] - self.model.free.noise_count
        is_noise = jnp.arange(theta.shape[0]) >= others
        is_same = is_noise[:, None] == is_noise[None]
        information = jnp.where(is_same, information, 0.0)
        return jnp.linalg.slogdet(information)[1]


@eqx.filter_custom_vjp
def _log_determinant(theta, posterior: _Posterior):
    return posterior.log_determinant(theta)


@_log_determinant.def_fwd
def _log_determinant_forward(perturbed, theta, posterior: _Posterior):
    """Compute the gradient by finite differences: the exact one would need second
    derivatives of the trajectory, and the sampler stays exact with any force that is a
    function of the position alone."""
    shifted = jnp.concatenate([theta[None], theta + jnp.diag(posterior.steps)])
    values = jax.lax.map(posterior.log_determinant, shifted)
    gradient = (values[1:] - values[0]) / posterior.steps
    return values[0], jnp.where(jnp.isfinite(gradient), gradient, 0.0)


@eqx.filter_custom_vjp
def _sum_of_squares(values, posterior: _Posterior):
    """Compute S from `values` = (theta, log sigma)."""
    return _value_and_gradients(None, values, posterior)[0]


def _value_and_gradients(perturbed, values, posterior: _Posterior):
    """Compute S and its gradients; infinite and zero without a trajectory."""
    theta, log_sigma = values
    inverse = jnp.exp(-2 * log_sigma)
    normal = posterior.normal(theta, log_sigma)
    gradients = 2 * normal.gram[0, 1:], -2 * normal.squares * inverse
    finite = jnp.all(jnp.isfinite(normal.gram[0]))
    S = jnp.where(finite, normal.gram[0, 0], jnp.inf)
    return S, jax.tree.map(lambda g: jnp.where(finite, g, 0.0), gradients)


def _backward(gradients, cotangent, *_):
    return jax.tree.map(lambda gradient: cotangent * gradient, gradients)


_log_determinant.def_bwd(_backward)
_sum_of_squares.def_fwd(_value_and_gradients)
_sum_of_squares.def_bwd(_backward)


def sample(
    uncertainty: Uncertainty,
    profiles: list[Profile],
    draws: int,
    warmup: int,
    chains: int,
    seed: int,
) -> Any:
    """Sample the posterior; return ArviZ data with the groups `posterior` and
    `sample_stats`.

    The variables of the posterior have the names of the parameters, and `sd[x]` for the
    noise level of a quantity x that is not given."""
    numpyro, arviz = _libraries()
    for name, value in (("draws", draws), ("warmup", warmup), ("chains", chains)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(
                f"`{name}` must be a whole number from 1 on, not {value!r}."
            )
    _check_proper(uncertainty, profiles)
    posterior = _make_posterior(uncertainty)
    kernel = numpyro.infer.NUTS(
        potential_fn=posterior.potential, dense_mass=True, target_accept_prob=0.9
    )
    mcmc = numpyro.infer.MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method="sequential",
        progress_bar=False,
    )
    starts = _chain_starts(posterior, chains, seed)
    fields = ("potential_energy", "diverging", "accept_prob", "num_steps")
    mcmc.run(
        jax.random.key(seed),
        init_params=starts if chains > 1 else starts[0],
        extra_fields=fields,
    )
    w = mcmc.get_samples(group_by_chain=True)
    stats = mcmc.get_extra_fields(group_by_chain=True)
    names = ("energy", "diverging", "acceptance_rate", "n_steps")
    stats = {new: np.asarray(stats[old]) for new, old in zip(names, fields)}
    variables = _variables(uncertainty, posterior, w)
    return arviz.from_dict(posterior=variables, sample_stats=stats)


def _libraries() -> tuple[Any, Any]:
    """Import the optional dependencies; an error says how to install them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ArviZ announces its next version.
            import arviz
        import numpyro
        import numpyro.infer
    except ImportError as error:
        raise ImportError(
            f"Sampling needs numpyro and arviz, but {error.name!r} is missing. Install "
            "them: pip install 'ddefind[sample]'."
        ) from None
    return numpyro, arviz


def _check_proper(uncertainty: Uncertainty, profiles: list[Profile]) -> None:
    """Raise an error if the posterior cannot be normalised."""
    setup = slow_setup(uncertainty)
    if uncertainty.noise_unknown:
        raise ValueError(
            "There are too few values to estimate the noise: give the data an `sd`."
        )
    unlimited = [
        f"`{profile.name}`"
        for profile, low, high in zip(profiles, setup.lower, setup.upper)
        if max(profile.interval[0], low) == -np.inf
        or min(profile.interval[1], high) == np.inf
    ]
    if unlimited:
        raise ValueError(
            f"Neither the data nor bounds limit {', '.join(unlimited)}: there is no "
            "posterior to sample. Give bounds or a prior in `parameters`, or fix what "
            "is not determined."
        )


def _make_posterior(uncertainty: Uncertainty) -> _Posterior:
    setup, search_result = slow_setup(uncertainty), uncertainty.search_result
    data = setup.data
    free = replace(setup.model.free, lower=tuple(setup.lower), upper=tuple(setup.upper))
    center = free.inverse(_interior(uncertainty))
    slope = np.asarray(jax.jvp(free.transform, (center,), (np.ones_like(center),))[1])
    half = uncertainty.covariance_factor / slope[:, None]
    without_information = np.where(uncertainty.without_information, 1.0, 0.0)
    covariance = half @ half.T + np.diag(without_information)
    covariance += 1e-12 * np.diag(covariance).max() * np.eye(len(covariance))
    counts = np.isfinite(data.x).sum(axis=0)
    noise_given = setup.misfit.knows_variance(setup)
    n = int(search_result.best.n[0])
    return _Posterior(
        model=setup.model,
        points=jax.tree.map(jnp.asarray, setup.points()),
        free=free,
        center=jnp.asarray(center),
        factor=jnp.asarray(np.linalg.cholesky(covariance)),
        n=n,
        counts=jnp.asarray(0.0 * counts if noise_given else counts, float),
        sigma=jnp.asarray(np.ones(len(counts)) if noise_given else search_result.noise),
        sampled=() if noise_given else tuple(np.flatnonzero(counts).tolist()),
        bound_information=jnp.asarray(1 / setup.bound_variance),
        steps=jnp.asarray(_difference_steps(uncertainty)),
        capacity=setup.model.engine.capacity(n, data.T),
    )


def _difference_steps(uncertainty: Uncertainty) -> np.ndarray:
    """Choose the step sizes of finite differences: small shares of the standard errors
    or, where there are none, of the distance between the bounds."""
    errors = np.linalg.norm(uncertainty.covariance_factor, axis=1)
    return 1e-4 * np.where(errors > 0, errors, 0.01 * _width(uncertainty))


def _interior(uncertainty: Uncertainty) -> np.ndarray:
    """Move the estimates a little away from bounds."""
    setup, margin = slow_setup(uncertainty), 0.01 * _width(uncertainty)
    return np.clip(uncertainty.theta, setup.lower + margin, setup.upper - margin)


def _width(uncertainty: Uncertainty) -> np.ndarray:
    """Return the distance between the bounds of each value; where one is missing, the
    size of the estimate."""
    setup = slow_setup(uncertainty)
    width = setup.upper - setup.lower
    size = np.maximum(np.abs(uncertainty.theta), 1e-3)
    return np.where(np.isfinite(width), width, size)


def _chain_starts(posterior: _Posterior, chains: int, seed: int) -> jax.Array:
    """Draw random starts; the estimate where the energy is not finite."""
    size = posterior.center.shape[0] + len(posterior.sampled)
    random = np.random.default_rng(seed).standard_normal((chains, size))
    energy = np.asarray(jax.jit(lambda w: jax.lax.map(posterior.potential, w))(random))
    return jnp.asarray(np.where(np.isfinite(energy)[:, None], random, 0.0))


def _variables(
    uncertainty: Uncertainty, posterior: _Posterior, w: jax.Array
) -> dict[str, Any]:
    """Return the samples by name, each of shape (chains, draws)."""
    setup = uncertainty.setup
    theta, _, log_sigma = jax.jit(jax.vmap(jax.vmap(posterior.transform)))(w)
    names = setup.model.free.names
    variables = {name: np.asarray(theta[..., j]) for j, name in enumerate(names)}
    for quantity in posterior.sampled:
        name = f"sd[{setup.data.names[quantity]}]"
        variables[name] = np.exp(np.asarray(log_sigma[..., quantity]))
    return variables
