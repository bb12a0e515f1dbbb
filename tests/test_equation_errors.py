"""Texts that are almost equations: each error shows the line, with a caret where it is
wrong."""

import pytest

import ddefind as dd
from support.repeats import entries

# In each text a mark shows where the caret stands; below it is what is said.
MARKED = """\
x' = 2|x
  An operator is missing: write 2 * x
x' = r |x(t - tau)
  An operator is missing: write r * x
x' = |r(1 - x)
  There is no function 'r'. Known names: exp, log, sqrt, sin, cos, tan, tanh, abs,
  min, max, where. To multiply, write r * (...).
x' = sin |x
  'sin' is a function: write sin(...).
prey' = prey; z' = |prei(t - tau)
  'prei' is neither a state nor an input nor a formula with a name: only these have
  values at other times. Did you mean 'prey'? If it is an input, list it:
  `inputs=("prei",)`.
x' = x(t + |tau)
  Only earlier times are known: write x(t - ...).
x' = x(|tau - t)
  Only earlier times are known: write x(t - ...).
x' = |x(t - t + 3)
  A state is read as x or x(t - tau). To multiply, write x * (...).
x' = r * |x(1 - x / K)
  To multiply, write x * (...). If this is a time, let it begin with t or a state: x(t
  - ...).
x' = x(t - |f); f = 2 * x(t - a)
  A delay can use states at time t only, but 'f' needs x(t - a).
x' = |x(t - slope * x)
  In such a delay, 'slope' cannot be a parameter: rename it.
|x' = f(t - 1); f = x(t - x)
  A delayed formula contains x(t - x), which cannot be delayed once more: its delay
  depends on the time or on a state.
|x' = f(t - 1); f = delay(x, uniform(1, 2))
  A delayed formula contains delay(x, uniform(1, 2)), which cannot be delayed once
  more: its delay is distributed.
x' = -x + c * x|'
  A derivative on the right of '=' must be one at an earlier time: write x'(t - tau).
  Without a delay, give the formula of x' a name.
x' = -x + c * |x'(t)
  A derivative on the right of '=' must be one at an earlier time: write x'(t - tau).
  Without a delay, give the formula of x' a name.
prey' = |f'(t - 1); f = prey
  'f' is no state: only states have slopes. Known names: prey.
x' = |x'(3)
  A slope is read as x'(t - tau).
x' = |gamma(1 - x)
  gamma(mean, shape) is a distribution of delays, which stands in delay(x, gamma(mean,
  shape)) only. To multiply, write gamma * (...).
x' = |uniform(low = 1, high = 2) * x
  uniform(low, high) is a distribution of delays, which stands in delay(x,
  uniform(low, high)) only. To multiply, write uniform * (...).
x' = |delay(1 - x)
  delay(...) needs a state and a distribution of delays: write delay(x, gamma(mean,
  shape)), or with another distribution: uniform(low, high), lognormal(mean, sd),
  weibull(mean, shape), inverse_gaussian(mean, sd). To multiply, write delay * (...).
x' = delay(x, |tau)
  A distribution of delays is gamma(mean, shape), uniform(low, high), lognormal(mean,
  sd), weibull(mean, shape) or inverse_gaussian(mean, sd). For a single delay write
  x(t - tau).
x' = 1 + delay(|x * y, gamma(1, 2)); y' = 1
  delay(...) is the mean of a state over the past: write a state here. The mean of a
  formula is not known.
x' = delay(x, |gamma(2))
  gamma(mean, shape) needs two values, but got 1.
x' = delay(x, |uniform(1, 2, 3))
  uniform(low, high) needs two values, but got 3.
x' = delay(x, gamma(mean = m, |rate = k))
  There is no 'rate' in gamma(mean, shape).
x' = delay(x, gamma(m, |mean = k))
  'mean' is given a second time.
x' = delay(x, gamma(mean = m, |k))
  Give this value a name, too: shape = ...
x' = delay(x, gamma(m, shape = 1 + |t))
  A distribution of delays is a formula of numbers and parameters: it cannot depend on
  the time t.
x' = delay(x, uniform(0, |f)); f = 2 * x
  A distribution of delays is a formula of numbers and parameters: it cannot depend on
  'f', which needs the state 'x'.
x' = delay(x, |gamma(1, 0.5))
  A gamma distribution of delays needs a positive mean and a shape of at least 1.
x' = delay(x, |weibull(1, 0.4))
  A Weibull distribution of delays needs a positive mean and a shape of at least 0.5.
x' = delay(x, |lognormal(sd = 1 + 1.5, mean = 1))
  A lognormal distribution of delays needs a positive mean, and a positive standard
  deviation of at most twice the mean.
x' = delay(x, |uniform(2, a)); a = 2
  A uniform distribution of delays needs 0 <= low < high.
x' = exp(x |= 2)
  Compare with '=='; '=' stands once in a line.
x' = x(t - |-1)
  A delay must be positive, but this one is -1.
x' = x(t - (|-tau))
  A delay must be positive, but this one has a minus sign: write x(t - tau).
x' = x(t - |lag); lag = 1 - 1
  A delay must be positive, but this one is 0.
x' = |f(t - tau)
  'f' is neither a state nor an input nor a formula with a name: only these have
  values at other times. Known names: x. If it is an input, list it: `inputs=("f",)`.
f = x^2; x' = |f(2)
  A formula is read as f or f(t - tau). To multiply, write f * (...).
x' = a; |a = b; b = a
  'a' is defined by itself: a needs b needs a.
|x' = y; y' = x; y(t<=0) = 1
  The history of 'x' is missing: add x(t<=0) = ..., as for 'y'.
x' = 1; x(0) = 5; |x(0) = 6
  x(0) is given a second time.
prey' = 1; |preys(0) = 5
  A value at time zero for 'preys', which is no state. Did you mean 'prey'?
x' = 1; y' = 1; x(0) = 2 * |y
  A value at time zero is a formula of numbers and parameters: it cannot depend on the
  state 'y'.
x' = 1; |x(1) = 5
  Write x(t<=0) = ... for the history, or x(0) = ... for the value at time zero.
x' = |α * x
  'α' (GREEK SMALL LETTER ALPHA) cannot stand in an equation. Write 'alpha' instead.
"""
# Texts of several lines, or too long to be shown.
ERRORS = {
    "": """\
There is no equation: a line must begin with x' =, for a state x.
  line 1: 
          ^""",
    "x' = 1\n\ty' = sqr(x) + 1": """\
There is no function 'sqr'. Did you mean 'sqrt'?
  line 2:  y' = sqr(x) + 1
                ^""",
    "x' = a\ny' = (b\nz' = 3": """\
This '(' is never closed.
  line 2: y' = (b
               ^""",
    "x' = 1; f0 = x; "
    + "; ".join(f"f{i + 1} = f{i}(t - a) + f{i}(t - b)" for i in range(30))
    + "; y' = f30": """\
The equations have more than 50 different delays.
  line 1: ... - b); f30 = f29(t - a) + f29(t - b); y' = f30
                                                   ^""",
    "x' = " + "1 * " * 30 + "$": """\
'$' cannot stand in an equation.
  line 1: ...* 1 * 1 * 1 * 1 * 1 * 1 * 1 * 1 * 1 * $
                                                   ^""",
}


@pytest.mark.parametrize("marked, said", entries(MARKED))
def test_errors_show_the_line_with_a_caret(marked, said):
    before, after = marked.split("|")
    with pytest.raises(dd.EquationError) as caught:
        dd.equation(before + after)
    shown = f"\n  line 1: {before}{after}\n{' ' * (10 + len(before))}^"
    assert str(caught.value) == said + shown


@pytest.mark.parametrize("text", ERRORS)
def test_errors_in_long_texts_show_a_part_of_them(text):
    with pytest.raises(dd.EquationError) as caught:
        dd.equation(text)
    assert str(caught.value) == ERRORS[text]


@pytest.mark.parametrize(
    "observe, message",
    [
        ("", "`observe` is empty"),
        ("x' = 2", "Write name = formula"),
        ("x(t - tau)", "An observed quantity cannot use delayed states"),
        ("2 * f", "'f' needs x(t - tau)"),
        ("x; 2 * x", "Give each of several formulas a name"),
        ("x; x", "'x' is measured a second time"),
        ("x; x = 2", "'x' is measured a second time"),
        ("r = 2 * x", "'r' already has a meaning"),
        ("f = 2 * x", "'f' already has a meaning"),
        ("q = p; p = q", "defined by itself"),
        ("2 *", "observe, line 1: 2 *\n"),
    ],
)
def test_what_is_measured_is_checked_as_well(observe, message):
    with pytest.raises(dd.EquationError) as caught:
        dd.equation("x' = r * f; f = x(t - tau)", observe=observe)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", [None, 3, b"x' = 1", ["x' = 1"], lambda: "x' = 1"])
def test_only_text_is_read(text):
    with pytest.raises(TypeError, match="`text` must be a text"):
        dd.equation(text)
    if text is not None:
        with pytest.raises(TypeError, match="`observe` must be a text"):
            dd.equation("x' = 1", observe=text)
