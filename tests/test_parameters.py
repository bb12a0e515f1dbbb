"""Parameters by name: starts, bounds, fixing and ties; the free vector and back."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import ddefind as dd
from ddefind._problem.parameters import free_parameters

PROBLEM = dd.Problem(
    dd.models.ENSO(1.0, 2.0, [3.0, 4.0]), dd.Affine([5.0, 6.0], [7.0, 8.0]), 0.5
)
NAMES = ["theta_0", "theta_1", "theta_2[0]", "theta_2[1]"]
NAMES += ["a[0]", "a[1]", "b[0]", "b[1]", "tau"]
VALUES = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 0.5]


def settled(parameters, problem=PROBLEM, **options):
    """The free names, and every value by name, after `parameters`."""
    found, filled, z = free_parameters(problem, parameters, **options)
    return found.names, dd.parameter_values(found.problem(z, filled))


class Twice(eqx.Module):
    """Two children with the same field, and one called as the delay."""

    one: dd.Constant
    two: dd.Constant
    tau: jax.Array
    flag: bool = True
    count: int = 3

    def __call__(self, x, y, tau, t):
        return self.one.b * x + self.two.b * y * self.tau


TWICE = dd.Problem(
    Twice(dd.Constant(1.0), dd.Constant(2.0), jnp.asarray(3.0)),
    dd.Affine(4.0, 5.0),
    0.5,
)


def test_every_floating_point_array_has_a_short_name():
    assert dd.parameter_values(PROBLEM) == dict(zip(NAMES, VALUES))
    initial = dd.Problem(PROBLEM.rhs, PROBLEM.history, 0.5, initial=[1.0, 2.0])
    assert list(dd.parameter_values(initial))[-2:] == ["initial[0]", "initial[1]"]


def test_names_are_as_long_as_they_must_be():
    names = ["one.b", "two.b", "rhs.tau", "a", "history.b", "tau"]
    assert list(dd.parameter_values(TWICE)) == names


@pytest.mark.parametrize("name", ["theta_2[1]", "rhs.theta_2[1]"])
def test_short_and_full_names_are_accepted(name):
    assert settled({name: dd.Fixed(9.0)})[1]["theta_2[1]"] == 9.0


@pytest.mark.parametrize("name", ["one.b", "rhs.one.b", "history.b", "rhs.tau", "a"])
def test_names_that_are_unique_endings_are_accepted(name):
    free, _ = settled({name: dd.Fixed()}, TWICE)
    assert len(free) == 5 and name.removeprefix("rhs.one.") not in free


def test_a_full_name_is_never_ambiguous():
    free, values = settled({"tau": dd.Fixed(2.0)}, TWICE)
    assert values["tau"] == 2.0 and values["rhs.tau"] == 3.0
    assert "tau" not in free and "rhs.tau" in free


def test_a_whole_array_is_named_without_index():
    free, values = settled({"theta_2": dd.Fixed([9.0, 10.0]), "b": dd.Fixed(1.0)})
    assert free == ("theta_0", "theta_1", "a[0]", "a[1]", "tau")
    assert values["theta_2[1]"] == 10.0 and values["b[0]"] == values["b[1]"] == 1.0


@pytest.mark.parametrize(
    "problem, name, message",
    [
        (TWICE, "b", "any of rhs.one.b, rhs.two.b, history.b"),
        (PROBLEM, "theta0", "Did you mean 'theta_0"),
        (PROBLEM, "histroy.a", "Did you mean 'history.a"),
        (PROBLEM, "b[2]", "Did you mean 'b"),
        (PROBLEM, "Tau", "Did you mean 'tau"),
        (PROBLEM, "capacity", "Known names: theta_0, rhs.theta_0, theta_1"),
    ],
)
def test_ambiguous_and_unknown_names_are_refused(problem, name, message):
    with pytest.raises(ValueError, match=message):
        free_parameters(problem, {name: dd.Fixed()})


def test_without_settings_everything_is_free_from_its_own_value():
    found, filled, z = free_parameters(PROBLEM)
    assert found.names == tuple(NAMES)
    np.testing.assert_array_equal(z, VALUES)
    assert dd.parameter_values(found.problem(z, filled)) == dict(zip(NAMES, VALUES))


def test_starts():
    free, values = settled(
        {"theta_0": 5, "a": [1.5, 2.5], "b": dd.Parameter(start=3.5)}
    )
    assert free == tuple(NAMES)
    assert values["theta_0"] == 5.0 and values["a[1]"] == 2.5
    assert values["b[0]"] == values["b[1]"] == 3.5


def test_random_starts_lie_between_the_bounds_and_follow_the_seed():
    wide = {"a": dd.Parameter(start="random", lower=-2.0, upper=3.0)}
    draws = np.array([list(settled(wide, seed=seed)[1].values()) for seed in range(50)])
    drawn, rest = draws[:, 4:6], np.delete(draws, [4, 5], axis=1)
    assert np.all((drawn > -2) & (drawn < 3)) and np.ptp(drawn) > 3
    assert np.all(rest == rest[0])
    np.testing.assert_allclose(list(settled(wide, seed=7)[1].values()), draws[7])
    assert not np.any(drawn[:, 0] == drawn[:, 1])


def test_a_tie_follows_its_source():
    free, values = settled({"b": dd.Tied("theta_1"), "theta_1": 20.0})
    assert "b[0]" not in free and values["b[0]"] == values["b[1]"] == 20.0
    free, values = settled({"a": dd.Tied("theta_2")})
    assert values["a[0]"] == 3.0 and values["a[1]"] == 4.0
    free, values = settled({"theta_2[0]": dd.Tied("theta_2[1]")})
    assert values["theta_2[0]"] == 4.0 and "theta_2[1]" in free


def test_what_is_tied_leaves_its_short_name_to_others():
    ties = {"rhs.one.b": dd.Tied("history.b"), "rhs.two.b": dd.Tied("history.b")}
    free, values = settled(ties | {"b": 7.0}, TWICE)
    assert free == ("rhs.tau", "a", "b", "tau")
    assert values["one.b"] == values["two.b"] == values["history.b"] == 7.0
    with pytest.raises(ValueError, match="is set twice"):
        free_parameters(TWICE, ties | {"history.b": 7.0, "b": 7.0})


def test_a_tied_delay_keeps_its_name():
    free, values = settled({"tau": dd.Tied("rhs.tau")}, TWICE)
    assert free == ("one.b", "two.b", "rhs.tau", "a", "history.b")
    assert values["tau"] == values["rhs.tau"] == 3.0


def test_a_chain_of_ties_ends_at_what_is_free():
    ties = {"theta_0": "theta_1", "theta_1": "a[0]", "a[0]": "b[1]"}
    free, values = settled({name: dd.Tied(to) for name, to in ties.items()})
    assert [values[name] for name in ("theta_0", "theta_1", "a[0]")] == [8.0] * 3
    assert free == ("theta_2[0]", "theta_2[1]", "a[1]", "b[0]", "b[1]", "tau")
    # It may also end at what is fixed.
    free, values = settled(
        {"theta_0": dd.Tied("theta_1"), "theta_1": dd.Tied("tau"), "tau": dd.Fixed(3.0)}
    )
    assert values["theta_0"] == values["theta_1"] == values["tau"] == 3.0
    assert not {"theta_0", "theta_1", "tau"} & set(free)


def test_tied_parameters_move_together():
    ties = {"a": dd.Tied("theta_2"), "tau": dd.Fixed()}
    found, filled, z = free_parameters(PROBLEM, ties)
    moved = found.problem(z + np.arange(len(z)), filled)
    np.testing.assert_array_equal(moved.history.a, moved.rhs.theta_2)
    np.testing.assert_array_equal(moved.rhs.theta_2, [5.0, 7.0])
    assert float(moved.tau) == 0.5


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"theta_1": dd.Tied("a[0]"), "a[0]": dd.Tied("theta_1")}, "circle.*'theta_1'"),
        ({"theta_0": dd.Tied("theta_0")}, "cannot be tied"),
        ({"theta_0": dd.Tied("theta_2")}, "have 1 and 2 elements"),
        ({"theta_0": dd.Tied("theta_9")}, "no parameter 'theta_9'"),
        ({"theta_0": dd.Parameter(lower=1.5)}, "start of 'theta_0', 1, must lie"),
        ({"theta_0": dd.Parameter(upper=0.5)}, "start of 'theta_0', 1, must lie"),
        ({"theta_0": dd.Parameter(lower=1.0)}, "start of 'theta_0', 1, must lie"),
        ({"b": dd.Parameter(lower=7.5)}, r"start of 'b\[0\]', 7, must lie between"),
        ({"b": dd.Parameter(3.0, 4.0, 5.0)}, r"'b\[0\]', 3, .* 4 and 5"),
        ({"theta_0": dd.Parameter(lower=2, upper=1)}, "needs lower < upper"),
        ({"theta_0": dd.Parameter(lower=np.nan)}, "needs lower < upper"),
        ({"theta_0": dd.Parameter("random")}, "random start needs `lower` and"),
        ({"theta_0": dd.Parameter("zufall")}, 'number or "random", not .zufall'),
        ({"theta_2": [1.0, 2.0, 3.0]}, "one finite number or 2"),
        ({"theta_0": np.nan}, "one finite number"),
        ({"theta_0": dd.Fixed(np.inf)}, "one finite number"),
        ({"tau": -1.0}, "`tau` must start positive"),
        ({"tau": dd.Fixed(0.0)}, "`tau` must start positive"),
        ({"tau": dd.Tied("theta_0"), "theta_0": -1.0}, "`tau` must start positive"),
    ],
)
def test_bad_settings_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        free_parameters(PROBLEM, parameters)


@pytest.mark.parametrize("setting", ["free", None, {}, dd.Fixed])
def test_a_setting_must_be_one_of_ours_or_a_number(setting):
    with pytest.raises(TypeError, match=r"parameters\['tau'\]` must be a Parameter"):
        free_parameters(PROBLEM, {"tau": setting})
    for value in ("fast", [1.0, "a"], {"a": 1}):
        with pytest.raises(TypeError, match="'theta_0' needs a number, but got"):
            free_parameters(PROBLEM, {"theta_0": dd.Fixed(value)})


BOUNDED = {
    "theta_0": dd.Parameter(lower=-1.0),
    "theta_1": dd.Parameter(upper=3.0),
    "a": dd.Parameter(lower=4.0, upper=9.0),
}


@given(st.lists(st.floats(-20, 20), min_size=9, max_size=9))
@settings(max_examples=50, deadline=None)
def test_every_free_vector_keeps_the_bounds_and_comes_back(z):
    found, *_ = free_parameters(PROBLEM, BOUNDED)
    x = np.asarray(found.transform(jnp.array(z)))
    assert np.all(x >= found.lower) and np.all(x <= found.upper)
    inside = (x > found.lower) & (x < found.upper)
    back = found.inverse(np.where(inside, x, [0, 0, 3, 4, 5, 6, 7, 8, 1.0]))
    # Near a bound digits are lost: the distance to it is known to 1e-16 of its size.
    near = inside & (np.abs(z) < 10)
    np.testing.assert_allclose(back[near], np.array(z)[near], rtol=1e-9, atol=1e-9)


def test_bounded_starts_are_kept_exactly():
    _, values = settled(BOUNDED)
    np.testing.assert_allclose(list(values.values()), VALUES, rtol=1e-14)


def test_transforms_have_finite_slopes_far_out():
    found, *_ = free_parameters(PROBLEM, BOUNDED)
    slopes = jax.jacfwd(found.transform)(jnp.full(9, 600.0))
    assert np.all(np.isfinite(slopes[2:])) and np.all(np.isfinite(slopes[1]))


def test_the_gradient_of_join_has_no_scatter():
    # A scatter would keep a training loop from becoming one kernel.
    settings = BOUNDED | {"b": dd.Tied("theta_2"), "theta_2[0]": dd.Fixed()}
    found, filled, z = free_parameters(PROBLEM, settings)
    learned, _ = found.split(filled)

    def total(z):
        leaves = jax.tree.leaves(found.join(z, learned))
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in leaves)

    gradient = jax.grad(total)
    assert "scatter" not in str(jax.make_jaxpr(gradient)(jnp.asarray(z)))
    step = 1e-6
    moves = step * np.eye(len(z))
    numeric = [float(total(z + e) - total(z - e)) / (2 * step) for e in moves]
    np.testing.assert_allclose(gradient(jnp.asarray(z)), numeric, atol=1e-8)


def test_leaves_that_are_no_parameters_stay_what_they_are():
    found, filled, z = free_parameters(TWICE)
    moved = found.problem(z + 1, filled)
    assert moved.rhs.flag is True and moved.rhs.count == 3
    assert float(moved.rhs.tau) == 4.0


def test_a_model_with_an_empty_array_of_parameters():
    rhs = dd.models.Structured(h=[lambda x, y, tau, t: -y], c=[2.0])
    free, values = settled({"c": 3.0}, dd.Problem(rhs, dd.Constant(1.0), 0.5))
    assert len(free) == 3 and list(values.values()) == [3.0, 1.0, 0.5]


def test_a_delay_may_have_any_text_as_its_name():
    tau = {"2 weeks": 14.0, "it's [0].5": 1.0, "rest": 2.0}
    problem = dd.Problem(lambda x, y, tau, t: -y["rest"], dd.Constant(1.0), tau)
    found, _, _ = free_parameters(problem)
    names = ["tau['2 weeks']", 'tau["it\'s [0].5"]', "rest"]
    assert [found.names[j] for j in found.delays] == names
