"""Texts that are no equations: each is a clear error, and nothing is ever run."""

import sys

import pytest
from hypothesis import example, given, settings, strategies as st

import ddefind as dd

ERRORS = {
    "": """\
There is no equation: a line must begin with x' =, for a state x.
  line 1: 
          ^""",
    "x' = 2x": """\
An operator is missing: write 2 * x
  line 1: x' = 2x
                ^""",
    "x' = r x(t - tau)": """\
An operator is missing: write r * x
  line 1: x' = r x(t - tau)
                 ^""",
    "x' = r(1 - x)": """\
There is no function 'r'. Known names: exp, log, sqrt, sin, cos, tan, tanh, abs, min, \
max, where. To multiply, write r * (...).
  line 1: x' = r(1 - x)
               ^""",
    "x' = 1\n\ty' = sqr(x) + 1": """\
There is no function 'sqr'. Did you mean 'sqrt'?
  line 2:  y' = sqr(x) + 1
                ^""",
    "x' = sin x": """\
'sin' is a function: write sin(...).
  line 1: x' = sin x
                   ^""",
    "x' = a\ny' = (b\nz' = 3": """\
This '(' is never closed.
  line 2: y' = (b
               ^""",
    "prey' = prey; z' = prei(t - tau)": """\
'prei' is neither a state nor a formula with a name: only these have values at other \
times. Did you mean 'prey'?
  line 1: prey' = prey; z' = prei(t - tau)
                             ^""",
    "x' = x(t + tau)": """\
Only earlier times are known: write x(t - ...).
  line 1: x' = x(t + tau)
                     ^""",
    "x' = x(tau - t)": """\
Only earlier times are known: write x(t - ...).
  line 1: x' = x(tau - t)
                 ^""",
    "x' = x(t - t + 3)": """\
A state is read as x or x(t - tau). To multiply, write x * (...).
  line 1: x' = x(t - t + 3)
               ^""",
    "x' = r * x(1 - x / K)": """\
To multiply, write x * (...). If this is a time, let it begin with t or a state: \
x(t - ...).
  line 1: x' = r * x(1 - x / K)
                   ^""",
    "x' = x(t - f); f = 2 * x(t - a)": """\
A delay can use states at time t only, but 'f' needs x(t - a).
  line 1: x' = x(t - f); f = 2 * x(t - a)
                     ^""",
    "x' = x(t - slope * x)": """\
In such a delay, 'slope' cannot be a parameter: rename it.
  line 1: x' = x(t - slope * x)
               ^""",
    "x' = f(t - 1); f = x(t - x)": """\
A delayed formula contains x(t - x), which cannot be delayed once more: its delay \
depends on the time or on a state.
  line 1: x' = f(t - 1); f = x(t - x)
          ^""",
    "x' = f(t - 1); f = delay(x, uniform(1, 2))": """\
A delayed formula contains delay(x, uniform(1, 2)), which cannot be delayed once more: \
its delay is distributed.
  line 1: x' = f(t - 1); f = delay(x, uniform(1, 2))
          ^""",
    "x' = -x + c * x'": """\
A derivative on the right of '=' must be one at an earlier time: write x'(t - tau). \
Without a delay, give the formula of x' a name.
  line 1: x' = -x + c * x'
                         ^""",
    "x' = -x + c * x'(t)": """\
A derivative on the right of '=' must be one at an earlier time: write x'(t - tau). \
Without a delay, give the formula of x' a name.
  line 1: x' = -x + c * x'(t)
                        ^""",
    "prey' = f'(t - 1); f = prey": """\
'f' is no state: only states have slopes. Known names: prey.
  line 1: prey' = f'(t - 1); f = prey
                  ^""",
    "x' = x'(3)": """\
A slope is read as x'(t - tau).
  line 1: x' = x'(3)
               ^""",
    "x' = gamma(1 - x)": """\
gamma(mean, shape) is a distribution of delays, which stands in delay(x, gamma(mean, \
shape)) only. To multiply, write gamma * (...).
  line 1: x' = gamma(1 - x)
               ^""",
    "x' = uniform(low = 1, high = 2) * x": """\
uniform(low, high) is a distribution of delays, which stands in delay(x, uniform(low, \
high)) only. To multiply, write uniform * (...).
  line 1: x' = uniform(low = 1, high = 2) * x
               ^""",
    "x' = delay(1 - x)": """\
delay(...) needs a state and a distribution of delays: write delay(x, gamma(mean, \
shape)) or delay(x, uniform(low, high)). To multiply, write delay * (...).
  line 1: x' = delay(1 - x)
               ^""",
    "x' = delay(x, tau)": """\
A distribution of delays is gamma(mean, shape) or uniform(low, high). For a single \
delay write x(t - tau).
  line 1: x' = delay(x, tau)
                        ^""",
    "x' = 1 + delay(x * y, gamma(1, 2)); y' = 1": """\
delay(...) is the mean of a state over the past: write a state here. The mean of a \
formula is not known.
  line 1: x' = 1 + delay(x * y, gamma(1, 2)); y' = 1
                         ^""",
    "x' = delay(x, gamma(2))": """\
gamma(mean, shape) needs two values, but got 1.
  line 1: x' = delay(x, gamma(2))
                        ^""",
    "x' = delay(x, uniform(1, 2, 3))": """\
uniform(low, high) needs two values, but got 3.
  line 1: x' = delay(x, uniform(1, 2, 3))
                        ^""",
    "x' = delay(x, gamma(mean = m, rate = k))": """\
There is no 'rate' in gamma(mean, shape).
  line 1: x' = delay(x, gamma(mean = m, rate = k))
                                        ^""",
    "x' = delay(x, gamma(m, mean = k))": """\
'mean' is given a second time.
  line 1: x' = delay(x, gamma(m, mean = k))
                                 ^""",
    "x' = delay(x, gamma(mean = m, k))": """\
Give this value a name, too: shape = ...
  line 1: x' = delay(x, gamma(mean = m, k))
                                        ^""",
    "x' = delay(x, gamma(m, shape = 1 + t))": """\
A distribution of delays is a formula of numbers and parameters: it cannot depend on \
the time t.
  line 1: x' = delay(x, gamma(m, shape = 1 + t))
                                             ^""",
    "x' = delay(x, uniform(0, f)); f = 2 * x": """\
A distribution of delays is a formula of numbers and parameters: it cannot depend on \
'f', which needs the state 'x'.
  line 1: x' = delay(x, uniform(0, f)); f = 2 * x
                                   ^""",
    "x' = delay(x, gamma(1, 0.5))": """\
A gamma distribution of delays has a positive mean and a shape of 1 or more.
  line 1: x' = delay(x, gamma(1, 0.5))
                        ^""",
    "x' = delay(x, uniform(2, a)); a = 2": """\
A uniform distribution of delays needs 0 <= low < high.
  line 1: x' = delay(x, uniform(2, a)); a = 2
                        ^""",
    "x' = exp(x = 2)": """\
Compare with '=='; '=' stands once in a line.
  line 1: x' = exp(x = 2)
                     ^""",
    "x' = x(t - -1)": """\
A delay must be positive, but this one is -1.
  line 1: x' = x(t - -1)
                     ^""",
    "x' = x(t - (-tau))": """\
A delay must be positive, but this one has a minus sign: write x(t - tau).
  line 1: x' = x(t - (-tau))
                      ^""",
    "x' = x(t - lag); lag = 1 - 1": """\
A delay must be positive, but this one is 0.
  line 1: x' = x(t - lag); lag = 1 - 1
                     ^""",
    "x' = f(t - tau)": """\
'f' is neither a state nor a formula with a name: only these have values at other \
times. Known names: x.
  line 1: x' = f(t - tau)
               ^""",
    "f = x^2; x' = f(2)": """\
A formula is read as f or f(t - tau). To multiply, write f * (...).
  line 1: f = x^2; x' = f(2)
                        ^""",
    "x' = 1; f0 = x; "
    + "; ".join(f"f{i + 1} = f{i}(t - a) + f{i}(t - b)" for i in range(30))
    + "; y' = f30": """\
The equations have more than 50 different delays.
  line 1: ... - b); f30 = f29(t - a) + f29(t - b); y' = f30
                                                   ^""",
    "x' = a; a = b; b = a": """\
'a' is defined by itself: a needs b needs a.
  line 1: x' = a; a = b; b = a
                  ^""",
    "x' = y; y' = x; y(t<=0) = 1": """\
The history of 'x' is missing: add x(t<=0) = ..., as for 'y'.
  line 1: x' = y; y' = x; y(t<=0) = 1
          ^""",
    "x' = 1; x(0) = 5; x(0) = 6": """\
x(0) is given a second time.
  line 1: x' = 1; x(0) = 5; x(0) = 6
                            ^""",
    "prey' = 1; preys(0) = 5": """\
A value at time zero for 'preys', which is no state. Did you mean 'prey'?
  line 1: prey' = 1; preys(0) = 5
                     ^""",
    "x' = 1; y' = 1; x(0) = 2 * y": """\
A value at time zero is a formula of numbers and parameters: it cannot depend on the \
state 'y'.
  line 1: x' = 1; y' = 1; x(0) = 2 * y
                                     ^""",
    "x' = 1; x(1) = 5": """\
Write x(t<=0) = ... for the history, or x(0) = ... for the value at time zero.
  line 1: x' = 1; x(1) = 5
                  ^""",
    "x' = α * x": """\
'α' (GREEK SMALL LETTER ALPHA) cannot stand in an equation. Write 'alpha' instead.
  line 1: x' = α * x
               ^""",
    "x' = " + "1 * " * 30 + "$": """\
'$' cannot stand in an equation.
  line 1: ...* 1 * 1 * 1 * 1 * 1 * 1 * 1 * 1 * 1 * $
                                                   ^""",
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_show_the_line_with_a_caret(text):
    with pytest.raises(dd.EquationError) as caught:
        dd.equation(text)
    assert str(caught.value) == ERRORS[text]


@pytest.mark.parametrize(
    "observe, message",
    [
        ("", "`observe` is empty"),
        ("x' = 2", "Write name = formula"),
        ("x(t - tau)", "What is measured cannot use delayed states"),
        ("2 * f", "'f' needs x(t - tau)"),
        ("x; 2 * x", "Give each of several formulas a name"),
        ("x; x", "'x' is measured a second time"),
        ("x; x = 2", "'x' is measured a second time"),
        ("r = 2 * x", "'r' has a meaning already"),
        ("f = 2 * x", "'f' has a meaning already"),
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


# Right-hand sides that must be refused.
HOSTILE = """
__import__('os').system('echo pwned')
__import__("os").system("echo pwned")
__import__
__builtins__
__name__
__class__
x.__class__
x.__class__.__mro__[1].__subclasses__()
(1).__class__
(1).real
1..real
x.real
x.at
x . real
exp.__globals__
exp.__call__(x)
().__class__.__bases__[0]
''.__class__
"".__class__
getattr(x, 'shape')
getattr(x, shape)
eval('1')
eval("1")
eval(x)
exec(x)
compile(x)
open('/etc/passwd')
open(x)
print(x)
input()
exit()
quit()
breakpoint()
globals()
locals()
vars()
dir()
type(x)
id(x)
help(x)
sum(x, y)
pow(x, 9)
os.system(x)
sys.exit(1)
jnp.exp(x)
np.exp(x)
lambda: 1
lambda x: x
(lambda: 1)()
(lambda x: x)(x)
lambda
[x for x in y]
[1, 2, 3]
[x][0]
x[0]
x[:]
{x}
{x: 1}
{**x}
(x for x in y)
(x, 1)
x, 1
max(*x)
max(**x)
max(x, key=y)
exp(x=1)
f'{x}'
f"{x}"
f"{__import__('os')}"
r'x'
b'x'
u"x"
'x'
"x"
'''x'''
`x`
x if y else z
1 if x > 0 else 2
not
x not y
x is y
x is not None
x in y
None
True
False
...
(x := 1)
x := 1
await x
yield x
(yield)
async
import os
from os import path
def f
class A
return x
raise x
assert x
del x
pass
global x
with x
try
for
while
x; import os
x = y
x == y = z
x += 1
x -> y
x => y
x <> y
x = = y
x // y
x % y
x @ y
x & y
x | y
~x
!x
x << 2
x >> 2
x ? y
x \\ y
x $ y
x : y
x -- > y
9**9**9**9
9^9^9^9^9
2^1001
x^-1001
x**1e6
10^400
(10^200)^2
exp(1000)
exp(exp(exp(9)))
1/0
0/0
0^-1
log(0)
log(-1)
sqrt(-1)
(-8)^(1/3)
1e999
1e-999
1e9999999999
1j
2 * 3j
0x10
0b1
0o7
1_000
1__0
1e
1e+
.
.e5
1.2.3
x..y
(
)
()
(()
((x)
(x))
x)(
exp()
exp(
exp(,)
exp(x,)
exp(x, x)
max(x)
min()
where(x > 1, 2)
where(x, 1, 2)
where(1, 2, 3)
x and y
not x
x > 1 and 2
x + not (x > 1)
x(t - tau
x(t -)
x()
x(tau)
x(0)
x(t + tau)
x(tau - t)
x(t + tau - 1)
x(t - x(t - tau))
x(t - x'(t - tau))
x(x(t - 1))
x(tau * 2)
x(1 - x)
x'(t)
x'()
x''(t - tau)
2'(t - 1)
r'(t - tau)
exp'(x)
t'(t - 1)
(x)'(t - tau)
x'(t - 0)
x'(t - -2)
x '
gamma(1, 2)
gamma(mean = 1)
delay()
delay(x)
delay(x, 2)
delay(x, gamma)
delay(x, gamma())
delay(x, gamma(1))
delay(x, gamma(1, 2, 3))
delay(x, gamma(1, 2), 3)
delay(x, gamma(shape = 2))
delay(x, gamma(mean = 1, mean = 2))
delay(x, gamma(mean = , shape = 2))
delay(x, gamma(mean == 1, shape = 2))
delay(x, gamma(mean = shape = 2))
delay(x, gamma((mean = 1), 2))
delay(x, gamma(mean := 1, 2))
delay(x, gamma(-1, 2))
delay(x, gamma(1, x))
delay(x, gamma(t, 2))
delay(x, gamma(1, gamma(1, 2)))
delay(x, uniform(2, 1))
delay(x, uniform(-1, 1))
delay(x, uniform(a = 1, b = 2))
delay(x, exp(2))
delay(x, normal(1, 2))
delay(2 * x, gamma(1, 2))
delay(k, gamma(1, 2))
delay(x(t - 1), gamma(1, 2))
delay(x = 1, gamma(1, 2))
x(t - delay(x, gamma(1, 2)))
x(t - 0)
x(t - -1)
x(t - tau, t)
x(t)(t)
(x)(t - tau)
2(t - tau)
r(t - tau)
t(t - tau)
pi(x)
tau(x)
exp
sin + 1
min
x'
x''
'
x' = y'
dx/dt = 1
x y
2x
2 x
x 2
(x)(x)
2(x)
x +
* x
/ 2
x * / y
x + * y
^x
x ^
x ^^ y
x *** y
x ** ** y
, x
x ,
x < > y
x ! y
x !== y
x === y
x =< y
_x
__
_
x + __y__
ｘ
ｅｘｐ(x)
ехр(x)
х
αx
λ
Δ
x²
x₁
x′
x − 1
x·y
x×y
x÷y
x≤1
½
∞
π
√x
é
x\u00a0+ 1
x\u200b
\u202ex
\ufeffx
\x00
x\x00
x\x00y
x + \x00
\x07
\x1b[31mx
\x7f
\ud800
\U0001f600
\\x41
\\u0041
%s
%(x)s
{x!r}
{0.__class__}
$(id)
`id`
'; import os; '
\\
""".strip("\n").split("\n")
LARGE = {
    "parentheses": "(" * 4000 + "x" + ")" * 4000,
    "never closed": "(" * 9000,
    "functions": "exp(" * 60 + "x" + ")" * 60,
    "sum": "x" + " + x" * 900,
    "long sum": "x" + "+x" * 4900,
    "signs": "-" * 1500 + "x",
    "many signs": "-" * 9900 + "x",
    "nots": "not " * 900 + "x > 1",
    "tower": "2^" * 900 + "x",
    "digits": "9" * 9000,
    "fraction": "0." + "1" * 5000,
    "name": "x" * 9000,
    "huge": "x + " * 1_000_000 + "x",
    "delays": "x(t - " * 45 + "1" + ")" * 45,
    "long delay": "x(t - " + " - ".join(f"a{i}" for i in range(600)) + ")",
    "doubled delay": "x(t - d40); d0 = tau; "
    + "; ".join(f"d{i + 1} = d{i} + d{i}" for i in range(40)),
    "long sum of delays": "f60; f0 = x; "
    + "; ".join(f"f{i + 1} = f{i}(t - tau)" for i in range(60)),
    "doubled formulas": "f40; f0 = 1; "
    + "; ".join(f"f{i + 1} = f{i}(t - a) + f{i}(t - b)" for i in range(40)),
    "distributed": "delay(" * 45 + "x" + ", gamma(1, 2))" * 45,
    "long mean": "delay(x, gamma(" + " + ".join(f"a{i}" for i in range(300)) + ", 2))",
    "long time": "x(" + " + ".join(["t"] * 300) + ")",
    "doubled time": "x(f30); f0 = t / 2; "
    + "; ".join(f"f{i + 1} = f{i} + f{i}" for i in range(30)),
    "infinite delay": "x(t - d); d = c * c; c = 1e200",
    "infinite sum of delays": "f(t - 1e308); f = x(t - 1e308)",
    "exponent of a delay": "x(t - a^d); d = 1e200",
    "circle": "a0; " + "; ".join(f"a{i} = a{(i + 1) % 700}" for i in range(700)),
    "unknown": "zz(x); " + "; ".join(f"zzzzzz{i}' = 1" for i in range(500)),
}
LEFT = """
= 1
x
2 = x
x y = 1
x y' = 1
x'' = 1
x' ' = 1
'x = 1
2' = 1
t' = 1
tau' = 1
pi' = 1
exp' = 1
tau = 1; x' = x
t = 1; x' = x
min = 1; x' = x
dexp/dt = 1
dlambda/dt = 1
dand/dt = 1
d2/dt = 1
d_x/dt = 1
d2x/dt = 1
2(t<=0) = 1; x' = 1
dx/dy = x
d/dt = x
dx = x
x(t) = 1
x(0)' = 1
x(1) = 1; x' = 1
x(0.5) = 1; x' = 1
2(0) = 1; x' = 1
x' = 1; x(0) = 1; x(0) = 2
x' = 1; y(0) = 1
x' = 1; x(0) = x
x' = 1; x(0) = t
x' = 1; x(0) = x(t - tau)
x' = 1; x(0) = x(0)
x' = 1; f = x; g = f; x(0) = g
x' = 1; f = t; x(0) = f
x' = 1; x(0) =
x(t<0) = 1; x' = 1
x(t<=1) = 1; x' = 1
x(t=0) = 1; x' = 1
x(t>=0) = 1; x' = 1
x(t<=0)' = 1
x' = 1; x' = 2
x' = 1; dx/dt = 2
x' = 1; x = 2
x' = f; f = 1; f = 2
x' = 1; x(t<=0) = 1; x(t<=0) = 2
x' = 1; y(t<=0) = 1
x' = 1; x(t<=0) = x
x' = 1; x(t<=0) = x(t - tau)
x' = 1; f = x; g = f; x(t<=0) = g
x' = 1; x(t<=0) =
f = f; x' = f
__class__' = 1
_x' = 1
__class__ = 1; x' = 1
lambda' = 1
None = 1; x' = 1
x.y' = 1
x[0]' = 1
(x)' = 1
x:= 1
x, y = 1
*x = 1
x += 1
""".strip().splitlines()

# Whether the interpreter compiled code, imported or opened anything meanwhile.
SEEN: list[tuple] = []
_WATCHED = ("exec", "import", "open", "os.", "subprocess.", "socket.", "ctypes.")
_watching = False


def _audit(event, arguments):
    if _watching and event.startswith(_WATCHED):
        SEEN.append((event, arguments))


sys.addaudithook(_audit)


def read(text):
    """The equation or the error of a text, while the interpreter's doings are seen."""
    global _watching
    SEEN.clear()
    _watching = True
    try:
        return dd.equation(text)
    except dd.EquationError as error:
        return error
    finally:
        _watching = False


def check_refused(text):
    error = read(text)
    assert isinstance(error, dd.EquationError), error
    assert not SEEN
    assert error.__context__ is None or error.__suppress_context__
    message, *shown = str(error).split("\n")
    assert len(str(error)) < 500 and "".join([message, *shown]).isprintable()
    if len(text) <= 10_000:
        line, caret = shown
        assert line.startswith("  line ") and caret.strip() == "^"


def test_the_watch_sees_what_runs():
    global _watching
    SEEN.clear()
    _watching = True
    eval("1 + 1")
    _watching = False
    assert [event for event, _ in SEEN] == ["exec"]


@pytest.mark.parametrize("formula", HOSTILE)
def test_hostile_formulas_are_refused(formula):
    check_refused(f"x' = {formula}")


@pytest.mark.parametrize("text", LEFT)
def test_wrong_left_sides_are_refused(text):
    check_refused(text)


@pytest.mark.parametrize("name", LARGE)
def test_large_texts_are_refused(name):
    check_refused(f"x' = {LARGE[name]}")


TOKENS = """
x y z r K f t tau pi x' y' dx/dt = = == ( ) (t - tau) (t<=0) + - * / ^ ** , ; # ' .
exp log sqrt min max where abs and or not if lambda 1 2.5 1e3 8 0 < <= > != [ ] { } : @
_ __class__ .__class__ __import__('os') α ｘ " \\ x(t - tau) 1e-400 1j 0x1 $ ` ~ %
x'(t - tau) x'( gamma delay uniform mean= shape= delay(x, gamma(r, uniform(1, )) 2))
gamma(mean=r, x(t/2) y(x) x(t-y) y'(x-2) delay(x,gamma(2,shape=r)) f(t-x) delay(
x(0)= x(0) x(t - 2 * r) x(t - f) f(t - tau) y(t - 1 f= f=x*y; f=t-r; f=2*r;
""".split()
SEPARATORS = st.sampled_from(["", " ", "\n", "  "])
PIECES = st.lists(st.tuples(st.sampled_from(TOKENS), SEPARATORS), max_size=14)
SENTENCES = PIECES.map(lambda pieces: "".join(a + b for a, b in pieces))


@settings(max_examples=500, deadline=None)
@given(SENTENCES, st.booleans())
def test_any_row_of_words_is_an_equation_or_an_error(text, as_formula):
    result = read(f"x' = {text}" if as_formula else text)
    assert not SEEN
    if isinstance(result, dd.Equation):
        assert dd.equation(str(result)) == result
        assert result.latex()


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40), st.booleans())
@example("\ud800", True)
@example("\x00", False)
def test_any_characters_are_an_equation_or_an_error(text, as_formula):
    result = read(f"x' = {text}" if as_formula else text)
    assert not SEEN
    assert isinstance(result, (dd.Equation, dd.EquationError))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(HOSTILE), st.sampled_from(HOSTILE), st.sampled_from("+*;,(\n"))
def test_hostile_formulas_stay_so_together(one, two, between):
    assert isinstance(read(f"x' = {one} {between} {two}"), dd.EquationError)
    assert not SEEN
