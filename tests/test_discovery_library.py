"""Candidate terms, their parameters and their texts."""

from itertools import permutations

import jax.numpy as jnp
import numpy as np
import pytest

import ddefind as dd
from ddefind._discovery.inner_parameters import (
    columns_of,
    inner_parameters,
    powers_as_factors,
    term_powers,
)
from ddefind._discovery.library import (
    Candidates,
    delay_names,
    make_library,
    read_known,
    read_terms,
    renumbered,
)

X = ("x", "y")


def texts(*given, states=("x",), delays=1):
    return [term.text for term in read_terms(list(given), states, delays)]


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


def test_polynomials_are_all_products_of_states_and_delayed_states():
    linear = ["1", "x", "x(t - tau)"]
    products = ["x^2", "x * x(t - tau)", "x(t - tau)^2"]
    assert texts("polynomial(2)") == [*linear, *products]
    assert len(texts("polynomial(2)", states=("x", "y"))) == 15
    assert len(texts("polynomial(3)", states=("x", "y"))) == 35


def test_families_and_formulas_stand_for_each_delay():
    assert texts("saturation") == ["x / (h_x + x)", "x(t - tau) / (h_x + x(t - tau))"]
    both = texts("tanh(x(t - tau))", "x", delays=2)
    assert both == ["tanh(x(t - tau_1))", "tanh(x(t - tau_2))", "x"]
    (term,) = read_terms("x(t - tau)^n / (K^n + x(t - tau)^n)", ("x",), 1)
    assert set(term.parameters) == {"n", "K"} and term.delays == (0,)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("sine(x)", "'sine(x)' cannot be read. There is no function 'sine'. Did you"),
        ("x(t - 2)", "reads x(t - 2), but candidates are delayed by tau alone"),
        ("t * x", "candidates are formulas of states"),
        ("polynomial(9)", "the degree must be from 0 to 5"),
        ([], "must be a text such as 'polynomial(2)'"),
        ([3], "one item is 3"),
        ("hil", "has no state in it. Did you mean 'hill'?"),
        ("polynomial(-1)", "with a degree from 0 to 5"),
        ("x, x^2", "Give several candidates as a list of texts."),
        ("x +* 2", "between '+' and '*'.\n  x +* 2\n     ^"),
        ("y(t - tau)", "Known names: x.\n"),
    ],
)
def test_candidates_that_cannot_be_are_refused(given, said):
    with pytest.raises((TypeError, ValueError)) as caught:
        read_terms(given, ("x",), 1)
    assert said in str(caught.value)


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
    expected = [-0.3 + 2 * (0.3 - 0.09) - 3 * (-0.4 + 1), 0.3 - 2.4 - 0.5 * 1.2 + 0.7]
    assert np.allclose(by_program, expected) and np.allclose(by_text, expected)


def test_terms_without_a_value_do_not_disturb_others():
    """Neither the values nor the derivatives, even where a term is infinite."""
    import jax

    library = library_of("tanh(x) * 0 + x", "log(x)", "exp(x^3)", "x^n / (K^n + x^n)")
    assert library.fragile == (1, 2, 3)
    rhs = rhs_of(library, ((0, 0),), np.array([2.0]))
    for x in (-1.0, 0.0, 1e3):
        value, pull = jax.vjp(
            lambda s: rhs(s, s, jnp.array(1.0), jnp.array(0.0)), jnp.array([x, 1.0])
        )
        assert value[0] == 2 * x
        assert np.array_equal(pull(jnp.array([1.0, 0.0]))[0], [2.0, 0.0])


def test_multiples_of_other_terms_are_left_out():
    terms = read_terms(["polynomial(2)", "x * x", "x(t - tau) * x", "3 * x"], ("x",), 1)
    assert len(terms) == 6


def test_terms_that_differ_for_some_states_alone_are_kept():
    others = ["abs(x)", "x * abs(x)", "max(x, 0)", "min(x, 2)", "min(x, 2000)"]
    others += ["where(x < 2, x, 0)", "max(x - 1000000000, 0)", "max(x - 2000000000, 0)"]
    others += ["log(x)", "sqrt(x(t - tau) - 2)", "exp(x)", "exp(2 * x)"]
    again = ["sqrt(x * x)", "3 * log(x)", "exp(x) * exp(x)", "max(x - 1e9,0)"]
    terms = read_terms(["polynomial(2)", *others, *again], ("x",), 1)
    assert [term.text for term in terms[6:]] == others


def test_columns_of_one_term_exclude_each_other():
    terms = read_terms(["x", "exp(-a * x)", "x * exp(-a * x)"], ("x",), 1)
    library = make_library(("x",), terms, 1, {})
    inner = inner_parameters(library, np.ones((5, 1)), 1.0, {})
    row, term, compatible = columns_of(library, inner)
    assert np.all(compatible[0, 1:]) and not np.any(np.diag(compatible))
    for i, j in np.argwhere(compatible[1:, 1:]) + 1:
        # They share a, and so need the same value of it.
        assert term[i] != term[j]
        assert np.isclose(inner.rows[row[i], 0], inner.rows[row[j], 0])


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
    becomes = renumbered(terms, (1, 0))
    swapped = {texts[j]: texts[k] for j, k in enumerate(becomes)}
    assert swapped["x(t - tau_1)"] == "x(t - tau_2)"
    assert swapped["tanh(y(t - tau_2))"] == "tanh(y(t - tau_1))"
    product = "x(t - tau_1) * x(t - tau_2)"
    assert swapped[product] == product and swapped["x^2"] == "x^2"
    assert [becomes[j] for j in becomes] == list(range(len(terms)))


def test_terms_without_a_value_change_with_their_delays():
    given = ["polynomial(3)", "x * sqrt(x(t - tau) - 1e9)", "max(y(t - tau) - 1e9, 0)"]
    given += ["sqrt(x(t - tau) - 1e9) * x"]
    terms = read_terms([*given, "hill", "x * log(-x(t - tau)^2)"], X, 3)
    for rank in permutations(range(3)):
        becomes = renumbered(terms, rank)
        assert sorted(becomes) == list(range(len(terms)))
        for term, j in zip(terms, becomes):
            assert set(terms[j].delays) == {rank[own] for own in term.delays}


@pytest.mark.parametrize(
    ("term", "powers"),
    [
        ("z * x", {"z": 1}),
        ("x^2 / K", {"K": -1}),
        ("x * where(x(t - tau) > K, 1, 0) * c", {"K": 0, "c": 1}),
        ("max(x - 9, K)", {}),
        ("V * x / (h + x)", {"V": 1}),
        ("x^n * exp(-a * y)", {}),
    ],
)
def test_factors_and_switches_are_told_from_other_parameters(term, powers):
    (read,) = read_terms(term, X, 1)
    assert powers_as_factors(read, X, delay_names(1)) == powers


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
    for name, own in zip(read.parameters, term_powers(read, X, delay_names(1))):
        assert np.allclose(own, powers[name], equal_nan=True)


@pytest.mark.parametrize("size", [1e-6, 0.03, 1.0, 1e5])
def test_scans_move_with_the_unit_of_the_data(size):
    terms = ["x / (K + x)", "x * exp(-a * x)", "exp(-q * x) / (1 + x)"]
    library = library_of(*terms, known=read_known("y' = -d * y", X))
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
