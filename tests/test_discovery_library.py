"""Candidate terms, their parameters and their texts."""

import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._discovery.inner_parameters import inner_parameters
from ddefind._discovery.library import Candidates, make_library, read_known
from ddefind._discovery.parameter_sizes import term_powers
from ddefind._discovery.terms import delay_names, read_terms, renumbered

X = ("x", "y")


def library_of(*terms, known=None, delays=1):
    return make_library(X, read_terms(list(terms), X, delays), delays, known or {})


def rhs_of(library, structure, coefficients):
    slots, terms = len(structure) + 1, len(library.terms)
    chosen, target = np.zeros((slots, terms), int), np.zeros((slots, 2), int)
    for slot, (state, term) in enumerate(structure):
        chosen[slot, term] = target[slot, state] = 1
    values = jnp.zeros(slots).at[: len(structure)].set(coefficients)
    return Candidates(
        library.module, values, jnp.array(chosen), jnp.array(target), library.fragile
    )


def test_the_text_of_a_structure_says_what_its_program_computes():
    """Sums are put in parentheses, and parts that are known stay."""
    known = read_known("y' = x - 2 * y; x' = -x", X)
    library = library_of("x - x^2", "-y", "y(t - tau) + 1", "1", known=known)
    structure = ((0, 0), (0, 2), (1, 1), (1, 3))
    coefficients = np.array([2.0, -3.0, 0.5, 0.7])
    x, y = jnp.array([0.3, 1.2]), jnp.array([0.9, -0.4])
    by_program = rhs_of(library, structure, coefficients)(
        x, y, jnp.array(1.0), jnp.array(0.0)
    )
    model = dd.equation(library.text(structure))
    values = dict(zip(("c_1", "c_2", "c_3", "c_4"), coefficients.tolist()))
    problem = model.problem({"b[0]": 1.0, "b[1]": 1.0, "tau": 1.0, **values})
    by_text = problem.rhs(x, y, jnp.array(1.0), jnp.array(0.0))
    expected = [
        -0.3 + 2 * (0.3 - 0.09) - 3 * (-0.4 + 1),
        0.3 - 2.4 - 0.5 * 1.2 + 0.7,
    ]
    assert np.allclose(by_program, expected) and np.allclose(by_text, expected)


def test_terms_without_a_value_do_not_disturb_others():
    """Neither the values nor the derivatives, even where a term is infinite."""
    import jax

    library = library_of("x", "log(x)", "exp(x^3)", "x^n / (K^n + x^n)")
    assert library.fragile == (1, 2, 3)
    rhs = rhs_of(library, ((0, 0),), np.array([2.0]))
    for x in (-1.0, 0.0, 1e3):
        state = jnp.array([x, 1.0])
        value, pull = jax.vjp(
            lambda s: rhs(s, s, jnp.array(1.0), jnp.array(0.0)), state
        )
        assert value[0] == 2 * x
        assert np.array_equal(pull(jnp.array([1.0, 0.0]))[0], [2.0, 0.0])


def test_multiples_of_other_terms_are_left_out():
    terms = read_terms(["polynomial(2)", "x * x", "x(t - tau) * x", "3 * x"], ("x",), 1)
    assert len(terms) == 6


def test_coefficients_have_names_of_their_own():
    states = ("c_1",)
    library = make_library(states, read_terms("cc_2 * c_1", states, 1), 1, {})
    assert library.text(((0, 0),)) == "c_1' = ccc_1 * cc_2 * c_1"


@pytest.mark.parametrize(
    "term", ["tau * x", "x * tau_2", "exp(-tau * x(t - tau))", "x(t - tau_1)"]
)
def test_delays_stand_in_delayed_states_alone(term):
    with pytest.raises(ValueError, match="tau"):
        read_terms(term, X, 1)


def test_terms_change_with_the_numbers_of_their_delays():
    terms = read_terms(["polynomial(2)", "tanh(y(t - tau))"], X, 2)
    texts = [term.text for term in terms]
    becomes = renumbered(terms, X, (1, 0))
    swapped = {texts[j]: texts[k] for j, k in enumerate(becomes)}
    assert swapped["x(t - tau_1)"] == "x(t - tau_2)"
    assert swapped["tanh(y(t - tau_2))"] == "tanh(y(t - tau_1))"
    product = "x(t - tau_1) * x(t - tau_2)"
    assert swapped[product] == product and swapped["x^2"] == "x^2"
    assert [becomes[j] for j in becomes] == list(range(len(terms)))


# Sizes of parameters


@pytest.mark.parametrize(
    ("term", "powers"),
    [
        ("x / (h + x)", {"h": (1, 0)}),
        ("y(t - tau) / (1 + (y(t - tau) / K)^n)", {"K": (0, 1), "n": (0, 0)}),
        ("x * exp(-a * x * y)", {"a": (-1, -1)}),
        ("V * x / (h + x)", {"V": (0, 0), "h": (1, 0)}),
        ("1 / (1 + b * x^2)", {"b": (-2, 0)}),
        ("max(x - low, 0) * y", {"low": (1, 0)}),
        ("exp(-a * x) / (1 + x)", {"a": (np.nan, 0)}),
    ],
)
def test_the_powers_of_parameters_follow_from_the_formula(term, powers):
    (read,) = read_terms(term, X, 1)
    found = term_powers(read, X, delay_names(1))
    for name, own in zip(read.parameters, found):
        assert np.allclose(own, powers[name], equal_nan=True)


@pytest.mark.parametrize("size", [1e-6, 0.03, 1.0, 1e5])
def test_scans_move_with_the_unit_of_the_data(size):
    terms = ["x / (K + x)", "x * exp(-a * x)", "exp(-q * x) / (1 + x)"]
    known = read_known("y' = -d * y", X)
    library = library_of(*terms, known=known)
    x = np.array([[1.0, 3.0], [2.0, 5.0], [3.0, 4.0]])
    before = inner_parameters(library, x, 0.7, {})
    after = inner_parameters(library, size * x, 10 * 0.7, {})
    factor = {"K": size, "a": 1 / size, "d": 10.0}
    for name, scale in factor.items():
        j = before.names.index(name)
        for field in ("lower", "upper", "typical"):
            one, other = getattr(before, field)[j], getattr(after, field)[j]
            assert np.isclose(other, scale * one), (name, field)
    # Where the powers are not known, both are tried.
    j = after.names.index("q")
    assert after.lower[j] < min(size, 1 / size) / 2
    assert after.upper[j] > max(size, 1 / size) * 2


def test_bounds_and_values_of_parameters_are_kept():
    library = library_of("x / (K + x)", "x^n", known=read_known("x' = d * x", X))
    settings = {
        "K": dd.Parameter(lower=7.0, upper=9.0),
        "n": dd.Fixed(-2.0),
        "d": dd.Parameter(upper=-0.5),
    }
    inner = inner_parameters(library, np.ones((4, 2)), 1.0, settings)
    at = {name: j for j, name in enumerate(inner.names)}
    assert inner.lower[at["K"]] == 7 and inner.upper[at["K"]] == 9
    tried = inner.rows[:, at["K"]]
    assert tried.min() == 7 and tried.max() == 9 and len(np.unique(tried)) > 10
    assert inner.is_fixed.tolist() == [name == "n" for name in inner.names]
    assert np.all(inner.rows[:, at["n"]] == -2)
    assert inner.upper[at["d"]] == -0.5 and inner.typical[at["d"]] < -0.5
