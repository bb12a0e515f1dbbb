"""Doses: what they do to a solution, their parameters, and their errors."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._equation.problem_text import equation_of
from ddefind._problem.driving import with_same_tables
from ddefind._results.saved_problem import describe, read_problem, rebuild
from support.driven_problems import Structure, random_problem
from support.fits import Options

THREE = dd.equation(
    "p' = -k * p + 0 * p(t - tau); q' = -k * q; r' = -k * r", history=[0.0, 0.0, 0.0]
)
TWO = dd.equation("G' = -a * G; C' = a * G(t - tau) - k * C", history=[0.0, 0.0])


def test_boluses_infusions_and_states_that_are_set():
    doses = [
        # Also at time zero, and where times are sums with rounding errors.
        dd.Dose("p", 1.0, 0.0, every=0.1, count=4),
        dd.Dose("q", 3.0, 1.0, duration=2.0),
        dd.Dose("r", 2.0, 1.0),
        dd.SetState("r", 5.0, 2.0),
        dd.Dose("r", 1.0, 2.0),
        dd.SetState("r", 7.0, 4.0),
    ]
    problem = THREE.problem(k=1.0, tau=0.7, doses=doses)
    solution = dd.solve(problem, 6.0, dd.RK4(), steps_per_delay=40)

    def at(i, *times):
        return np.asarray(solution(np.array(times)))[:, i]

    e = np.exp(-0.1)
    # A measurement at the time of a dose was taken before it.
    found = at(0, 0.0, 0.1, 0.3, 0.3 + 1e-6)
    expected = [0, e, e + e**2 + e**3, 1 + e + e**2 + e**3]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    up = 1.5 * (1 - np.exp(-2))
    expected = [0, 1.5 * (1 - np.exp(-1)), up, up * np.exp(-1)]
    np.testing.assert_allclose(at(1, 1.0, 2.0, 3.0, 4.0), expected, atol=1e-7)
    expected = [2 * np.exp(-1), 6 * np.exp(-1), 6 * np.exp(-2), 7 * np.exp(-1)]
    np.testing.assert_allclose(at(2, 2.0, 3.0, 4.0, 5.0), expected, atol=1e-6)


def test_a_dose_passes_through_a_delay():
    problem = TWO.problem(a=0.5, k=0.0, tau=1.5, doses=[dd.Dose("G", 2.0, 1.0)])
    t = np.array([2.5, 3.5, 5.0])
    found = np.asarray(dd.solve(problem, 5.0, dd.RK4())(t))[:, 1]
    expected = 2 * (1 - np.exp(-0.5 * np.maximum(t - 2.5, 0)))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "tau, mean",
    [
        (dd.UniformDelay(0.5, 2.0), lambda s: np.clip((s - 0.5) / 1.5, 0, 1)),
        (dd.GammaDelay(1.0, 1.0), lambda s: 1 - np.exp(-np.maximum(s, 0))),
    ],
)
def test_a_dose_passes_through_a_distribution_of_delays(tau, mean):
    """x is zero but for the dose, and z' is the mean of the past x."""

    def rhs(x, y, tau, t):
        return jnp.stack([jnp.zeros(()), y[0]])

    past, doses = dd.Constant([0.0, 0.0]), [dd.Dose(0, 2.0, 1.0)]
    problem = dd.Problem(rhs, past, tau, doses=doses)
    t = np.linspace(0, 4, 4001)
    rate = 2 * mean(t - 1.0)
    expected = np.cumsum(np.append(0, 0.5 * (rate[1:] + rate[:-1]) * np.diff(t)))
    found = np.asarray(dd.solve(problem, 4.0)(t[::500]))[:, 1]
    np.testing.assert_allclose(found, expected[::500], atol=1e-5)


def test_names_are_parameters():
    doses = [dd.Dose("G", "F", "t0"), dd.Dose("G", "F", 3.0), dd.SetState("C", "k", 4)]
    model = TWO.with_doses(doses)
    assert model.names == ("a", "k", "b[0]", "b[1]", "tau", "F", "t0")
    assert model.settings["doses.values.k"] == dd.Tied("rhs.k")
    problem = model.problem(a=0.5, k=0.3, tau=1.0, F=2.0, t0=1.0)
    assert problem.doses is not None
    assert float(problem.doses.values["k"]) == 0.3
    again = equation_of(problem)
    assert again is not None and again.names == model.names
    # In Python an array of JAX is a parameter, and a number is not.
    own = dd.Dose(0, jnp.asarray(2.0), 1.0)
    plain = dd.Problem(lambda x, y, tau, t: -y, dd.Constant(1.0), 1.0, doses=[own])
    assert dd.parameter_values(plain) == {"b": 1.0, "tau": 1.0, "amount_0": 2.0}


@pytest.mark.slow
def test_routes_agree():
    driven = random_problem(Structure(sets=1), 4)
    random = np.random.default_rng(0)
    data = dd.Data(np.sort(random.uniform(0, 8, 20)), random.normal(size=(20, 3)))

    def gradient(route, **more):
        found = dd.value_and_grad(driven.problem, data, gradient=route, **more)[1]
        return np.array(list(dd.parameter_values(found).values()))

    found, expected = gradient(dd.Forward()), gradient(dd.Discrete())
    adaptive = gradient(dd.Discrete(), solver=dd.Tsit5(1e-10, 1e-10))
    size = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3 * size)
    np.testing.assert_allclose(adaptive, expected, rtol=0, atol=1e-3 * size)


@pytest.mark.slow
def test_a_fit_with_doses():
    doses = [dd.Dose("G", "F", time=1.0, every=3.0, count=2), dd.Dose("C", 1.0, "t0")]
    truth = dict(a=1.0, k=0.5, tau=0.7, F=2.0, t0=5.0)
    t = np.linspace(0, 10, 40)
    x = np.asarray(dd.solve(TWO.problem(truth, doses=doses), 10.0)(t))[:, 1:]
    noise = 0.01 * np.random.default_rng(0).normal(size=x.shape)
    observed = dd.equation(TWO.texts[0], history=[0.0, 0.0], observe="C")
    how: Options = {"optimizer": dd.LeastSquares(starts=8), "intervals": False}
    how |= {"parameters": {"b": dd.Fixed(0.0)}, "doses": doses}
    found = dd.fit(observed, dd.Data(t, x + noise), **how)
    for name, value in truth.items():
        assert found.best[found.names.index(name)] == pytest.approx(value, rel=0.05)


def test_tables_of_several_experiments_get_one_structure():
    model = dd.equation("x' = -k * x(t - tau) + u; y' = x - y", inputs=("u",))
    values = dict(k=1.0, tau=0.7, b=[1.0, 0.0])
    given = [
        ([0.0, 5.0], [dd.Dose("x", 1.0, 2.0), dd.Dose("x", 1.0, 3.0)]),
        ([0.0, 1.0, 3.0, 5.0], [dd.Dose("y", 1.0, 2.0, 1.0), dd.SetState("x", 1.0, 1)]),
        ([0.0, 2.0, 5.0], []),
    ]
    problems = [
        model.problem(values, inputs={"u": dd.Input(t, np.cos(t))}, doses=doses)
        for t, doses in given
    ]
    padded = with_same_tables(problems, 5.0)
    structures = [jax.tree.structure(problem) for problem in padded]
    assert structures[0] == structures[1] == structures[2]
    shapes = [[np.shape(a) for a in jax.tree.leaves(problem)] for problem in padded]
    assert shapes[0] == shapes[1] == shapes[2]
    found = dd.solve(padded[1], 5.0, dd.RK4())(5.0)
    expected = dd.solve(problems[1], 5.0, dd.RK4())(5.0)
    np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize(
    "doses, message",
    [
        ([dd.Dose("Q", 1, 1)], "'Q', which is no state"),
        ([dd.Dose("G", 1, 30.0)], "at the time 30, outside of the record"),
        ([dd.Dose("G", 1, -1.0)], "at the time -1, outside of the record"),
        ([dd.Dose("G", 1, 1, 3), dd.Dose("G", 1, 2, 3)], "overlap: one from 1 to 4"),
        ([dd.Dose("G", 1, 1, 3, every=2, count=3)], "overlap"),
        ([dd.Dose("G", 1, 1, -1)], "`duration` of a dose must be positive"),
        ([dd.Dose("G", "C", 1)], "must be the name of a parameter"),
        ([dd.Dose("G", np.inf, 1)], "must be finite"),
        (3, "one is 3"),
    ],
)
def test_bad_doses(doses, message):
    data = dd.Data(np.linspace(0, 10, 20), np.zeros((20, 2)))
    with pytest.raises((ValueError, TypeError), match=message):
        dd.fit(TWO, data, doses=doses)


def test_bad_arguments_of_a_dose():
    with pytest.raises(ValueError, match="belong together"):
        dd.Dose("G", 1, 1, count=3)
    with pytest.raises(ValueError, match="`every` must be positive"):
        dd.Dose("G", 1, 1, every=-1, count=3)
    with pytest.raises(TypeError, match="`state` of a dose"):
        dd.Dose(1.5, 1, 1)  # type: ignore
    past, dose = dd.Constant(1.0), dd.Dose(4, 1, 1)
    with pytest.raises(ValueError, match="no state number 4"):
        dd.Problem(lambda x, y, tau, t: -y, past, 1.0, doses=dose)


def test_inputs_and_doses_are_saved_with_a_text():
    model = dd.equation("x' = -k * x(t - tau) + u + v", inputs=("u", "v"))
    inputs = {"u": dd.Input([0.0, 1.0, 9.0], [0.0, 2.0, 1.0], "cubic"), "v": "t > 4"}
    doses = [dd.Dose("x", "F", 1.0, "long", 3.0, 2), dd.SetState("x", 1.0, "t0")]
    values = dict(k=0.7, tau=0.9, b=1.0, F=1.2, t0=5.0, long=0.5)
    problem = model.problem(values, inputs=inputs, doses=doses)
    saved = json.loads(json.dumps(describe(problem, None)))
    rebuilt, again = rebuild(read_problem(saved) or {}, 1000)
    assert jax.tree.structure(rebuilt) == jax.tree.structure(problem)
    assert again is not None and again.names == equation_of(problem).names  # type: ignore
    leaves = map(jax.tree.leaves, (problem, rebuilt))
    tables = [[a for a in each if isinstance(a, np.ndarray)] for each in leaves]
    assert len(tables[0]) == len(tables[1]) > 5
    for one, two in zip(*tables):
        np.testing.assert_allclose(one, two, rtol=1e-15)
