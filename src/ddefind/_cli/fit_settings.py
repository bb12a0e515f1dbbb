"""The settings of a fit, as options and TOML files give them and `fit.toml` keeps them;
the data that they name, and the settings as arguments of `dd.fit`.

In a TOML file, paths are relative to its folder."""

import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import ddefind as dd

from .._fitting.fit_options import ADAPTIVE_WORDS, SETTINGS, with_fields
from .._util import wording
from .._util.errors import did_you_mean, quoted
from .._util.files import file_name, read_text
from .._util.version import __version__
from .parse_options import (
    KINDS,
    GivenRange,
    OptionError,
    check_bounds,
    parse_number,
    read_prior,
)

# The method that is not the usual one.
_, MULTIPLE_SHOOTING = SETTINGS["method"].offered()
# What stands for all parameters of the equation in `--positive`.
ALL = "all"
# A kind of noise, perhaps with its numbers in brackets.
_KIND = re.compile(r"\s*([A-Za-z_ -]+?)\s*(?:\(([^()]*)\))?\s*")
# The words that describe a network.
_SIZES = "width", "depth"
_FLAGS = "positive", "increasing", "decreasing", "through-zero"
_BOUNDS = re.compile(
    r"\bbounds\s*=\s*[\[(]?\s*([^\s,\])]+)\s*,\s*([^\s,\])]+)\s*[\])]?"
)


def _unset(name: str) -> Any:
    """Return the value of a setting that is not given, as a field of a record."""
    is_table = KINDS[SETTINGS[name].kind].holds == "table"
    return field(default_factory=dict) if is_table else SETTINGS[name].unset


@final
@dataclass(frozen=True, kw_only=True)
@with_fields({name: _unset(name) for name in SETTINGS})
class FitSettings:
    """Everything that determines the numbers of a fit.

    The fields are the settings in `_fitting/fit_options.py`. `data` is a path, or
    several, and `model` is `FILE.py:NAME`. None stands for the default."""

    if TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        for message in self._conflicts():
            raise OptionError(message)

    def _conflicts(self) -> Iterator[str]:
        """Yield what does not go together, and refuse wrong values."""
        if self.data is None:
            yield "Give a file of measurements: `ddefind fit DATA.csv ...`."
        if self.is_study and self.method == MULTIPLE_SHOOTING:
            yield (
                "Several experiments are fitted by `--method least-squares`, not by "
                "`--method multiple-shooting`."
            )
        if self.per_experiment and not self.is_study:
            yield (
                "`--per-experiment` goes with several experiments: name their column "
                "by `--group`, or give several files."
            )
        for name in self.per_experiment or ():
            if name in self.set or name in (self.values or ()):
                yield (
                    f"{name!r} is known: `--per-experiment` does not go with `--set` "
                    "or `--values`."
                )
        if (self.equation is None) == (self.model is None):
            yield "Give either `--equation TEXT` or `--model FILE.py:NAME`."
        if self.rtol is not None and self.solver not in ADAPTIVE_WORDS:
            solvers = " or ".join(f"`--solver {word}`" for word in ADAPTIVE_WORDS)
            yield f"`--rtol` goes with {solvers}, which choose their steps by it."
        for name, value in vars(self).items():
            if value is None:
                continue
            option = SETTINGS[name]
            KINDS[option.kind].check(option.flag, value)
            if option.kind == "choice" and value not in option.offered():
                *others, last = option.offered()
                yield (
                    f"`{option.flag}` must be {', '.join(others)} or {last}, but got "
                    f"{quoted(value)}."
                )
        for prior in self.prior.values():
            read_prior(prior)
        named = [name for name in self.positive or () if name != ALL]
        for name in named:
            if math.isfinite(self.bounds.get(name, GivenRange()).lower):
                shown = quoted(name)
                yield f"`--positive` and `--bounds` both limit {shown} from below."
        for option, names in (
            ("--start", self.start),
            ("--bounds", self.bounds),
            ("--prior", self.prior),
            ("--positive", named),
        ):
            for name in names:
                if name in self.set:
                    yield (
                        f"{name!r} is set to a value, and so not learned: `{option}` "
                        "does not go with `--set`."
                    )

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of measurements."""
        return (self.data,) if isinstance(self.data, str) else tuple(self.data or ())

    @property
    def is_study(self) -> bool:
        """Whether there may be several experiments."""
        return self.group is not None or len(self.paths) > 1

    def toml(self) -> str:
        """Return the text of a TOML file that repeats the fit."""
        lines = [
            f"# Written by ddefind {__version__}. To repeat the fit:",
            "#   ddefind fit --config fit.toml",
        ]
        tables = []
        for name, value in vars(self).items():
            if isinstance(value, dict):
                if value:
                    rows = [
                        f"{_toml_key(k)} = {_toml_value(v)}" for k, v in value.items()
                    ]
                    tables += ["", f"[{name}]", *rows]
            elif value is not None:
                lines.append(f"{name} = {_toml_value(value)}")
        return "\n".join([*lines, *tables]) + "\n"


def combine_settings(
    file: str | os.PathLike[str] | None, options: Mapping[str, Any]
) -> FitSettings:
    """Return the settings of a TOML file, overridden by options. Parameters are
    overridden one by one, by name."""
    settings = {} if file is None else _read(Path(file))
    given = {
        name: value for name, value in options.items() if value not in (None, {}, [])
    }
    if "equation" in given or "model" in given:
        settings.pop("equation", None)
        settings.pop("model", None)
    for name, value in given.items():
        old = settings.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            value = {**old, **value}
        settings[name] = value
    return FitSettings(**settings)


def checked_settings(
    file: str, given: Mapping[str, Any], known: Collection[str], table: str = ""
) -> dict[str, Any]:
    """Return settings of a TOML file, or of a named table in it, with their types
    checked. Refuse names that are not `known`."""
    settings: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            if name == "huber":
                hint = wording.instead_of_huber(
                    "setting `huber`", '`noise = "student"`'
                )
                raise OptionError(f"{file}: {hint}")
            hint = did_you_mean(name, known)
            raise OptionError(f"{file}: there is no setting {name!r}.{hint}")
        kind = KINDS[SETTINGS[name].kind]
        try:
            settings[name] = kind.read(value)
        except (AttributeError, TypeError, ValueError):
            raise OptionError(
                f"{file}: `{table}{name}` must be "
                f"{SETTINGS[name].expected or kind.expected}, but it is {value!r}."
            ) from None
    check_bounds(settings.get("bounds", {}))
    return settings


def _read(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file, with their paths."""
    text, _ = read_text(path)
    try:
        given = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise OptionError(f"{file_name(path)}: {error}.") from None
    settings = checked_settings(file_name(path), given, SETTINGS)
    return with_paths(settings, lambda place: os.path.join(path.parent, place))


def with_paths(
    settings: Mapping[str, Any], change: Callable[[str], str]
) -> dict[str, Any]:
    """Return settings with every path in them changed by a function."""

    def moved(name: str, text: str) -> str:
        if name in ("data", "model"):
            return change(text)
        from .._data.table import find_place

        # A column or a formula is no path.
        place = find_place(text)
        if place is None or place.file is None:
            return text
        column = "" if place.column is None else f":{place.column}"
        return change(place.file) + column

    changed = dict(settings)
    for name in ("data", "model", "doses", "inputs"):
        value = changed.get(name)
        if isinstance(value, str):
            changed[name] = moved(name, value)
        elif isinstance(value, list):
            changed[name] = [moved(name, each) for each in value]
        elif isinstance(value, dict):
            changed[name] = {key: moved(name, each) for key, each in value.items()}
    return changed


def _toml_key(name: str) -> str:
    """Return a name as a TOML key, in quotes where it needs them."""
    plain = name.replace("_", "").isalnum() and name.isascii()
    return name if plain else f'"{_escaped(name)}"'


def _toml_value(value: Any) -> str:
    """Return a number, a text or a list as TOML.

    >>> print(_toml_value("x' = -x"), _toml_value((0.0, float("inf"))))
    "x' = -x" [0.0, inf]
    >>> print(_toml_value("a\\nb"))
    \"\"\"
    a
    b\"\"\"
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    if not isinstance(value, str):
        return repr(value)
    lines = [_escaped(line) for line in value.split("\n")]
    return '"""\n' + "\n".join(lines) + '"""' if len(lines) > 1 else f'"{lines[0]}"'


def _escaped(line: str) -> str:
    """Return a line with special characters escaped. TOML has the escapes of JSON, and
    needs one for the delete character as well."""
    return json.dumps(line, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f")


# The settings as arguments of `dd.fit` and `dd.fit_many`


def places(settings: FitSettings) -> dict[str, Any]:
    """Return the settings that say where in a file the data are, as arguments."""
    return {
        "time": settings.time,
        "columns": settings.columns,
        "where": settings.where,
        "sheet": settings.sheet,
        "start": settings.time_zero,
    }


def read_data(
    settings: FitSettings, model: "dd.Equation | dd.Problem"
) -> "tuple[dd.Data | list[dd.Experiment], dict[str, Any]]":
    """Read the files of measurements: one data set, or the experiments of a study. For
    one data set, return also the inputs and doses beside it, and the known values of
    parameters, as arguments of `dd.fit`."""
    further = (settings.values, settings.inputs, settings.doses)
    if not settings.is_study and not any(further):
        return dd.read_csv(settings.paths[0], **places(settings)), {}
    experiments = dd.read_study(
        settings.paths,
        group=settings.group,
        values=settings.values or (),
        inputs=settings.inputs,
        input_kind=settings.input_kind or "linear",
        doses=doses_of(settings.doses, model),
        **places(settings),
    )
    if settings.is_study:
        return experiments, {}
    (only,) = experiments
    known = {name: dd.Fixed(value) for name, value in (only.values or {}).items()}
    given = {"inputs": only.inputs, "doses": only.doses, "parameters": known}
    return only.data, {name: each for name, each in given.items() if each}


def records_of(data: "dd.Data | list[dd.Experiment]") -> "list[dd.Data]":
    """Return the data set, or those of the experiments."""
    return [data] if isinstance(data, dd.Data) else [each.data for each in data]


def doses_of(
    doses: str | dict[str, str] | None, model: "dd.Equation | dd.Problem"
) -> str | dict[str, str] | None:
    """Return the places of doses. A single state receives all of them."""
    if not isinstance(doses, str) or isinstance(model, dd.Problem):
        return doses
    return {model.states[0]: doses} if len(model.states) == 1 else doses


def fit_arguments(
    settings: FitSettings, model: "dd.Equation | dd.Problem"
) -> dict[str, Any]:
    """Return the settings as arguments, without model and data."""
    passed = {
        option.keyword: value
        for name, option in SETTINGS.items()
        if option.is_passed and (value := getattr(settings, name)) is not None
    }
    return {
        **passed,
        "noise": noise_models(settings.noise),
        "networks": networks_of(settings.network),
        "parameters": _parameters(settings, model),
        "optimizer": _method(settings),
        "solver": _solver(settings),
    }


def _method(settings: FitSettings) -> Any:
    """Return the argument `optimizer`."""
    if settings.method is None and settings.starts is None:
        return None
    is_shooting = settings.method == MULTIPLE_SHOOTING
    method = dd.MultipleShooting if is_shooting else dd.LeastSquares
    return method() if settings.starts is None else method(starts=settings.starts)


def _solver(settings: FitSettings) -> Any:
    """Return the argument `solver`."""
    if settings.solver in (None, "auto"):
        return "auto"
    # The words of solvers are the names of their classes in small letters.
    names = {name.lower(): name for name in dir(dd)}
    solver = getattr(dd, names[settings.solver])
    return solver() if settings.rtol is None else solver(rtol=settings.rtol)


def _parameters(
    settings: FitSettings, model: "dd.Equation | dd.Problem"
) -> dict[str, Any]:
    """Return the argument `parameters`: what is known of each."""
    bounds, priors = dict(settings.bounds), settings.prior
    for name in _positive(settings, model):
        lower, upper = bounds.get(name, GivenRange())
        bounds[name] = GivenRange(max(lower, 0.0), upper)
    parameters: dict[str, Any] = {k: dd.Fixed(v) for k, v in settings.set.items()}
    differing = dict.fromkeys(settings.per_experiment or ())
    for name in {**settings.start, **bounds, **priors, **differing}:
        lower, upper = bounds.get(name, (None, None))
        prior = None
        if name in priors:
            kind, *numbers = read_prior(priors[name])
            prior = (dd.GaussianPrior if kind == "normal" else dd.LogNormalPrior)(
                *numbers
            )
        parameters[name] = dd.Parameter(
            settings.start.get(name),
            lower,
            upper,
            prior,
            per_experiment=True if name in differing else None,
        )
    return parameters


def _positive(settings: FitSettings, model: "dd.Equation | dd.Problem") -> list[str]:
    """Return the parameters that are positive by `--positive`."""
    from .model_file import names_in_equation

    names: list[str] = list(settings.positive or ())
    if ALL not in names:
        return names
    names.remove(ALL)
    known = {*names, *settings.set}
    return names + [name for name in names_in_equation(model) if name not in known]


def noise_models(option: str | Mapping[str, str] | None) -> Any:
    """Return the argument `noise`: a model, or models by quantity. Numbers in brackets
    after a kind, as in `lognormal(1.2)`, are known."""
    if option is None:
        return None
    if isinstance(option, str):
        return _noise_model(option)
    return {name: _noise_model(text) for name, text in option.items()}


def _noise_model(text: str) -> Any:
    from ..noise._read_noise import WORDS

    match = _KIND.fullmatch(text)
    word = match[1].lower().replace("_", "-").replace(" ", "-") if match else text
    if match is None or word not in WORDS:
        raise OptionError(
            f"`--noise` needs a kind, but got {quoted(text)}."
            f"{did_you_mean(word, WORDS)} Kinds are {', '.join(WORDS)}; one with a "
            "known number is written as lognormal(1.2), and one for a single quantity "
            "as hare=poisson."
        )
    kind = WORDS[word]
    if match[2] is None:
        return kind()
    numbers = [parse_number(part) for part in match[2].split(",")]
    if None in numbers or len(numbers) > len(kind.names):
        wanted = ", ".join(kind.names) or "no number"
        raise OptionError(
            f"`--noise`: {word} has {wanted} in brackets, but got {quoted(text)}."
        )
    try:
        return kind(*numbers)
    except (TypeError, ValueError) as error:
        raise OptionError(f"`--noise {text}`: {error}") from None


def networks_of(option: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the argument `networks`."""
    return {name: _network(name, text) for name, text in option.items()} or None


def _network(network: str, text: str) -> Any:
    """Return the network that a text describes."""
    arguments: dict[str, Any] = {}
    whole = text
    if bounds := _BOUNDS.search(text):
        numbers = tuple(map(parse_number, bounds.groups()))
        if None in numbers:
            raise OptionError(
                f"`--network` has bounds of two numbers, as bounds=0,1, but got "
                f"{quoted(bounds[0])}."
            )
        arguments["bounds"] = numbers
        text = _BOUNDS.sub(" ", text)
    for word in re.sub(r"\s*=\s*", "=", text).replace(",", " ").split():
        name, equals, value = word.partition("=")
        name = name.lower().replace("_", "-")
        if name in _SIZES and equals and value.isdigit():
            arguments[name] = int(value)
        elif name in _FLAGS and not equals:
            arguments[name.replace("-", "_")] = True
        else:
            known = (*_SIZES, *_FLAGS, "bounds")
            raise OptionError(
                f"`--network` has no word {quoted(word)}.{did_you_mean(name, known)}"
                ' Write width=32, depth=2 or bounds=0,1, and "positive", "increasing", '
                '"decreasing" or "through-zero".'
            )
    try:
        return dd.Network(**arguments)
    except ValueError as error:
        raise OptionError(f'`--network "{network}: {whole}"`: {error}') from None
