"""Inputs: tables and formulas of time, in Python and in texts, and their errors."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

import ddefind as dd
from ddefind._engine.mesh.mesh import points_of
from ddefind._equation.problem_text import equation_of
from ddefind._search.make_setup import make_setup
from support.fits import simulated, unchecked

TEXT = "x' = -k * x + a * u(t - tau)"
VALUES = dict(k=1.0, a=2.0, tau=1.5, b=1.0)
T = 6.0


def table(kind: Any = "linear", count=12, first=-4.0, last=8.0):
    t = np.linspace(first, last, count)
    return dd.Input(t, np.sin(t), kind)


def driven(kind="linear"):
    model = dd.equation(TEXT, inputs=("u",))
    return model, model.problem(VALUES, inputs={"u": table(kind)})


def test_kinds_of_tables():
    random = np.random.default_rng(0)
    t, x = np.sort(random.uniform(0, 9, 11)), random.normal(size=11)
    at = np.linspace(t[0], t[-1], 200, endpoint=False)
    expected = {
        "cubic": PchipInterpolator(t, x)(at),
        "linear": np.interp(at, t, x),
        "steps": x[np.searchsorted(t, at, side="right") - 1],
    }
    for kind, values in expected.items():
        u = dd.Input(t, x, kind)  # type: ignore
        np.testing.assert_allclose(jax.vmap(u)(at), values, atol=1e-13)
        np.testing.assert_allclose(jax.vmap(u.padded(20))(at), values, atol=1e-13)
        np.testing.assert_array_equal(u.values, x)


@pytest.mark.parametrize(
    "t, x, message",
    [
        ([0.0], [1.0], "at least two times"),
        ([0, 1], [1], "one value for each"),
        ([0, 2, 1], [1, 1, 1], "must increase, but 1 follows 2"),
        ([0, 1, 1], [1, 1, 1], "must increase"),
        ([0, np.nan], [1, 1], "time number 1 of an input is nan"),
        ([0, 1], [np.inf, 1], "value number 0 of an input is inf"),
    ],
)
def test_bad_tables(t, x, message):
    with pytest.raises(ValueError, match=message):
        dd.Input(t, x)
    with pytest.raises(ValueError, match="kind"):
        dd.Input([0, 1], [0, 1], "spline")  # type: ignore


def test_an_input_is_not_learned_but_traced():
    """Another table of the same length is solved by the same program."""
    _, problem = driven()
    assert list(dd.parameter_values(problem)) == ["k", "a", "b", "tau"]
    traces = []

    @jax.jit
    def read(leaves):
        traces.append(1)
        return jax.tree.unflatten(jax.tree.structure(table()), leaves)(0.3)

    leaves = jax.tree.leaves(table())
    assert float(read(leaves)) == pytest.approx(float(table()(0.3)))
    read([leaf + 1.0 for leaf in leaves])
    assert len(traces) == 1


def test_reads_are_found():
    def rhs(x, y, tau, t, u=table(), v=table("steps"), w=table("cubic"), a=1.0):
        return -a * x + u(t) + v(t - tau[1]) + w(t / 2) * y[0]

    problem = dd.Problem(rhs, dd.Constant(1.0), tau=(1.0, 2.0))
    reads = [tuple(known.reads) for known in problem.known_times]
    assert reads == [(True, ()), (False, (1,)), (True, (0, 1))]
    assert [known.derivative for known in problem.known_times] == [2, 1, 3]


def test_knots_are_no_movers_and_smooth_kinks_have_fewer_images():
    counts = {}
    for kind in ("steps", "linear", "cubic"):
        points = points_of(driven(kind)[1], dd.RK4())
        # One mover, the delay; and only the state's own kinks are carried on: none.
        assert len(points.sums[0]) == 1
        counts[kind] = sum(table >= 0 for table in points.tables)
    assert counts == {"steps": 1, "linear": 1, "cubic": 1}
    model = dd.equation("x' = -k * x(t - tau) + u", inputs=("u",))
    for kind, images in (("steps", 3), ("linear", 2), ("cubic", 1)):
        problem = model.problem(k=1.0, tau=1.5, b=1.0, inputs={"u": table(kind)})
        points = points_of(problem, dd.RK4())
        assert sum(table >= 0 for table in points.tables) == images


def test_numbers_in_switches_are_no_movers():
    def rhs(x, y, tau, t):
        return -y + jnp.where(t > 1.3, 1.0, 0.0)

    problem = dd.Problem(rhs, dd.Constant(1.0), 0.7, switches=(2.0, 1.3))
    points = points_of(problem, dd.RK4())
    assert len(points.sums[0]) == 1 and max(points.sizes) == 2


def test_a_text_with_inputs():
    model, problem = driven()
    assert model.inputs == ("u",) and model.names == ("k", "a", "b", "tau")
    assert "u(t - \\tau)" in model.latex() and "# inputs: u" in str(model)
    assert equation_of(problem) is not None
    assert 'inputs=("u",)' in repr(model).replace("'", '"')
    # It is the same as in Python.
    u = table()

    def rhs(x, y, tau, t, k=1.0, a=2.0):
        return -k * x + a * u(t - tau)

    plain = dd.Problem(rhs, dd.Constant(1.0), 1.5)
    found = float(dd.solve(problem, T, dd.RK4(), 20)(T)[0])
    fine = float(dd.solve(plain, T, dd.RK4(), 400)(T)[0])
    assert found == pytest.approx(fine, abs=1e-6)


def test_formulas_of_time():
    model = dd.equation("x' = u(t - tau) - x", inputs=("u",))
    problem = model.with_inputs({"u": "where(t > 3, 1, 0)"}).problem(tau=0.5, b=0.0)
    assert np.asarray(problem.known_times[0].times) == pytest.approx([3.0])
    found = dd.solve(problem, T, dd.RK4())([3.5, 4.5])[:, 0]
    np.testing.assert_allclose(found, [0, 1 - np.exp(-1)], atol=1e-7)


def test_inputs_in_what_is_observed_and_at_time_zero():
    text = "x' = -x(t - tau) + u; x(0) = 2 * u"
    model = dd.equation(text, inputs=("u",), observe="y = x + 10 * u")
    u = dd.Input([0.0, 8.0], [1.0, 9.0])
    problem = model.problem(tau=1.0, b=0.0, inputs={"u": u})
    assert float(problem.start[0]) == 2.0
    assert float(problem.observe(jnp.ones(1), 3.0)[0]) == 41.0  # type: ignore


@pytest.mark.parametrize(
    "text, message",
    [
        ("x' = x(t - u) + u", "A delay cannot use the input 'u'"),
        ("x' = u; x(t<=0) = u", "A history cannot use the input 'u'"),
        ("x' = f; f = u; x(t<=0) = f", "cannot use the input 'u': 'f' needs it"),
        ("x' = u(3)", "An input is read as u or u"),
        ("x' = u; u = 3", "the text cannot define it as well"),
        ("x' = v(t - tau) + u", "neither a state nor an input"),
        ("x' = -x", "occurs in no formula"),
        ("x' = u'(t - tau)", "only states have slopes"),
        ("x' = delay(u, gamma(m, k))", "mean of a state"),
    ],
)
def test_errors_in_texts(text, message):
    with pytest.raises(dd.EquationError, match=message):
        dd.equation(text, inputs=("u",))


@pytest.mark.parametrize(
    "inputs, message",
    [
        (None, "lists the input 'u', but no values are given"),
        ({}, "lists the input 'u', but no values are given"),
        ({"w": table()}, "lists no input 'w'"),
        ({"k": table()}, "'k' is a parameter of the text"),
        ({"u": 3.0}, "must be a `dd.Input"),
        ({"u": "a * t"}, "a formula of numbers and t, but has 'a'"),
        ({"u": "x = t"}, "one formula of t"),
    ],
)
def test_inputs_that_do_not_fit(inputs, message):
    model = dd.equation(TEXT, inputs=("u",))
    with pytest.raises((ValueError, TypeError), match=message):
        model.problem(VALUES, inputs=inputs)


def test_beyond_its_record_an_input_is_an_error():
    model, problem = driven()
    with pytest.raises(ValueError, match="not known from 8 to 18.5"):
        dd.solve(problem, 20.0)
    early = model.problem(VALUES | {"tau": 5.0}, inputs={"u": table()})
    with pytest.raises(ValueError, match="not known from -5 to -4. It is read at t - "):
        dd.solve(early, T)
    data = dd.Data(np.linspace(0, T, 30), np.zeros(30))
    given = {"u": table()}
    long = {"tau": dd.Parameter(upper=4.5)}
    for message, options in {
        "tau up to 4.5.*lower upper bound": dict(inputs=given, parameters=long),
        "not known from -12 to 0": dict(inputs={"u": table(first=0.0)}),
        "not known from 5 to": dict(inputs={"u": table(last=5.0)}),
        "no values are given": {},
        "times of inputs and doses are": dict(inputs=given, history="data"),
    }.items():
        with pytest.raises(ValueError, match=message):
            dd.fit(model, data, **unchecked(options))
    with pytest.raises(ValueError, match="a `Problem` has its own"):
        dd.fit(problem, data, inputs=given)


def test_a_delay_stays_where_an_input_is_known():
    """Its upper bound, if none is given, is what the table covers."""
    _, problem = driven()
    data = dd.Data(np.linspace(0, T, 40), np.zeros(40))
    setup = make_setup(problem, data, None, dd.RK4(), 10)[0]
    assert setup.upper[setup.model.free.index("tau")] == pytest.approx(4.0)


def test_a_table_is_no_parameter_of_a_fit():
    model, problem = driven()
    data = simulated(problem, np.linspace(0, T, 40))
    options: Any = {"optimizer": dd.LeastSquares(starts=4), "intervals": False}
    found = dd.fit(model, data, inputs={"u": table()}, **options)
    assert found.values["tau"] == pytest.approx(1.5, abs=1e-3)


@pytest.mark.slow
def test_a_fit_with_an_input():
    model, problem = driven()
    data = simulated(problem, np.linspace(0, T, 40), 0.02, seed=1)
    found = dd.fit(model, data, inputs={"u": table()})
    assert found.best[found.names.index("tau")] == pytest.approx(1.5, abs=0.1)
    assert np.isfinite(found.predict(8.0).mean).all()
    with pytest.raises(ValueError, match="not known from 8 to"):
        found.predict(20.0)
