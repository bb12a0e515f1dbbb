"""The options of a fit, in one table: as keywords of `fit` and `fit_many`, and as
settings of `ddefind fit`, which are its options and the entries of `fit.toml`.

To add an option, add a record here. The signature and the docstring of `fit`, the
options and the help of the command line, and the check of `fit.toml` are made from it.
If the option is a keyword, name its type in `request.py`, for type checkers; if the
command line does not pass its value on as it is, do so in `_cli/fit_settings.py`.

Nothing heavy is imported here, so that the help of the command line appears at once.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, final

# Which fits have a keyword: all, those by gradient descent, or those of `fit_many`.
ALL_FITS, DESCENT, SWEEPS = "all fits", "gradient descent", "sweeps"

# The words of the adaptive solvers, and of all solvers of a fit: the names of their
# classes in small letters, and what they are for.
ADAPTIVE_WORDS = {
    "tsit5": "adaptive steps",
    "dop853": "adaptive, for small tolerances",
    "radau": "adaptive, for stiff equations",
}
SOLVER_WORDS = {"rk4": "fixed steps", **ADAPTIVE_WORDS}

# Values that a shell offers, or a function that looks them up.
Offered = Iterable[str] | Callable[[], Iterable[str]]
_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type)


@final
@dataclass(frozen=True, kw_only=True)
class Option:
    """One option. It may be a keyword of `fit`, a setting of the command line, or both.

    - `keyword`, `default`, `text`: the keyword, its default, and its explanation in the
      docstring; `of` says which fits have it.
    - `setting`, `short`: its name in `fit.toml`, with `-` for `_` on the command line;
      and a one-letter flag.
    - `kind`: how its value is written, a key of `_cli.parse_options.KINDS`.
    - `placeholder`, `help`: for the help of the command line; a kind has a placeholder
      of its own. Without help the setting has no option.
    - `expected`: what an entry of `fit.toml` must be, if its kind does not say it.
    - `unset`: the value of the setting if it is not given.
    - `values`: those that a shell offers; of the kind "choice", there are no others.
    - `is_passed`: whether the value of the setting is that of the keyword."""

    keyword: str = ""
    default: Any = None
    text: str = ""
    of: str = ALL_FITS
    setting: str = ""
    short: str = ""
    kind: str = "text"
    placeholder: str = ""
    help: str = ""
    expected: str = ""
    unset: Any = None
    values: Offered = ()
    is_passed: bool = False

    def offered(self) -> list[str]:
        """Return the values that a shell offers."""
        return list(self.values() if callable(self.values) else self.values)

    @property
    def flag(self) -> str:
        """The setting as it is written on the command line."""
        return f"--{self.setting.replace('_', '-')}"


def _histories() -> Iterable[str]:
    """Return the words for histories, of which a fit chooses the last two itself."""
    from .._equation.history_kinds import CHOSEN_BY_FIT
    from .._problem.history import KINDS

    return (*KINDS, *CHOSEN_BY_FIT)


def noise_kinds() -> Iterable[str]:
    """Return the words for noise."""
    from ..noise._read_noise import WORDS

    return WORDS


OPTIONS = (
    Option(setting="data", kind="paths"),
    # The model
    Option(
        setting="equation",
        short="-e",
        placeholder="TEXT",
        help="x' = ... for each state, separated by ; . x(t - tau) is a delayed state; "
        "there may be several delays. Names that are not states become parameters.",
    ),
    Option(
        setting="model",
        placeholder="FILE",
        help="Instead of --equation: a text file with the equation, or FILE.py:NAME, "
        "an Equation, a Problem or a function that returns one in a Python file, which "
        "is run.",
    ),
    Option(
        keyword="history",
        text='for an `Equation`, another history than its own. With `"auto"` the '
        'history is chosen by evidence, and with `"data"` the beginning of the data is '
        "the past. For a function alone, its history.",
        setting="history",
        kind="history",
        placeholder="KIND",
        help="Before time 0: constant (the default), affine, periodic, spline, neural, "
        "or the numbers that a constant history starts from, one for each state. A fit "
        "can choose (auto), or take the beginning of the data as the past (data).",
        values=_histories,
    ),
    Option(
        setting="observe",
        placeholder="TEXT",
        help='What is measured, if not the states: "scale * x", or several as '
        '"name = ...; ...".',
    ),
    Option(
        keyword="inputs",
        text="for an `Equation` with inputs, these by name: each an `Input`, or a "
        "formula of t.",
        setting="inputs",
        kind="inputs",
        help="Inputs of the equation: a column of the data, as u; or "
        "u=temperature.csv:T, a column of another file; or a formula of t, as "
        '"u=sin(t)".',
    ),
    Option(
        setting="input_kind",
        kind="texts",
        placeholder="KIND",
        help="How inputs run between their values: linear (the default), steps or "
        "cubic; u=steps for one of them.",
        expected="a kind, or a table of kinds by input",
        values=("linear", "steps", "cubic"),
    ),
    Option(
        keyword="doses",
        text="what states get at certain times, a list of `Dose` and `SetState`.",
        setting="doses",
        kind="texts",
        placeholder="PLACE",
        help="Doses: a file with the columns time, amount, state and, if they take "
        "time, duration; or the column of amounts in the data. gut=AMT says that all "
        "go to the state gut.",
        expected='a file or column, or a table of them by state, as gut = "AMT"',
    ),
    Option(
        keyword="networks",
        text="for an `Equation` with unknown functions, `NN(...)`, other networks than "
        'the usual ones, by name, as `{"NN": dd.Network(width=32)}`.',
        setting="network",
        kind="networks",
        placeholder="NETWORK",
        help="The network that NN(...) in the equation stands for, if not the usual "
        'one of 16 units: "NN: width=32 depth=2 positive". It may be positive, '
        "increasing, decreasing, through-zero, or have bounds=0,1.",
    ),
    # What is known of the parameters
    Option(
        keyword="parameters",
        text="by name, a `Parameter` (start, bounds, prior), `Fixed`, `Tied`, or a "
        "number to start from. All others are learned without bounds. The delay stays "
        "positive; least squares looks for it between a small share of the sampling "
        "interval and 0.9 of the record.",
    ),
    Option(
        setting="set",
        kind="numbers by name",
        placeholder="NAME=NUMBER",
        help="The value of a parameter; a fit does not learn it.",
    ),
    Option(
        setting="start",
        kind="numbers by name",
        placeholder="NAME=NUMBER",
        help="A guess of a parameter: one of the starts begins there.",
    ),
    Option(
        setting="bounds",
        kind="bounds",
        placeholder="RANGE",
        help='Bounds of a parameter: "K in [0, 10]", "K > 0" or "0 < K < 10".',
    ),
    Option(
        setting="positive",
        kind="names",
        help="Parameters that are positive, as r,K; all stands for all parameters of "
        "the equation, those of the history excepted.",
    ),
    Option(
        setting="prior",
        kind="priors",
        placeholder="PRIOR",
        help='What is known of a parameter beforehand: "K ~ normal(2, 0.5)", with mean '
        'and standard deviation, or "K ~ lognormal(2, 1.5)", with median and factor.',
    ),
    Option(
        setting="per_experiment",
        kind="names",
        placeholder="NAMES",
        help="Parameters that have a value of their own in each experiment, as b,k.",
    ),
    # How the fit is made
    Option(
        keyword="noise",
        text='how measured values scatter: "gaussian", "proportional", "combined", '
        '"lognormal", "poisson", "negative-binomial" or "student"; a model of '
        "`dd.noise`; or a dict of these by quantity. Its parameters are then learned "
        "by maximum likelihood with all others. By default it is Gaussian, of the size "
        "that the data give (`sd`), or of one size for each quantity, and the fit is "
        "by least squares.",
        setting="noise",
        kind="texts",
        placeholder="KIND",
        help="The noise: gaussian (the default), proportional, combined, lognormal, "
        "poisson, negative-binomial or student; hare=poisson for one quantity.",
        expected='a kind, or a table of kinds by quantity, as hare = "poisson"',
        values=noise_kinds,
    ),
    Option(
        setting="method",
        kind="choice",
        help="least-squares (the default), or multiple-shooting for systems that are "
        "themselves disturbed, so that successive residuals are correlated.",
        values=("least-squares", "multiple-shooting"),
    ),
    Option(
        setting="starts", kind="count", help="How many starts are tried.  [default: 32]"
    ),
    Option(
        keyword="solver",
        default="auto",
        text="the method that solves the equation: `RK4()` with fixed steps, "
        "`Tsit5()`, `DOP853()` or `Radau()` with adaptive ones; by default the "
        "equation and the data decide.",
        setting="solver",
        kind="choice",
        help=", ".join(f"{word} ({use})" for word, use in SOLVER_WORDS.items())
        + ". By default, auto, the equation and the data decide.",
        values=("auto", *SOLVER_WORDS),
    ),
    Option(
        setting="rtol",
        kind="number",
        help=f"The relative error that {' or '.join(ADAPTIVE_WORDS)} tolerate in a "
        "step, 1e-6 by default.",
    ),
    Option(
        keyword="steps_per_delay",
        text="the solver's steps in a delay, by default 20. Least squares begins with "
        "10 and takes as many as the estimates need.",
        setting="steps",
        kind="count",
        help="The solver's steps in a delay to begin with; a fit takes more where the "
        "estimates need them.  [default: 10]",
        is_passed=True,
    ),
    Option(
        keyword="seed",
        default=0,
        text="of the random starts.",
        setting="seed",
        kind="whole",
        help="Seed of the random starts.  [default: 0]",
        unset=0,
        is_passed=True,
    ),
    Option(
        keyword="intervals",
        text="False leaves out the intervals, the verdicts and the tests of the "
        "residuals, which take further fits; `fit.with_intervals()` computes them "
        "later.",
    ),
    Option(
        keyword="level",
        default=0.95,
        text="the confidence level of the intervals.",
        setting="level",
        kind="level",
        help="The confidence level of intervals and bands, 0.95 by default.",
        is_passed=True,
    ),
    Option(
        keyword="progress",
        text="a callback that is called now and then with a `Progress`; True or False "
        "for a bar or none. By default there is a bar on a terminal.",
    ),
    Option(
        keyword="loss",
        text="what is minimised, by default `SumOfSquares()`, as by least squares.",
        of=DESCENT,
    ),
    Option(
        keyword="gradient",
        text="the route to the gradient, by default `Discrete()`.",
        of=DESCENT,
    ),
    Option(keyword="epochs", text="the number of steps, by default 500.", of=DESCENT),
    Option(
        keyword="threshold",
        text="a loss below which it stops early, by default 0.",
        of=DESCENT,
    ),
    Option(
        keyword="executor",
        text="where the fits run, if not here: a number of processes of this machine, "
        "a client of dask, or any executor as of `concurrent.futures`. Each worker "
        "uses one core.",
        of=SWEEPS,
    ),
    Option(
        keyword="folder",
        text="where finished fits are kept. Called again, with the same arguments, it "
        "goes on where it stopped, and ends with the same numbers to the last bit.",
        of=SWEEPS,
    ),
    Option(
        keyword="retry_failed",
        default=False,
        text="fits of the folder that ended with an error are made again.",
        of=SWEEPS,
    ),
    # What is read from the files
    Option(setting="time", help="The name of the column of times."),
    Option(
        setting="columns",
        kind="columns",
        placeholder="NAMES",
        help='The columns to read, as a,b; or "hare=Hare (n/km2)", if the equation has '
        "another name for a column than the file.",
    ),
    Option(
        setting="where",
        kind="where",
        placeholder="NAME=VALUE",
        help="Read only the rows in which a column has this value, as "
        "treatment=control.",
    ),
    Option(
        setting="group",
        help="The column that names the experiment to which a row belongs. Without it, "
        "each of several files is an experiment.",
    ),
    Option(
        setting="values",
        kind="names",
        placeholder="NAMES",
        help="Columns of known values, each one number for a whole experiment, as "
        "dose.",
    ),
    Option(
        setting="sheet",
        help="The sheet of an Excel workbook. By default the first one is read.",
    ),
    Option(
        setting="time_zero",
        kind="time",
        help="The time in the file that becomes time 0, where the history ends.",
    ),
)
# The settings by name.
SETTINGS = {option.setting: option for option in OPTIONS if option.setting}


def keywords(*of: str) -> list[Option]:
    """Return the options that are keywords of these fits."""
    return [option for option in OPTIONS if option.keyword and option.of in of]


def defaults(*of: str) -> dict[str, Any]:
    """Return the defaults of the keywords of these fits."""
    return {option.keyword: option.default for option in keywords(*of)}


def with_fields(fields: Mapping[str, Any]) -> Callable[[_Class], _Class]:
    """Return a decorator, for use below `dataclass`, that adds fields with defaults."""

    def decorated(record: _Class) -> _Class:
        record.__annotations__ = dict.fromkeys(fields, Any)
        for name, default in fields.items():
            setattr(record, name, default)
        return record

    return decorated


def with_options_listed(*of: str) -> Callable[[_Function], _Function]:
    """Return a decorator that adds the keywords of these fits to a signature, and their
    explanations where the docstring has `{options}` (all fits), `{descent}` or
    `{sweeps}`."""

    def decorated(function: _Function) -> _Function:
        *before, _ = inspect.signature(function).parameters.values()
        listed = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in defaults(*of).items()
        ]
        function.__signature__ = inspect.Signature([*before, *listed])  # type: ignore
        places = {"options": ALL_FITS, "descent": DESCENT, "sweeps": SWEEPS}
        for place, fits in places.items():
            text = function.__doc__ or ""
            function.__doc__ = text.replace(f"    {{{place}}}\n", _explained(fits))
        return function

    return decorated


def _explained(of: str) -> str:
    """Return the list of these keywords in a docstring."""
    return "".join(
        textwrap.fill(
            f"- `{each.keyword}`: {each.text}",
            88,
            initial_indent="    ",
            subsequent_indent="      ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
        for each in keywords(of)
    )
