"""Splines through many columns are those through each column alone."""

import numpy as np
import pytest

from ddefind._data.smoothing import smoothed, smoothed_columns

RANDOM = np.random.default_rng(1)
TIMES = {
    "equal": np.linspace(0, 10, 101),
    "few": np.linspace(3, 4, 5),
    "random": np.sort(RANDOM.uniform(0, 10, 80)),
    "very uneven": np.concatenate([np.geomspace(1e-6, 1, 20), np.arange(2.0, 12.0)]),
}


@pytest.mark.parametrize("name", TIMES)
def test_each_column_has_its_own_spline(name):
    t = TIMES[name]
    x = np.sin(t)[:, None] + 0.1 * RANDOM.normal(size=(len(t), 70))
    many = smoothed_columns(t, x)
    for column in (0, 1, 63, 64, 69):
        alone = smoothed(t, x[:, column])
        np.testing.assert_allclose(many.x[:, column], alone.x, atol=1e-6)
        assert many.curvatures[column] == pytest.approx(alone.curvatures)
        place = np.linspace(t[0], t[-1], 33)
        np.testing.assert_allclose(
            many.slope(place)[:, column], alone.slope(place), rtol=1e-5, atol=1e-4
        )


def test_a_column_does_not_depend_on_the_others():
    t = TIMES["equal"]
    x = np.cos(t)[:, None] + 0.2 * RANDOM.normal(size=(len(t), 150))
    whole = smoothed_columns(t, x)
    for chosen in (slice(0, 3), slice(60, 131), slice(149, 150)):
        part = smoothed_columns(t, x[:, chosen])
        assert np.array_equal(part.x, whole.x[:, chosen])
        assert np.array_equal(part.second, whole.second[:, chosen])
