"""What a user gives or can do, in the words of Python or of the command line.

The same library speaks to users of both. A sentence therefore never spells out an
argument, a call or an option. It holds one of the `Wording`s below, which has both:

    f"If the system itself is disturbed, fit with {MULTIPLE_SHOOTING}."

ends with `` `dd.MultipleShooting()` `` in Python, and with ``
`--method multiple-shooting` `` on the command line. The words are chosen when the
sentence is made, so make it where it is needed, inside a function, not while a module
is loaded.

To add a remedy, add it below with its two wordings: a `Wording` or, if it has values in
it, a `_Template`. Write both so that they fit into the same place of the sentence.
Names of parameters, states and columns, and plain words ("bound the parameters"), are
the same in both ways and need no entry. (`ddefind.torch` has its own sentences.)"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

# Whether sentences are made for a user of the command line.
_for_command_line = False


@final
@dataclass(frozen=True)
class Wording:
    """The same thing in the words of Python and of the command line. `str` takes those
    of the present user.

    >>> print(starts(200))
    `dd.LeastSquares(starts=200)`
    >>> with command_line_words():
    ...     print(starts(200))
    `--starts 200`
    """

    python: str
    command_line: str

    def __str__(self) -> str:
        return self.command_line if _for_command_line else self.python


@final
@dataclass(frozen=True)
class _Template:
    """A wording with values in it, which are put into both texts by `str.format`."""

    python: str
    command_line: str

    def __call__(self, *values: object) -> Wording:
        return Wording(self.python.format(*values), self.command_line.format(*values))


def are_for_command_line() -> bool:
    """Return whether sentences are made for a user of the command line."""
    return _for_command_line


@contextmanager
def command_line_words() -> Iterator[None]:
    """Make sentences in the words of the command line, in all threads."""
    global _for_command_line
    before, _for_command_line = _for_command_line, True
    try:
        yield
    finally:
        _for_command_line = before


# Methods of a fit

FIT = Wording("`dd.fit`", "`ddefind fit`")
METHOD = Wording("`optimizer`", "`--method`")
LEAST_SQUARES = Wording("`dd.LeastSquares()`", "`--method least-squares`")
MULTIPLE_SHOOTING = Wording("`dd.MultipleShooting()`", "`--method multiple-shooting`")
INTERVALS = Wording("`fit.with_intervals()` computes them", "fit again to compute them")
INTERVALS_OF_MANY = Wording(
    "`batch[i].with_intervals()` computes them",
    "with a `level` in the settings they are computed",
)
starts = _Template("`dd.LeastSquares(starts={})`", "`--starts {}`")

# What is known of the parameters

setting = _Template("`parameters[{!r}]`", "`{}`")  # as the subject of a sentence
BOUNDS = Wording("in `parameters`", "by `--bounds`")
START_VALUES = Wording("in `parameters`", "by `--start`")
BOUNDS_OR_START_VALUES = Wording("in `parameters`", "by `--bounds` or `--start`")
positive = _Template("`lower=0`", '`--bounds "{} > 0"`')
per_experiment = _Template(
    "`parameters={{{!r}: dd.Parameter(per_experiment=True)}}`", "`--per-experiment {}`"
)


def bound(name: str, side: str) -> Wording:
    """Return a bound of a parameter; `side` is "lower" or "upper"."""
    sign = "<" if side == "upper" else ">"
    return Wording(f"set its `{side}`", f'set it by `--bounds "{name} {sign} ..."`')


# The options of `discover`

SEVERAL_TERMS = Wording(
    "Give several candidates as a list of texts.",
    "Give `--terms` once for each candidate.",
)
MOST_DELAYS = Wording("`delays`", "`--delays`")
KNOWN_PARTS = Wording("`known`", "`--known`")

# The history

HISTORY = Wording("`history`", "`--history`")
REPLACE_HISTORY = Wording("replace it by `with_history`", "remove it from the text")
history = _Template('`history="{}"`', "`--history {}`")
# A kind of history instead of that of an equation.
with_history = _Template('`with_history("{}")`', "`--history {}`")

# The solver

STEPS = Wording("`steps_per_delay`", "`--steps`")
TOLERANCE = Wording("`rtol`", "`--rtol`")
AUTOMATIC_SOLVER = Wording('`solver="auto"`', "`--solver auto`")
FEWER_STEPS = Wording(
    "Otherwise raise `rtol`, or `max_steps` if you gave it.",
    "Otherwise choose other values, or an earlier last time.",
)
EARLIER_END = Wording("solve up to an earlier `T`", "choose an earlier last time")


def solver(name: str) -> Wording:
    """Return a solver, as something to choose; `name` is that of its class."""
    return Wording(f"`solver=dd.{name}()`", f"`--solver {name.lower()}`")


def solver_name(name: str) -> Wording:
    """Return the name of a solver's class, as something that was chosen."""
    return Wording(f"`{name}`", f"`{name.lower()}`")


def tolerance(name: str, rtol: str) -> Wording:
    """Return a solver with a tolerance."""
    return Wording(
        f"`solver=dd.{name}(rtol={rtol})`", f"`--solver {name.lower()} --rtol {rtol}`"
    )


# Data, and what is measured

COLUMNS = Wording("`columns`", "`--columns`")
WHERE = Wording("`where`", "`--where`")
SHEET = Wording("`sheet`", "`--sheet`")
SHEET_NAME = Wording("`sheet=NAME`", "`--sheet NAME`")
TIME = Wording("`time`", "`--time`")
TIME_NAME = Wording("`time=NAME`", "`--time NAME`")
TIME_ZERO = Wording("`start`", "`--time-zero`")
GROUP = Wording("`group`", "`--group`")
VALUES = Wording("`values`", "`--values`")
INPUTS = Wording("`inputs`", "`--inputs`")
INPUT_KIND = Wording("`input_kind`", "`--input-kind`")
DOSES = Wording("`doses`", "`--doses`")
OBSERVE = Wording("`observe`", "`--observe`")
BELOW_LIMIT = Wording("`dd.Data(t, x, below=...)`", "a cell such as `<0.1`")
OTHER_COLUMNS = Wording(
    "the data a column of NaN for each that was not: `data.select(names)`",
    "choose the columns that the problem observes by `--columns`",
)
# How a column gets a name that can stand in an equation.
another_name = _Template("", ', by `--columns "x={}"`')
# How a name becomes an input of a text.
list_input = _Template(
    'If it is an input, list it: `inputs=("{}",)`.',
    "If it is an input, list it: `--inputs {}`.",
)
# The rows in which a column has a value; the column of experiments.
rows_where = _Template("`where={{{!r}: {!r}}}`", '`--where "{}={}"`')
group = _Template("`dd.read_study(..., group={!r})`", '`--group "{}"`')
# The values of an input of a text, and how they are connected.
input_values = _Template(
    'in `inputs`, as {{"{0}": dd.Input(t, values)}}',
    "by `--inputs {0}=FILE.csv:COLUMN`, or `--inputs {0}` for a column of the data",
)
input_kind = _Template("`input_kind={!r}`", "`--input-kind {}`")
# The column or file of all doses, or of those to one state.
doses = _Template("`doses={!r}`", '`--doses "{}"`')
doses_of = _Template("`doses={{{!r}: {!r}}}`", '`--doses "{}={}"`')
# The time in a file that becomes time 0, and another one for data that begin later.
time_zero = _Template("`start={}`", "`--time-zero {}`")
later_time_zero = _Template(
    "Count the times from there, as `dd.Data(t - {}, x)`",
    "Let time 0 be there, by `--time-zero {}`",
)
noise = _Template('`noise="{}"`', "`--noise {}`")


def inputs(text: str) -> Wording:
    """Return an input, given by its column, or as `NAME=FILE:COLUMN`."""
    name, equals, place = text.partition("=")
    python = f"{{{name!r}: {place!r}}}" if equals else f"({name!r},)"
    return Wording(f"`inputs={python}`", f'`--inputs "{text}"`')


def standard_deviations(names: Sequence[str]) -> Wording:
    """Return how to give the standard deviations of measured quantities."""
    columns = ", ".join(f"`{name}_sd`" for name in names)
    word = "a column" if len(names) == 1 else "columns"
    return Wording("the data an `sd`", f"the file {word} {columns}")


def instead_of_huber(option: str, instead: object = None) -> str:
    """Return what takes the place of `huber`, which an earlier version had; `instead`
    is a noise model in other words than those of the present user."""
    return (
        f"There is no {option} any more: for data with outliers fit with Student "
        f"noise, {instead or noise('student')}, which learns its width from the data."
    )


# Sweeps

SWEEP_FOLDER = Wording("`folder`", "`--out`")

# Predictions

TIMES = Wording("`times`", "`--until`")
UNTIL = Wording("`until`", "`--until`")
EARLIER_TIMES = Wording("earlier `times`, or other `parameters`", "an earlier time")
