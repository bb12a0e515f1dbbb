r"""Samples of the posterior by NUTS, with numpyro; returned as ArviZ data.

The prior is Jeffreys', $\sqrt{\det(J^T W J + B)}$, between the bounds (of frequencies,
those of slow histories), times the priors of the fit, and 1 / sigma for a noise level
that is not given. It counts volumes by what data could tell apart, and so does not
depend on how a model writes its parameters: a flat prior would give most weight to the
wide ends of ridges. B, 1 over the variance of what lies between the bounds, makes it
flat where the data say nothing. The potential energy

$$U = \tfrac12 S(theta, \sigma) + \sum_i n_i \log\sigma_i - \log\Big|\frac{dz}{du}\Big|
  - \tfrac12 \log\det(J^T W J + B)$$

has its gradient from the normal equations: $S$ and $J^T r$ come from one march. The
sampler moves w, where u = u_0 + L w has about unit scale, and theta(u) keeps the
bounds."""

import warnings
from dataclasses import replace
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._least_squares.batches import capacity_for
from .._least_squares.normal_equations import Model, normal_equations
from .._loss.losses import SumOfSquares
from .._loss.path_costs import Points
from .._problem.free_parameters import FreeParameters
from .covariance import Uncertainty
from .profile_likelihood import Profile


@final
class _Posterior(eqx.Module):
    """What the potential needs. `sigma` are the noise levels to begin with, of the
    quantities that are measured `counts` times; with `sampled` false they are known."""

    model: Model
    points: Points
    free: FreeParameters = eqx.field(static=True)
    center: jax.Array
    factor: jax.Array
    n: int
    counts: jax.Array
    sigma: jax.Array
    sampled: tuple[int, ...] = eqx.field(static=True)
    limits: jax.Array
    steps: jax.Array
    capacity: int = eqx.field(static=True)

    def place(self, w) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The free values, log |dz/du|, and the logarithms of the noise levels."""
        p = self.center.shape[0]
        u = self.center + self.factor @ w[:p]
        theta, slope = jax.jvp(self.free.transform, (u,), (jnp.ones_like(u),))
        log_sigma = jnp.log(self.sigma)
        for position, quantity in enumerate(self.sampled):
            # The logarithm of a noise level is known to 1 / sqrt(2 n).
            move = w[p + position] / jnp.sqrt(2 * self.counts[quantity])
            log_sigma = log_sigma.at[quantity].add(move)
        return theta, jnp.sum(jnp.log(jnp.abs(slope))), log_sigma

    def potential(self, w):
        theta, log_slope, log_sigma = self.place(w)
        S = _misfit((theta, log_sigma), self)
        log_prior = 0.5 * _log_volume(theta, self)
        return 0.5 * S + jnp.sum(self.counts * log_sigma) - log_slope - log_prior

    def normal(self, theta, points: Points):
        ring = self.model.extended(theta, self.n, 0.0).ring(self.capacity)
        return normal_equations(self.model, theta, points, self.n, ring)[0]

    def log_volume(self, theta):
        """log det of the information of the data and of the bounds."""
        inverse = self.sigma**-2.0
        points = self.points._replace(weights=self.points.weights * inverse)
        square = self.normal(theta, points).gram[1:, 1:] + jnp.diag(self.limits)
        return jnp.linalg.slogdet(square)[1]


@eqx.filter_custom_vjp
def _log_volume(theta, posterior: _Posterior):
    return posterior.log_volume(theta)


@_log_volume.def_fwd
def _volume_forward(perturbed, theta, posterior: _Posterior):
    """Slopes by differences: the sampler is exact with any force that depends on the
    place alone, and second derivatives of the trajectory would cost more."""
    places = jnp.concatenate([theta[None], theta + jnp.diag(posterior.steps)])
    found = jax.lax.map(posterior.log_volume, places)
    slopes = (found[1:] - found[0]) / posterior.steps
    return found[0], jnp.where(jnp.isfinite(slopes), slopes, 0.0)


@_log_volume.def_bwd
def _volume_backward(slopes, cotangent, perturbed, theta, posterior: _Posterior):
    return cotangent * slopes


@eqx.filter_custom_vjp
def _misfit(values, posterior: _Posterior):
    return _misfit_and_slopes(values, posterior)[0]


@_misfit.def_fwd
def _forward(perturbed, values, posterior: _Posterior):
    return _misfit_and_slopes(values, posterior)


@_misfit.def_bwd
def _backward(slopes, cotangent, perturbed, values, posterior: _Posterior):
    return jax.tree.map(lambda slope: cotangent * slope, slopes)


def _misfit_and_slopes(values, posterior: _Posterior):
    """S and its derivatives; infinite and zero where the march is not finite."""
    theta, log_sigma = values
    inverse = jnp.exp(-2 * log_sigma)
    points = posterior.points._replace(weights=posterior.points.weights * inverse)
    normal = posterior.normal(theta, points)
    slopes = 2 * normal.gram[0, 1:], -2 * normal.squares * inverse
    finite = jnp.all(jnp.isfinite(normal.gram[0]))
    S = jnp.where(finite, normal.gram[0, 0], jnp.inf)
    return S, jax.tree.map(lambda slope: jnp.where(finite, slope, 0.0), slopes)


def sample(
    uncertainty: Uncertainty,
    profiles: list[Profile],
    draws: int,
    warmup: int,
    chains: int,
    seed: int,
) -> Any:
    """ArviZ data: `posterior`, by the names of the parameters, with `sd[x]` for noise
    levels that are not given; `sample_stats`."""
    numpyro, arviz = _libraries()
    for name, value in (("draws", draws), ("warmup", warmup), ("chains", chains)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(
                f"`{name}` must be a whole number from 1 on, not {value!r}."
            )
    _check_proper(uncertainty, profiles)
    posterior = _posterior(uncertainty)
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
    start = _starts(posterior, chains, seed)
    fields = ("potential_energy", "diverging", "accept_prob", "num_steps")
    mcmc.run(
        jax.random.key(seed),
        init_params=start if chains > 1 else start[0],
        extra_fields=fields,
    )
    w = mcmc.get_samples(group_by_chain=True)
    stats = mcmc.get_extra_fields(group_by_chain=True)
    names = ("energy", "diverging", "acceptance_rate", "n_steps")
    return arviz.from_dict(
        posterior=_variables(uncertainty, posterior, w),
        sample_stats={
            new: np.asarray(stats[old]) for new, old in zip(names, fields, strict=True)
        },
    )


class _Libraries(NamedTuple):
    numpyro: Any
    arviz: Any


def _libraries() -> _Libraries:
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
    return _Libraries(numpyro, arviz)


def _check_proper(uncertainty: Uncertainty, profiles: list[Profile]) -> None:
    """Refuse a posterior without end: where neither data nor bounds set one."""
    setup = uncertainty.slow
    if setup.model.huber is not None:
        raise ValueError("Sampling is for Gaussian noise: fit without `huber`.")
    if uncertainty.noise_unknown:
        raise ValueError(
            "There are too few values to tell the noise by: give the data their `sd`."
        )
    endless = [
        f"`{profile.name}`"
        for profile, low, high in zip(profiles, setup.lower, setup.upper)
        if max(profile.interval[0], low) == -np.inf
        or min(profile.interval[1], high) == np.inf
    ]
    if endless:
        raise ValueError(
            f"The data set no limit to {', '.join(endless)}, and neither do bounds: "
            "there is no posterior to sample. Give bounds or a prior in `parameters`, "
            "or fix what is not determined."
        )


def _posterior(uncertainty: Uncertainty) -> _Posterior:
    setup, search_result = uncertainty.slow, uncertainty.search_result
    data = setup.data
    free = replace(setup.model.free, lower=tuple(setup.lower), upper=tuple(setup.upper))
    center = free.inverse(_interior(uncertainty))
    slope = np.asarray(jax.jvp(free.transform, (center,), (np.ones_like(center),))[1])
    half = uncertainty.half / slope[:, None]
    square = half @ half.T + np.diag(np.where(uncertainty.lost, 1.0, 0.0))
    counts = np.isfinite(data.x).sum(axis=0)
    given = data.sd is not None
    n = int(search_result.best.n[0])
    return _Posterior(
        model=setup.model,
        points=Points(*(jnp.asarray(a) for a in SumOfSquares().prepare(data).points)),
        free=free,
        center=jnp.asarray(center),
        factor=jnp.asarray(np.linalg.cholesky(square + 1e-12 * np.diag(square).max())),
        n=n,
        counts=jnp.asarray(0.0 * counts if given else counts, float),
        sigma=jnp.asarray(np.ones(len(counts)) if given else search_result.noise),
        sampled=() if given else tuple(np.flatnonzero(counts).tolist()),
        limits=jnp.asarray(1 / setup.bound_variance),
        steps=jnp.asarray(_steps(uncertainty)),
        capacity=capacity_for(n),
    )


def _steps(uncertainty: Uncertainty) -> np.ndarray:
    """Small steps of the free values: of their standard errors or, where there are
    none, of their bounds."""
    errors = np.linalg.norm(uncertainty.half, axis=1)
    return 1e-4 * np.where(errors > 0, errors, 0.01 * _room(uncertainty))


def _interior(uncertainty: Uncertainty) -> np.ndarray:
    """The estimate, moved a little away from bounds that it stands on."""
    setup, room = uncertainty.slow, 0.01 * _room(uncertainty)
    return np.clip(uncertainty.theta, setup.lower + room, setup.upper - room)


def _room(uncertainty: Uncertainty) -> np.ndarray:
    """The distance of the bounds; where there are none, the size of the estimate."""
    width = uncertainty.slow.upper - uncertainty.slow.lower
    size = np.maximum(np.abs(uncertainty.theta), 1e-3)
    return np.where(np.isfinite(width), width, size)


def _starts(posterior: _Posterior, chains: int, seed: int) -> jax.Array:
    """A start for each chain: random where that is finite, else the estimate."""
    size = posterior.center.shape[0] + len(posterior.sampled)
    random = np.random.default_rng(seed).standard_normal((chains, size))
    energy = np.asarray(jax.jit(lambda w: jax.lax.map(posterior.potential, w))(random))
    return jnp.asarray(np.where(np.isfinite(energy)[:, None], random, 0.0))


def _variables(uncertainty: Uncertainty, posterior: _Posterior, w) -> dict[str, Any]:
    setup = uncertainty.setup
    theta, _, log_sigma = jax.jit(jax.vmap(jax.vmap(posterior.place)))(w)
    names = setup.model.free.names
    found = {name: np.asarray(theta[..., j]) for j, name in enumerate(names)}
    for quantity in posterior.sampled:
        name = f"sd[{setup.data.names[quantity]}]"
        found[name] = np.exp(np.asarray(log_sigma[..., quantity]))
    return found
