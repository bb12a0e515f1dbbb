"""One rule says which fits are at the same minimum, and what is printed follows it."""

import numpy as np
import pytest

import ddefind as dd
from ddefind._search.same_minimum import first_at_minimum, is_mirror_image
from support.fits import simulated


def test_the_rule_for_many_data_sets_is_that_for_each():
    """On the parabola S = theta^T H theta, and on one that is 0.05 higher."""
    random = np.random.default_rng(0)
    theta = random.normal(size=(5, 12, 2)) * 0.3
    theta[:, 0] = 0.0
    H = np.diag([2.0, 0.5])
    loss = 1 + np.einsum("sij,jk,sik->si", theta, H, theta)
    loss[:, 5:] += 0.05
    order = np.argsort(loss, axis=1)
    theta, loss = (
        np.take_along_axis(array, order.reshape(5, 12, *(1,) * (array.ndim - 2)), 1)
        for array in (theta, loss)
    )
    loss[0, -1] = np.inf
    gram = np.zeros((5, 12, 3, 3))
    gram[:, :, 1:, 1:], unit = H, np.array([1.0, 0.5, 2.0, 1.0, 4.0])
    found = first_at_minimum(theta, loss, gram, unit)
    for s in range(5):
        kept: list[int] = []
        for row in range(12):
            if not np.isfinite(loss[s, row]):
                assert found[s, row] == -1
                continue
            step = [theta[s, row] - theta[s, other] for other in kept]
            rise = [d @ H @ d for d in step]
            near = [
                other
                for other, r in zip(kept, rise)
                if max(r, loss[s, row] - loss[s, other]) < 0.1 * unit[s]
            ]
            kept += [] if near else [row]
            assert found[s, row] == (near or [row])[0]
        assert 1 < len(kept) < 12


@pytest.mark.parametrize(
    ("other", "is_image"),
    [
        ([2.0, 1.0, 0.5, 3.0, 0.8], True),  # the delays, with two rates
        ([1.0, 2.0, 0.5, 3.0, 0.8], True),  # the delays alone
        ([2.0, 1.0, 0.5, 0.8, 3.0], False),  # rates without the delays
        ([1.0, 2.0, 0.5, 0.8, 3.0], False),  # the same place
        ([1.0, 2.0, 3.0, 0.5, 0.8], False),  # a delay and a history
        ([0.8, 2.0, 0.5, 1.0, 3.0], False),  # a delay and a rate
    ],
)
def test_a_mirror_image_has_its_delays_in_another_order(other, is_image):
    """Of two rates, a number of the history, and two delays."""
    theta = np.array([1.0, 2.0, 0.5, 0.8, 3.0])
    is_history = np.arange(5) == 2
    assert is_mirror_image(np.array(other), theta, (3, 4), is_history) == is_image


def test_minima_outside_of_a_narrow_interval_do_not_tie():
    """The signs of a frequency fit about as well, so that the wide interval contains
    both; the narrow one contains neither, and nothing says that it does."""
    model = dd.equation("x' = -k * x(t - tau) + cos(w * t) + 0.004 * w")
    truth = model.problem(k=0.9, w=0.72, tau=0.6, b=0.5)
    data = simulated(truth, np.linspace(0, 20, 60), 0.1)
    bounds = {"w": dd.Parameter(lower=-1, upper=1)}
    for level, is_tied in ((0.95, True), (0.5, False)):
        fit = dd.fit(model, data, parameters=bounds, level=level)
        low, high = fit.intervals["w"]
        assert (low < -0.7 and high > 0.7) == is_tied
        assert ("The intervals contain both." in str(fit)) == is_tied
