"""The likelihood of a fit whose noise has a model: its derivatives and its minimum."""

import numpy as np
import pytest

import ddefind as dd
from ddefind._fitting.read_tasks import with_noise_of
from support.least_squares_problems import LOGISTIC, TRUTH, normal_function, setup_of
from support.repeats import mostly_slow

TRUE_NOISE = {
    "gaussian": dd.noise.Gaussian(0.3),
    "proportional": dd.noise.Proportional(0.1),
    "combined": dd.noise.Combined(0.2, 0.05),
    "lognormal": dd.noise.LogNormal(1.1),
    "poisson": dd.noise.Poisson(),
    "negative-binomial": dd.noise.NegativeBinomial(0.1),
    "student": dd.noise.Student(0.3, 4.0),
}
WORDS = tuple(TRUE_NOISE)


def noisy(word, limit=None, count=30, seed=0, K=20.0):
    """Data of the delayed logistic equation with some noise; values below `limit` are
    only known to be so."""
    problem = dd.equation(LOGISTIC).problem(TRUTH | {"K": K, "b": 0.4 * K})
    t = np.linspace(0, 10, count)
    f = np.asarray(dd.solve(problem, T=10)(t))
    noise = TRUE_NOISE[word]
    y = noise.draw(f, np.asarray(noise.eta()), np.random.default_rng(seed))
    if limit is None:
        return dd.Data(t, y)
    return dd.Data(t, np.maximum(y, limit), below=y < limit)


def likelihood_setup(word, data, **options):
    blank = dd.equation(LOGISTIC).blank
    return setup_of(with_noise_of(blank, data, word), data, **options)


@pytest.mark.parametrize(
    "word", mostly_slow(WORDS, always=("combined", "negative-binomial", "student"))
)
def test_derivatives_are_those_of_differences(word):
    """Of values that were measured, and of some below a limit."""
    data = noisy(word, limit=11.0)
    assert data.below is not None and 3 < data.below.sum() < 20
    setup = likelihood_setup(word, data)
    theta = np.array([1.7, 21.0, 7.0, 1.05, *(1.2 * setup.guess[4:])])
    if word == "lognormal":
        theta[4] = 1.15
    found = normal_function(setup)
    gram = found(theta, 24).gram
    differences = []
    for j, value in enumerate(theta):
        move = 1e-5 * value * (np.arange(len(theta)) == j)
        high, low = (found(theta + s * move, 24).gram[0, 0] for s in (1, -1))
        differences.append((high - low) / (2e-5 * value))
    scale = np.abs(differences).max()
    assert np.allclose(2 * gram[0, 1:], differences, rtol=1e-6, atol=1e-7 * scale)
    assert np.linalg.eigvalsh(gram[1:, 1:]).min() >= -1e-9 * np.abs(gram).max()
