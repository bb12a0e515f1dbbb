"""Texts that are no equations: each is a clear error, and nothing is ever run."""

import re
import sys

import pytest
from hypothesis import example, given, settings, strategies as st

import ddefind as dd

# Two blanks, or the end of a line, are between two texts.
BETWEEN = re.compile(r" {2,}|\n")
HOSTILE = BETWEEN.split("""\
__import__('os').system('echo pwned')  __import__("os").system("echo pwned")  __import__
__builtins__  __name__  __class__  x.__class__  x.__class__.__mro__[1].__subclasses__()
(1).__class__  (1).real  1..real  x.real  x.at  x . real  exp.__globals__
exp.__call__(x)  ().__class__.__bases__[0]  ''.__class__  "".__class__
getattr(x, 'shape')  getattr(x, shape)  eval('1')  eval("1")  eval(x)  exec(x)
compile(x)  open('/etc/passwd')  open(x)  print(x)  input()  exit()  quit()
breakpoint()  globals()  locals()  vars()  dir()  type(x)  id(x)  help(x)  sum(x, y)
pow(x, 9)  os.system(x)  sys.exit(1)  jnp.exp(x)  np.exp(x)  lambda: 1  lambda x: x
(lambda: 1)()  (lambda x: x)(x)  lambda  [x for x in y]  [1, 2, 3]  [x][0]  x[0]  x[:]
{x}  {x: 1}  {**x}  (x for x in y)  (x, 1)  x, 1  max(*x)  max(**x)  max(x, key=y)
exp(x=1)  f'{x}'  f"{x}"  f"{__import__('os')}"  r'x'  b'x'  u"x"  'x'  "x"  '''x'''
`x`  x if y else z  1 if x > 0 else 2  not  x not y  x is y  x is not None  x in y  None
True  False  ...  (x := 1)  x := 1  await x  yield x  (yield)  async  import os
from os import path  def f  class A  return x  raise x  assert x  del x  pass  global x
with x  try  for  while  x; import os  x = y  x == y = z  x += 1  x -> y  x => y  x <> y
x = = y  x // y  x % y  x @ y  x & y  x | y  ~x  !x  x << 2  x >> 2  x ? y  x \\ y
x $ y  x : y  x -- > y  9**9**9**9  9^9^9^9^9  2^1001  x^-1001  x**1e6  10^400
(10^200)^2  exp(1000)  exp(exp(exp(9)))  1/0  0/0  0^-1  log(0)  log(-1)  sqrt(-1)
(-8)^(1/3)  1e999  1e-999  1e9999999999  1j  2 * 3j  0x10  0b1  0o7  1_000  1__0  1e
1e+  .  .e5  1.2.3  x..y  (  )  ()  (()  ((x)  (x))  x)(  exp()  exp(  exp(,)  exp(x,)
exp(x, x)  max(x)  min()  where(x > 1, 2)  where(x, 1, 2)  where(1, 2, 3)  x and y
not x  x > 1 and 2  x + not (x > 1)  x(t - tau  x(t -)  x()  x(tau)  x(0)  x(t + tau)
x(tau - t)  x(t + tau - 1)  x(t - x(t - tau))  x(t - x'(t - tau))  x(x(t - 1))
x(tau * 2)  x(1 - x)  x'(t)  x'()  x''(t - tau)  2'(t - 1)  r'(t - tau)  exp'(x)
t'(t - 1)  (x)'(t - tau)  x'(t - 0)  x'(t - -2)  x '  gamma(1, 2)  gamma(mean = 1)
delay()  delay(x)  delay(x, 2)  delay(x, gamma)  delay(x, gamma())  delay(x, gamma(1))
delay(x, gamma(1, 2, 3))  delay(x, gamma(1, 2), 3)  delay(x, gamma(shape = 2))
delay(x, gamma(mean = 1, mean = 2))  delay(x, gamma(mean = , shape = 2))
delay(x, gamma(mean == 1, shape = 2))  delay(x, gamma(mean = shape = 2))
delay(x, gamma((mean = 1), 2))  delay(x, gamma(mean := 1, 2))  delay(x, gamma(-1, 2))
delay(x, gamma(1, x))  delay(x, gamma(t, 2))  delay(x, gamma(1, gamma(1, 2)))
delay(x, uniform(2, 1))  delay(x, uniform(-1, 1))  delay(x, uniform(a = 1, b = 2))
delay(x, exp(2))  delay(x, normal(1, 2))  delay(2 * x, gamma(1, 2))
delay(k, gamma(1, 2))  delay(x(t - 1), gamma(1, 2))  delay(x = 1, gamma(1, 2))
x(t - delay(x, gamma(1, 2)))  x(t - 0)  x(t - -1)  x(t - tau, t)  x(t)(t)  (x)(t - tau)
2(t - tau)  r(t - tau)  t(t - tau)  pi(x)  tau(x)  exp  sin + 1  min  x'  x''  '
x' = y'  dx/dt = 1  x y  2x  2 x  x 2  (x)(x)  2(x)  x +  * x  / 2  x * / y  x + * y  ^x
x ^  x ^^ y  x *** y  x ** ** y  , x  x ,  x < > y  x ! y  x !== y  x === y  x =< y  _x
__  _  x + __y__  ｘ  ｅｘｐ(x)  ехр(x)  х  αx  λ  Δ  x²  x₁  x′  x − 1  x·y  x×y  x÷y
x≤1  ½  ∞  π  √x  é  x\u00a0+ 1  x\u200b  \u202ex  \ufeffx  \x00  x\x00  x\x00y
x + \x00  \x07  \x1b[31mx  \x7f  \ud800  \U0001f600  \\x41  \\u0041  %s  %(x)s  {x!r}
{0.__class__}  $(id)  `id`  '; import os; '  \\""")
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
LEFT = BETWEEN.split("""\
= 1  x  2 = x  x y = 1  x y' = 1  x'' = 1  x' ' = 1  'x = 1  2' = 1  t' = 1  tau' = 1
pi' = 1  exp' = 1  tau = 1; x' = x  t = 1; x' = x  min = 1; x' = x  dexp/dt = 1
dlambda/dt = 1  dand/dt = 1  d2/dt = 1  d_x/dt = 1  d2x/dt = 1  2(t<=0) = 1; x' = 1
dx/dy = x  d/dt = x  dx = x  x(t) = 1  x(0)' = 1  x(1) = 1; x' = 1  x(0.5) = 1; x' = 1
2(0) = 1; x' = 1  x' = 1; x(0) = 1; x(0) = 2  x' = 1; y(0) = 1  x' = 1; x(0) = x
x' = 1; x(0) = t  x' = 1; x(0) = x(t - tau)  x' = 1; x(0) = x(0)
x' = 1; f = x; g = f; x(0) = g  x' = 1; f = t; x(0) = f  x' = 1; x(0) =
x(t<0) = 1; x' = 1  x(t<=1) = 1; x' = 1  x(t=0) = 1; x' = 1  x(t>=0) = 1; x' = 1
x(t<=0)' = 1  x' = 1; x' = 2  x' = 1; dx/dt = 2  x' = 1; x = 2  x' = f; f = 1; f = 2
x' = 1; x(t<=0) = 1; x(t<=0) = 2  x' = 1; y(t<=0) = 1  x' = 1; x(t<=0) = x
x' = 1; x(t<=0) = x(t - tau)  x' = 1; f = x; g = f; x(t<=0) = g  x' = 1; x(t<=0) =
f = f; x' = f  __class__' = 1  _x' = 1  __class__ = 1; x' = 1  lambda' = 1
None = 1; x' = 1  x.y' = 1  x[0]' = 1  (x)' = 1  x:= 1  x, y = 1  *x = 1  x += 1""")

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
