"""Networks in equations that are texts: `NN(...)`."""

import json
from typing import Any

import numpy as np
import pytest

import ddefind as dd
from ddefind._cli.fit_settings import networks_of
from ddefind._cli.model_file import names_in_equation
from ddefind._cli.parse_options import parse_networks
from ddefind._equation.problem_text import equation_of
from support.command import refused
from support.fits import reloaded

T = np.linspace(0, 10, 40)
DATA = dd.Data(T, 1 + 0.5 * np.sin(T), names=["x"])


def test_one_name_is_one_network():
    model = dd.equation("x' = NN(y) - NN_loss(x, t); y' = NN(x(t - tau)) - d * y")
    problem = model.problem(d=1.0, tau=1.0, b=[1.0, 2.0])
    assert model.network_names == ("NN", "NN_loss")
    assert problem.rhs.NN.inputs == 1 and problem.rhs.NN_loss.inputs == 2
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    NN, NN_loss = problem.rhs.NN, problem.rhs.NN_loss
    expected = [NN(2.0)[0] - NN_loss(1.0, 5.0)[0], NN(3.0)[0] - 2.0]
    np.testing.assert_allclose(problem.rhs(x, y, 1.0, 5.0), expected)


def test_networks_of_inputs_of_delayed_formulas_in_histories_and_observations():
    model = dd.equation(
        "f = NN(x, u); x' = f(t - tau) - x; x(t<=0) = 1 + NN_past(t)",
        observe="2 * NN_seen(x)",
        inputs=("u",),
    )
    problem: Any = model.problem(tau=1.0, inputs={"u": "2 + t"})
    assert problem.rhs.NN.inputs == 2 and problem.history.NN_past.inputs == 1
    value = problem.rhs(np.array([1.0]), np.array([3.0]), 1.0, 4.0)
    np.testing.assert_allclose(value, problem.rhs.NN(3.0, 5.0) - 1)
    found = problem.observe(np.array([0.7]), 0.0)
    np.testing.assert_allclose(found, 2 * problem.observe.NN_seen(0.7))
    assert model.network_names == ("NN", "NN_past", "NN_seen")


def test_a_name_without_parentheses_is_a_parameter():
    assert dd.equation("x' = NN * x - NN_2").names == ("NN", "NN_2", "b", "tau")
    state = dd.equation("NN' = -NN(t - tau)")
    assert state.network_names == () and state.states == ("NN",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x' = NN * x - NN(x)", "Give the parameter another name"),
        ("x' = x(t - NN(x))", "A delay cannot contain a network"),
        ("f = NN(x); x' = x(t - f)", "A delay cannot contain a network"),
        ("x' = -x; x(0) = NN(1)", "A value at time zero cannot contain a network"),
        ("x' = NN(x) + NN(x, t)", "gets 1 values in one place and 2 in another"),
        ("x' = NN(x); x(t<=0) = NN(t)", "in a history and in an equation"),
        ("f = NN(x); x' = f; x(t<=0) = NN(t)", "in a history and in an equation"),
    ],
)
def test_networks_that_mean_nothing_are_refused(text, message):
    with pytest.raises(dd.EquationError, match=message):
        dd.equation(text)


def test_sizes_and_shapes():
    wide = {"NN": dd.Network(width=32, positive=True)}
    model = dd.equation("x' = r * x - NN(x(t - tau))", networks=wide)
    assert model.problem(r=1.0, b=1.0, tau=1.0).rhs.NN.positive
    assert "networks={'NN': dd.Network(width=32, positive=True)}" in repr(model)
    again = model.with_history("affine").problem(r=1.0, a=0.0, b=1.0, tau=1.0)
    assert again.rhs.NN.width == 32
    plain = dd.equation("x' = r * x - NN(x(t - tau))")
    narrow = plain.problem(r=1.0, b=1.0, tau=1.0, networks={"NN": dd.Network(2)})
    assert narrow.rhs.NN.width == 2
    with pytest.raises(ValueError, match=r"networks are NN\(...\)"):
        plain.with_networks({"NM": dd.Network()})
    with pytest.raises(TypeError, match="must be a `dd.Network"):
        plain.with_networks({"NN": 32})  # type: ignore
    with pytest.raises(ValueError, match="a network is one number"):
        plain.with_networks({"NN": dd.Network(outputs=2)})


def test_networks_on_the_command_line(capsys):
    texts = ["NN: width=3, through-zero", "NN_b: bounds=[0, 2.5] depth=2"]
    networks = networks_of(parse_networks("--network", texts))
    assert networks is not None
    assert repr(networks["NN"]) == "dd.Network(width=3, through_zero=True)"
    assert networks["NN_b"].bounds == (0.0, 2.5) and networks["NN_b"].depth == 2
    for text, message in {
        "width=3": "needs a name",
        "NN: breadth=3": "has no word 'breadth=3'",
        "NN: bounds=0,high": "bounds of two numbers",
        "NN: positive through-zero": "is not zero at zero",
    }.items():
        with pytest.raises(ValueError, match=message):
            networks_of(parse_networks("--network", [text]))
    for command in (("simulate", "--T", 5), ("check",)):
        shown = refused(capsys, *command, "-e", "x' = NN(x(t - tau)) - x")
        assert "NN(...), which has no values before" in shown
    assert names_in_equation(dd.equation("x' = NN(x(t - tau)) - g * x")) == ["g"]


def test_a_network_as_history():
    model = dd.equation("x' = -y(t - tau); y' = x", history=dd.Network(width=3))
    assert model.problem(tau=1.0).history(-0.5).shape == (2,)


def test_text_and_latex_keep_the_network():
    text = "x' = r * x - NN_uptake(x(t - tau), t)"
    model = dd.equation(text)
    assert str(model) == text
    assert r"\mathrm{NN}_{\mathrm{uptake}}\left(x(t - \tau), t\right)" in model.latex()
    assert str(equation_of(model.problem(r=1.0, b=1.0, tau=1.0))) == text


def test_a_fit_of_a_text_comes_back_from_a_file(tmp_path):
    model = dd.equation("x' = NN(x(t - tau)) - g * x")
    small = {"NN": dd.Network(width=2, increasing=True)}
    options: Any = dict(epochs=3, optimizer=dd.Adam(0.01))
    start = dict(g=1.0, b=1.0, tau=1.0)
    fit = dd.fit(model, DATA, networks=small, parameters=start, **options)
    np.testing.assert_allclose(fit.problem.rhs.NN.center, [1.0], atol=0.15)
    assert "NN(x(t - tau))" in str(equation_of(fit.problem))
    loaded = reloaded(fit, tmp_path, dd.FitResult)
    assert str(loaded.model) == str(fit.model)
    assert loaded.problem.rhs.NN.increasing
    expected = np.asarray(dd.solve(fit.problem, T=5)(T[:20]))
    np.testing.assert_array_equal(dd.solve(loaded.problem, T=5)(T[:20]), expected)
    content = json.loads((tmp_path / "fit.json").read_text())
    assert content["problem"]["networks"]["NN"]["width"] == 2
    with pytest.raises(ValueError, match="`networks` are those of an `Equation`"):
        dd.fit(fit.problem, DATA, networks=small, **options)
