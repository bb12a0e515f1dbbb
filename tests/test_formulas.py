"""Formulas in text: what they mean, and how they print as text and in LaTeX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import ddefind as dd
from support.repeats import entries

X, Y, TAU, T = np.array([0.7]), np.array([1.5]), 0.8, 2.5


def value(formula, **parameters):
    """What x' is at the values above."""
    model = dd.equation(f"x' = {formula}")
    known = dict.fromkeys(model.required, 1.0) | parameters
    problem = model.problem({n: known[n] for n in model.required})
    result = problem.rhs(jnp.asarray(X), jnp.asarray(Y), TAU, T)
    assert result.shape == (1,) and result.dtype == jnp.float64
    return float(result[0])


@pytest.mark.parametrize(
    "formula, expected",
    [
        ("x - 2 * x(t - tau) + x(t)", 0.7 - 3.0 + 0.7),
        ("2^3^2 / 512 + 2**-1", 1.5),
        ("-x^2", -0.49),
        ("(-x)^2", 0.49),
        ("x^-2", 0.7**-2),
        ("x^0.5 - sqrt(x)", 0.0),
        ("x^(1 + 1)", 0.49),
        ("- - x + +x", 1.4),
        ("7 / 2 / 2 - (1 - (2 - 3))", 1.75 - 2),
        ("exp(log(x)) + abs(-x)", 1.4),
        ("sin(t)^2 + cos(t)^2 + tan(0)", 1.0),
        ("tanh(x) - (exp(x) - exp(-x)) / (exp(x) + exp(-x))", 0.0),
        ("min(x, 2, t) + max(x, x(t - tau))", 2.2),
        ("min(3, 2) + max(2, 1, 5) + where(1 < 2, 1, 0)", 8.0),
        ("where(x > 1, 5, tau)", 0.8),
        ("where(0 < x <= 1 and not x == 3 or x != x, 1, 0)", 1.0),
        ("(x < 1) + (x > 0) - (x > 5)", 2.0),
        ("x < 1", 1.0),
        ("-(x >= 0.7)", -1.0),
        ("2 * (1 < 2) + (2 < 1)", 2.0),
        ("pi * 1e-3", np.pi / 1000),
        ("007 + .5 + 2. + 1E2", 109.5),
        ("1", 1.0),
        ("t", 2.5),
        ("r * n^2 + e", 1 * 9 + 1),
    ],
)
def test_formulas_mean_what_they_say(formula, expected):
    assert value(formula, n=3.0) == pytest.approx(expected, rel=1e-14, abs=1e-15)


ATOMS = ["x", "x(t - tau)", "a", "b_1", "t", "tau", "pi", "2.0", "0.5", "3.0"]


def _combine(inner):
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(" ".join),
        st.tuples(inner, st.sampled_from(["<", "<=", ">", ">="]), inner).map(
            lambda parts: f"where({' '.join(parts)}, {parts[0]}, {parts[2]})"
        ),
        inner.map(lambda e: f"({e})"),
        inner.map(lambda e: f"-{e}"),
        st.tuples(inner, st.sampled_from(["2", "3", "-1"])).map(
            lambda parts: f"({parts[0]})^{parts[1]}"
        ),
        st.tuples(st.sampled_from(["exp", "sin", "abs", "tanh"]), inner).map(
            lambda parts: f"{parts[0]}({parts[1]})"
        ),
        st.tuples(inner, inner).map(lambda parts: f"min({', '.join(parts)})"),
    )


FORMULA = st.recursive(st.sampled_from(ATOMS), _combine, max_leaves=8)


@settings(max_examples=150, deadline=None)
@given(FORMULA)
def test_formulas_agree_with_python_and_print_as_themselves(formula):
    try:
        model = dd.equation(f"x' = {formula}")
    except dd.EquationError as error:
        assert "finite" in str(error)
        return
    assert dd.equation(str(model)) == model
    names = {name: getattr(np, name) for name in ("exp", "sin", "abs", "tanh", "pi")}
    names |= dict(min=np.minimum, where=np.where, a=1.25, b_1=-0.5, t=T, tau=TAU)
    python = formula.replace("^", "**").replace("x(t - tau)", "y")
    with np.errstate(all="ignore"):
        try:
            expected = float(eval(python, {}, dict(x=X[0], y=Y[0], **names)))
        except ArithmeticError:
            return
    found = value(formula, a=1.25, b_1=-0.5)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_integer_powers_are_products():
    problem = dd.equation("x' = x(t - tau)^8 + x^(2 * 3)").problem(b=1, tau=1)
    text = str(jax.make_jaxpr(problem.rhs)(X, Y, TAU, T))
    assert "integer_pow[y=8]" in text and "integer_pow[y=6]" in text
    assert " pow " not in text and "log" not in text


def test_intermediate_names_in_any_order():
    text = "x' = g - h; h = 2 * g; g = a * f(t)"
    with pytest.raises(dd.EquationError, match="'f' is|no function 'f'"):
        dd.equation(text)
    model = dd.equation("x' = g - h; h = 2 * g; g = a * f; f = x(t - tau); u = w")
    assert model.names == ("a", "b", "tau")  # nothing needs w
    rhs = model.problem(a=3.0, b=1.0, tau=1.0).rhs
    assert float(rhs(X, Y, TAU, T)[0]) == pytest.approx(-4.5)


def test_a_condition_may_have_a_name():
    model = dd.equation("x' = where(late, 1, 2) + late; late = t > 2")
    assert float(model.problem(b=1.0).rhs(X, Y, TAU, T)[0]) == 2.0


def test_derivatives_are_written_in_many_ways():
    texts = ["x' = -x", "x'(t) = -x(t)", "dx/dt = -x", "dx(t) / dt=-x", "x ' = - x ;"]
    assert len({dd.equation(text) for text in texts}) == 1


def test_a_formula_goes_on_in_parentheses():
    model = dd.equation("x' = (a\n  + x(\n t - tau))  # one\r\ny' = 1\r")
    assert str(model) == "x' = a + x(t - tau)\ny' = 1"


HIV = """
T' = born - delta * T; born = k * T_0 * I(t - tau) * exp(-m * tau)
dI/dt = (1 - n_p) * N * delta * T - c * I   # infectious virus
H' = n_p * N * delta * T - c * H            # harmless virus
"""


@pytest.mark.parametrize("text, kind", [("x'=-x(t-2)", "affine"), (HIV, "periodic")])
def test_models_print_as_themselves(text, kind):
    model = dd.equation(text)
    assert dd.equation(str(model)) == model
    assert str(dd.equation(str(model))) == str(model)
    for history in (None, kind, 2.0):
        model = dd.equation(text, history=history)
        assert eval(repr(model), {"dd": dd}) == model


def test_what_is_not_in_the_text_prints_as_comments():
    model = dd.equation("x'=-x(t-tau)", history="affine", observe="2*x; ")
    assert str(model) == "x' = -x(t - tau)\n# history: affine\n# observe: y = 2 * x"
    assert eval(repr(model), {"dd": dd}) == model


@pytest.mark.parametrize(
    "formula, printed",
    [
        ("a-(b-c)-d*(e/(f*g))", "a - (b - c) - d * (e / (f * g))"),
        ("((a+b))*(c)", "(a + b) * c"),
        ("(a^b)^c + a^(b^c)", "(a^b)^c + a^b^c"),
        ("(-a)**2 - -a^2", "(-a)^2 - -a^2"),
        ("-(a*b) + (-a)*b", "-(a * b) + -a * b"),
        ("a^(-b) * a^(b+1)", "a^-b * a^(b + 1)"),
        (
            "where(not(a<b or c<d)and x>1,1,0)",
            "where(not (a < b or c < d) and x > 1, 1, 0)",
        ),
        ("(a < b) == (c < d)", "(a < b) == (c < d)"),
        ("0 < a < 1", "0 < a and a < 1"),
        ("1.50*x + 1e3 + 1E-7", "1.5 * x + 1000 + 1e-07"),
    ],
)
def test_formulas_print_with_the_parentheses_that_they_need(formula, printed):
    model = dd.equation(f"x' = {formula}")
    assert str(model) == f"x' = {printed}"
    assert dd.equation(str(model)) == model


# Each formula, and below it how it is set.
LATEX = r"""
r * x * (1 - x(t - tau) / K)
    r \, x \, \left(1 - \frac{x(t - \tau)}{K}\right)
V_max * x^n / (K_1^n + x^n)
    \frac{V_{\mathrm{max}} \, x^{n}}{K_{1}^{n} + x^{n}}
-theta_0 * exp(-k12 * tau)
    -\theta_{0} \, e^{-k_{12} \, \tau}
a - (b - c) + -x
    a - \left(b - c\right) + \left(-x\right)
2 * 3 * x * 2^n
    2 \cdot 3 \, x \cdot 2^{n}
(a / b)^2 + (-x)^2
    \left(\frac{a}{b}\right)^{2} + \left(-x\right)^{2}
sqrt(x) + abs(x) * sin(pi * t)^2
    \sqrt{x} + \left|x\right| \, \left(\sin\left(\pi \, t\right)\right)^{2}
1e-8 * x(t - 2.5)^2
    1 \cdot 10^{-8} \, x(t - 2.5)^{2}
where(x >= 1 and not x == 2, lambda_, min(x, 1))
    \begin{cases} \lambda & \text{if } x \ge 1 \land \lnot \left(x = 2\right)
    \\ \min\left(x, 1\right) & \text{otherwise} \end{cases}
"""


@pytest.mark.parametrize("formula, latex", entries(LATEX))
def test_formulas_in_latex(formula, latex):
    rows = dd.equation(f"x' = {formula}").latex().splitlines()
    assert rows[1] == rf"\frac{{dx}}{{dt}} &= {latex} \\"


def test_models_in_latex():
    model = dd.equation(
        "x' = f; f = -x; z' = x", history="periodic", observe="x; y = 2 * z"
    )
    assert model.latex().splitlines() == [
        r"\begin{aligned}",
        r"\frac{dx}{dt} &= f \\",
        r"f &= -x \\",
        r"\frac{dz}{dt} &= x \\",
        r"x(t) &= A_{0} \, \sin\left(\omega_{0} \, t\right) + b_{0} \quad (t \le 0) \\",
        r"z(t) &= A_{1} \, \sin\left(\omega_{1} \, t\right) + b_{1} \quad (t \le 0) \\",
        r"\text{measured: } & x, \quad y = 2 \, z",
        r"\end{aligned}",
    ]
    text = dd.equation("alpha' = -alpha; alpha(t<=0) = b0 * t")
    assert r"\alpha(t) &= b_{0} \, t \quad (t \le 0)" in text.latex()
    assert text._repr_latex_().startswith(r"$\displaystyle \begin{aligned}")
