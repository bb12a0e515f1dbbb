"""What a user gives or can do, in the words of the way they came.

One user comes by Python and another by the command line, and the same library speaks to
both. A sentence therefore never spells out an argument, a call or an option. It holds
one of the `Wording`s below, which knows the words of both ways:

    f"If the system itself is disturbed, fit with {MULTIPLE_SHOOTING}."

ends with `` `dd.MultipleShooting()` `` in Python, and with ``
`--method multiple-shooting` `` on the command line. The words are chosen when the
sentence is made, so make it where it is needed, inside a function, not while a module
is loaded.

To add a remedy, add it below with its two wordings: a constant or, if it has a value in
it, a function of that value. Write both so that they fit into the same place of the
sentence. Names of parameters, states and columns, and plain words ("bound the
parameters"), are the same in both ways and need no entry. (`ddefind.torch` has its own
sentences.)
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

# Whether sentences are made for a user of the command line.
_for_command_line = False


@final
@dataclass(frozen=True)
class Wording:
    """The same thing in the words of Python and of the command line. As a text it is in
    the words of the way that the user came.

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


def are_for_command_line() -> bool:
    """Whether sentences are made for a user of the command line."""
    return _for_command_line


@contextmanager
def command_line_words() -> Iterator[None]:
    """Within this context, sentences are made in the words of the command line, in all
    threads."""
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


def starts(count: int) -> Wording:
    """A number of starts."""
    return Wording(f"`dd.LeastSquares(starts={count})`", f"`--starts {count}`")


# What is known of the parameters


def setting(name: str) -> Wording:
    """The settings of a parameter, as the subject of a sentence."""
    return Wording(f"`parameters[{name!r}]`", f"`{name}`")


BOUNDS = Wording("in `parameters`", "by `--bounds`")
START_VALUES = Wording("in `parameters`", "by `--start`")
BOUNDS_OR_START_VALUES = Wording("in `parameters`", "by `--bounds` or `--start`")


def start_value(name: str) -> Wording:
    """A start value of a parameter."""
    return Wording(f"in `parameters`, as {{{name!r}: 1.0}}", f"by `--start {name}=1`")


def bound(name: str, side: str) -> Wording:
    """A bound of a parameter; `side` is "lower" or "upper"."""
    sign = "<" if side == "upper" else ">"
    return Wording(f"set its `{side}`", f'set it by `--bounds "{name} {sign} ..."`')


def positive(name: str) -> Wording:
    """The lower bound 0 of a parameter."""
    return Wording("`lower=0`", f'`--bounds "{name} > 0"`')


def per_experiment(name: str) -> Wording:
    """That a parameter belongs to each experiment of a study."""
    return Wording(
        f"`parameters={{{name!r}: dd.Parameter(per_experiment=True)}}`",
        f"`--per-experiment {name}`",
    )


# What `discover` is asked

TERMS = Wording("`terms`", "`--terms`")
SEVERAL_TERMS = Wording(
    "Give several candidates as a list of texts.",
    "Give `--terms` once for each candidate.",
)
MOST_DELAYS = Wording("`delays`", "`--delays`")
KNOWN_PARTS = Wording("`known`", "`--known`")


# The history

HISTORY = Wording("`history`", "`--history`")
REPLACE_HISTORY = Wording("replace it by `with_history`", "remove it from the text")


def history(kind: str) -> Wording:
    """A kind of history."""
    return Wording(f'`history="{kind}"`', f"`--history {kind}`")


def with_history(kind: str) -> Wording:
    """A kind of history instead of that of an equation."""
    return Wording(f'`with_history("{kind}")`', f"`--history {kind}`")


# The solver

STEPS = Wording("`steps_per_delay`", "`--steps`")
TOLERANCE = Wording("`rtol`", "`--rtol`")
AUTOMATIC_SOLVER = Wording('`solver="auto"`', "`--solver auto`")


def solver(name: str) -> Wording:
    """A solver, as something to choose; `name` is that of its class."""
    return Wording(f"`solver=dd.{name}()`", f"`--solver {name.lower()}`")


def solver_name(name: str) -> Wording:
    """The name of a solver's class, as something that was chosen."""
    return Wording(f"`{name}`", f"`{name.lower()}`")


def tolerance(name: str, rtol: str) -> Wording:
    """A solver with a tolerance."""
    return Wording(
        f"`solver=dd.{name}(rtol={rtol})`", f"`--solver {name.lower()} --rtol {rtol}`"
    )


FEWER_STEPS = Wording(
    "Otherwise raise `rtol`, or `max_steps` if you gave it.",
    "Otherwise choose other values, or an earlier last time.",
)
EARLIER_END = Wording("solve up to an earlier `T`", "choose an earlier last time")

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


def another_name(name: str) -> Wording:
    """How a column gets a name that can stand in an equation."""
    return Wording("", f', by `--columns "x={name}"`')


def list_input(name: str) -> Wording:
    """How a name becomes an input of a text."""
    return Wording(
        f'If it is an input, list it: `inputs=("{name}",)`.',
        f"If it is an input, list it: `--inputs {name}`.",
    )


OTHER_COLUMNS = Wording(
    "the data a column of NaN for each that was not: `data.select(names)`",
    "choose the columns that the problem observes by `--columns`",
)


def rows_where(name: str, value: str) -> Wording:
    """The rows in which a column has a value."""
    return Wording(f"`where={{{name!r}: {value!r}}}`", f'`--where "{name}={value}"`')


def group(name: str) -> Wording:
    """A column that names the experiment of each row."""
    return Wording(f"`dd.read_study(..., group={name!r})`", f'`--group "{name}"`')


def inputs(text: str) -> Wording:
    """An input, given by its column, or as `NAME=FILE:COLUMN`."""
    name, equals, place = text.partition("=")
    python = f"{{{name!r}: {place!r}}}" if equals else f"({name!r},)"
    return Wording(f"`inputs={python}`", f'`--inputs "{text}"`')


def input_values(name: str) -> Wording:
    """The values of an input of a text."""
    return Wording(
        f'in `inputs`, as {{"{name}": dd.Input(t, values)}}',
        f"by `--inputs {name}=FILE.csv:COLUMN`, or `--inputs {name}` for a column of "
        "the data",
    )


def input_kind(kind: str) -> Wording:
    """How an input runs between its values."""
    return Wording(f"`input_kind={kind!r}`", f"`--input-kind {kind}`")


def doses(place: str) -> Wording:
    """The column or file of doses."""
    return Wording(f"`doses={place!r}`", f'`--doses "{place}"`')


def doses_of(state: str, place: str) -> Wording:
    """The column or file of doses to one state."""
    return Wording(f"`doses={{{state!r}: {place!r}}}`", f'`--doses "{state}={place}"`')


def time_zero(value: str) -> Wording:
    """The time in a file that becomes time 0."""
    return Wording(f"`start={value}`", f"`--time-zero {value}`")


def later_time_zero(value: str) -> Wording:
    """Another time 0 for data that begin long after it."""
    return Wording(
        f"Count the times from there, as `dd.Data(t - {value}, x)`",
        f"Let time 0 be there, by `--time-zero {value}`",
    )


def standard_deviations(names: Sequence[str]) -> Wording:
    """The standard deviations of measured quantities."""
    columns = ", ".join(f"`{name}_sd`" for name in names)
    word = "a column" if len(names) == 1 else "columns"
    return Wording("the data an `sd`", f"the file {word} {columns}")


def noise(word: str) -> Wording:
    """Another noise model."""
    return Wording(f'`noise="{word}"`', f"`--noise {word}`")


def instead_of_huber(asked: str, instead: object = None) -> str:
    """What takes the place of `huber`, which an earlier version had; `instead` is a
    noise model in words other than those of the way the user came."""
    return (
        f"There is no {asked} any more: for data with outliers fit with Student noise, "
        f"{instead or noise('student')}, which learns its width from the data."
    )


BELOW_LIMIT = Wording("`dd.Data(t, x, below=...)`", "a cell such as `<0.1`")


# Sweeps

SWEEP_FOLDER = Wording("`folder`", "`--out`")

# Predictions

TIMES = Wording("`times`", "`--until`")
UNTIL = Wording("`until`", "`--until`")
EARLIER_TIMES = Wording("earlier `times`, or other `parameters`", "an earlier time")
