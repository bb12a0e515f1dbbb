"""`Problem`: its checks by shape, its refusals, and errors of the user's functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from support.fits import Options, unchecked

MODEL, PAST = dd.models.Logistic(1.0, 1.0), dd.Constant(0.1)
DATA = dd.Data([0.0, 1.0], [1.0, 2.0])


def decay(x, y, tau, t):
    return -y


def test_functions_and_modules_are_accepted():
    two = dd.Problem(decay, lambda t: jnp.zeros(2), 1, observe=lambda x, t: x[:1])
    assert (two.dimension, two.observed) == (2, 1)
    module = dd.Problem(MODEL, dd.Constant([1.0, 2.0, 3.0]), 0.5)
    assert (module.dimension, module.observed) == (3, 3)


def test_scalars_are_promoted():
    problem = dd.Problem(MODEL, dd.Constant(2), 1, initial=3)
    assert problem.initial is not None
    assert problem.initial.shape == (1,) and problem.history.b.shape == (1,)
    assert problem.tau.shape == () and problem.tau.dtype == jnp.float64


def test_a_problem_is_frozen():
    problem = dd.Problem(MODEL, PAST, 1.0)
    with pytest.raises(AttributeError):
        setattr(problem, "tau", 2.0)  # noqa: B010


def test_a_problem_can_be_built_inside_a_compiled_function():
    @jax.jit
    def end(tau, b):
        problem = dd.Problem(MODEL, dd.Constant(b), tau, initial=2 * b)
        assert problem.initial is not None
        return problem.tau + problem.initial[0]

    assert float(end(1.0, 0.5)) == 2.0


BAD_DELAYS = {
    "`tau` must be positive and finite": [0.0, -1.0, np.inf, np.nan, -0.0],
    "`tau` must be a positive number": ["one", None, dd.Constant(1.0)],
    "`tau.1.` must be positive and finite": [(1.0, -2.0), [1.0, 0.0]],
    "`b` must be positive and finite": [{"a": 1.0, "b": -1.0}],
    "`tau` has no delay": [(), {}],
    r"`tau` must be one number.*\(2,\)": [np.array([1.0, 2.0])],
}


@pytest.mark.parametrize("message", BAD_DELAYS)
def test_bad_delays_are_refused(message):
    kind = TypeError if "a positive number" in message else ValueError
    for tau in BAD_DELAYS[message]:
        with pytest.raises(kind, match=message):
            dd.Problem(MODEL, PAST, tau)


def test_several_delays_are_parameters_with_names():
    def rhs(x, y, tau, t):
        return y["growth"] - tau["rest"] * y["rest"]

    names = dd.parameter_values(dd.Problem(rhs, PAST, {"rest": 5.0, "growth": 2.0}))
    assert names["growth"] == 2.0 and names["rest"] == 5.0


CLASSES = {
    "rhs": (dd.models.Logistic, PAST, None),
    "history": (MODEL, dd.Constant, None),
    "observe": (MODEL, PAST, dd.Constant),
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_instead_of_an_instance(name):
    rhs, history, observe = CLASSES[name]
    with pytest.raises(TypeError, match=f"`{name}` must be an instance.*class"):
        dd.Problem(rhs, history, 1.0, observe=observe)


@pytest.mark.parametrize("name", CLASSES)
def test_what_cannot_be_called(name):
    arguments: Options = dict(rhs=MODEL, history=PAST, observe=None) | {name: 3.0}
    with pytest.raises(TypeError, match=f"`{name}` must be callable, but got 3.0"):
        dd.Problem(tau=1.0, **arguments)


WRONG_SLOPES = {
    "scalar": lambda x, y, tau, t: -y[0],
    "longer": lambda x, y, tau, t: jnp.concatenate([x, y]),
    "matrix": lambda x, y, tau, t: x[:, None] * y,
    "list": lambda x, y, tau, t: [-y[0], -y[1]],
    "nothing": lambda x, y, tau, t: None,
    "tuple": lambda x, y, tau, t: (x, y),
}


@pytest.mark.parametrize("case", WRONG_SLOPES)
def test_a_rhs_of_the_wrong_shape(case):
    with pytest.raises(ValueError, match=r"`rhs` returned .* has shape \(2,\)"):
        dd.Problem(WRONG_SLOPES[case], dd.Constant([1.0, 2.0]), 1.0)


HISTORY = r"`history\(t\)` must return a vector"
OBSERVE = r"`observe\(x, t\)` must return a vector"


@pytest.mark.parametrize(
    "arguments, kind, message",
    [
        (dict(history=lambda t: 1.0), ValueError, HISTORY),
        (dict(history=lambda t: jnp.ones((2, 1))), ValueError, HISTORY),
        (dict(history=lambda t: [1.0]), ValueError, HISTORY),
        (dict(observe=lambda x, t: x[0]), ValueError, OBSERVE),
        (dict(observe=lambda x, t: x[:, None]), ValueError, OBSERVE),
        (dict(initial=[1.0, 2.0]), ValueError, r"`initial` has shape \(2,\)"),
        (dict(initial="dose"), TypeError, "`initial`"),
    ],
)
def test_other_parts_of_the_wrong_shape(arguments, kind, message):
    with pytest.raises(kind, match=message):
        dd.Problem(**(dict(rhs=decay, history=PAST, tau=1.0) | arguments))


@pytest.mark.parametrize("place", ["rhs", "history", "observe"])
@pytest.mark.parametrize("error", [KeyError, ZeroDivisionError, TypeError])
def test_an_error_in_the_users_code_passes_unwrapped(place, error):
    mine = error("my own message")

    def fail(*_):
        raise mine

    arguments: Options = dict(rhs=MODEL, history=PAST, observe=None) | {place: fail}
    with pytest.raises(error) as caught:
        dd.Problem(tau=1.0, **arguments)
    assert caught.value is mine


def test_a_rhs_with_the_wrong_signature_says_so():
    with pytest.raises(TypeError, match=r"\(x, y, tau, t\), but .* takes \(x, y\)"):
        dd.Problem(lambda x, y: -y, PAST, 1.0)


def test_value_and_grad_refuses_classes_and_strangers():
    problem = dd.Problem(MODEL, PAST, 1.0)
    with pytest.raises(TypeError, match="`problem` must be an instance"):
        dd.value_and_grad(unchecked(MODEL), DATA)
    with pytest.raises(TypeError, match=r"`data` must be an instance such as `Data"):
        dd.value_and_grad(problem, unchecked(([0, 1], [1, 2])))
    for name, value in dict(
        loss=dd.SumOfSquares, gradient=dd.Forward, solver=dd.RK2
    ).items():
        with pytest.raises(TypeError, match=f"`{name}` must be an instance.*class"):
            dd.value_and_grad(problem, DATA, **{name: unchecked(value)})
    with pytest.raises(ValueError, match="`steps_per_delay`"):
        dd.value_and_grad(problem, DATA, steps_per_delay=0)


def test_data_and_problem_must_agree():
    two = dd.Data([0.0, 1.0], np.ones((2, 2)))
    with pytest.raises(ValueError, match="The data have 2 quantities.*observes 1"):
        dd.value_and_grad(dd.Problem(MODEL, PAST, 1.0), two)


def test_check_gradient_prints_every_route(capsys):
    problem = dd.Problem(MODEL, dd.Affine([0.1, 0.2], [0.5, 0.6]), 0.7)
    data = dd.Data([0, 1, 2], np.array([[0.5, 0.4], [2.0, 1.0], [1.0, 1.5]]))
    found = dd.check_gradient(problem, data, solver=dd.RK2(), steps_per_delay=10)
    printed = capsys.readouterr().out
    assert str(found) in printed
    names = ("theta_0", "theta_1", "a[0]", "a[1]", "b[0]", "b[1]", "tau")
    assert found.names == names
    for name in names:
        assert f"\n{name} " in printed
    for route in ("Discrete", "Forward"):
        assert route in printed
        assert np.max(found.errors(route)) < 1e-6


def test_check_gradient_shows_a_derivative_that_is_wrong():
    @jax.custom_jvp
    def wrong(y):
        return jnp.sin(y)

    wrong.defjvp(lambda primals, tangents: (jnp.sin(*primals), 2 * tangents[0]))
    problem = dd.Problem(lambda x, y, tau, t: -wrong(y), dd.Affine(0.1, 0.5), 0.7)
    found = dd.check_gradient(problem, DATA, solver=dd.RK2(), steps_per_delay=10)
    assert np.max(found.errors("Discrete")) > 0.1
    assert np.max(found.errors("Forward")) > 0.1
