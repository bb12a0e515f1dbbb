"""Many fits at once end as each would alone."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._engine.aligned.engine import AlignedEngine
from ddefind._engine.aligned.path import Grid
from ddefind._fitting.descent_batches import DescentBatch
from ddefind._fitting.epochs import Descent, run
from ddefind._problem.parameters import free_parameters
from ddefind.paper import EXPERIMENTS
from support.fits import Options, as_descent
from support.repeats import mostly_slow

START = EXPERIMENTS["exponential"].start


def noisy(model, count):
    data, random = EXPERIMENTS[model].clean, np.random.default_rng(0)
    sd = 0.1 * data.x.std(axis=0, ddof=1)
    return [
        dd.Data(data.t, data.x + sd * random.normal(size=data.x.shape))
        for _ in range(count)
    ]


@pytest.mark.parametrize("model", mostly_slow(EXPERIMENTS, ("exponential", "hiv")))
@pytest.mark.parametrize("published", [False, True])
def test_as_each_alone(model, published):
    sets = noisy(model, 5)
    options: Options = dict(
        loss=dd.Integral(dd.L2(), nodes="solver" if published else 100),
        gradient=dd.Published() if published else dd.Discrete(),
        solver=dd.RK2(),
        steps_per_delay=10,
        epochs=60,
    )
    batch = dd.fit_many(EXPERIMENTS[model].start, sets, **options)
    for index in (0, 4):
        alone = dd.fit(EXPERIMENTS[model].start, sets[index], **options)
        np.testing.assert_allclose(batch[index].best, alone.best, rtol=1e-8)
        np.testing.assert_allclose(batch[index].losses, alone.losses, rtol=1e-8)


ROUTES = {"adjoint": dd.Adjoint(), "forward": dd.Forward(), "discrete": dd.Discrete()}
LOSSES = {
    "squares": dd.SumOfSquares(),
    "integral": dd.Integral(dd.L1(), terminal=dd.L2()),
}
# The rows that each data set has of the paper's: as many in each, or not.
ROWS = {
    "equal": (slice(0, 81, 2), slice(41), np.r_[0:21, 21:101:4]),
    "different": (slice(101), slice(0, 81, 2), slice(0, 61, 3)),
}
TIMES = [
    *(("different", "discrete", loss) for loss in LOSSES),
    *(("equal", "forward", "squares"), ("equal", "adjoint", "integral")),
]


@pytest.mark.parametrize(
    "rows, route, loss", mostly_slow(product(ROWS, ROUTES, LOSSES), TIMES)
)
def test_different_times_starts_and_routes(rows, route, loss):
    data = EXPERIMENTS["logistic"].clean
    sets = [dd.Data(data.t[part], data.x[part]) for part in ROWS[rows]]
    starts = [{"tau": 0.61}, {"tau": 1.1, "b": 2.2}, {"theta_0": 1.4}]
    options: Options = dict(
        loss=LOSSES[loss], gradient=ROUTES[route], solver=dd.RK2(), epochs=25
    )
    start = EXPERIMENTS["logistic"].start
    batch = dd.fit_many(start, sets, starts=starts, **options)
    for index in range(3):
        alone = dd.fit(start, sets[index], parameters=starts[index], **options)
        np.testing.assert_allclose(batch[index].best, alone.best, rtol=1e-7)


def test_a_fit_that_explodes_does_not_disturb_the_others():
    sets = noisy("exponential", 6)
    batch = dd.fit_many(START, sets, starts=[{}] * 5 + [{"theta_0": 900.0}], epochs=50)
    assert batch.statuses[5] is dd.Status.no_start
    assert all(status is dd.Status.finished for status in batch.statuses[:5])
    calm = dd.fit_many(START, sets[:5], epochs=50)
    np.testing.assert_allclose(batch.best[:5], calm.best, rtol=1e-8)


def test_fits_end_at_their_own_epoch():
    batch = dd.fit_many(START, noisy("exponential", 40), threshold=60.0, epochs=400)
    assert set(batch.statuses) == {dd.Status.threshold}
    assert len(set(batch.epochs.tolist())) > 1
    for fit in batch:
        losses = as_descent(fit).losses
        assert losses[-1] < 60 <= np.min(losses[:-1])


def test_random_starts_and_lbfgs():
    box = {"tau": dd.Parameter("random", lower=0.5, upper=2.0)}
    how: Options = {"solver": dd.RK2(), "steps_per_delay": 10, "epochs": 60}
    how |= {"parameters": box, "optimizer": dd.LBFGS(), "starts": 4}
    experiment = EXPERIMENTS["exponential"]
    batch = dd.fit_many(experiment.true, experiment.clean, **how)
    assert len(np.unique(batch.first[:, -1])) == 4
    assert np.sum(batch.loss < 1e-6) >= 2
    assert "4 fits" in str(batch)


def test_bad_input():
    sets, truth = noisy("exponential", 3), EXPERIMENTS["exponential"].true
    with pytest.raises(ValueError, match="Give one or 3"):
        dd.fit_many([START] * 2, sets)
    with pytest.raises(IndexError, match="3 fits"):
        dd.fit_many(START, sets, epochs=1)[3]
    known: Options = {"parameters": {"tau": dd.Fixed()}, "optimizer": dd.Adam()}
    with pytest.raises(ValueError, match="fixed"):
        dd.fit_many([START, truth], sets[0], **known)


def temporary_bytes(fits, capacity, rows=50):
    """What one stretch of epochs needs beside its arguments and results."""
    sets = noisy("exponential", fits)
    names, problem, z = free_parameters(START)
    learned, fixed = names.split(problem)
    engine = AlignedEngine(dd.RK2())
    how = dd.SumOfSquares(), dd.Adam(), dd.Discrete(), engine
    descent = Descent(names, learned, fixed, *how, jnp.asarray(0.0), 10**6, 1)
    grids = engine.grids([problem] * fits, np.full(fits, sets[0].T), 10)
    z, stack = np.stack([z] * fits, -1), dd.Data.stack(sets)
    batch = DescentBatch(descent, z, stack, grids, False)
    state = jax.tree.map(jnp.asarray, batch.state)
    sizes = jnp.asarray(5), Grid(10, False, capacity), rows, False
    lowered = run.lower(descent, state, batch.targets, batch.T, *sizes)
    return lowered.compile().compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.usefixtures("without_cache")
def test_memory_grows_with_steps_and_fits_only():
    small, longer = temporary_bytes(8, 1 << 12), temporary_bytes(8, 1 << 14)
    wider = temporary_bytes(32, 1 << 12)
    row = 8 * (2 + 1 + 1)  # bytes of a state, its slope and two cotangents
    assert small < 8 * (1 << 12) * row * 1.5
    assert longer < 4.5 * small and wider < 4.5 * small
    assert temporary_bytes(8, 1 << 12, rows=100) < small * 1.1
