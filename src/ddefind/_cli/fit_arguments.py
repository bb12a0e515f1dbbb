"""Data and settings of a fit, as arguments of `dd.fit` and `dd.fit_many`."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import ddefind as dd

from .._fitting.fit_options import SETTINGS
from .._util.errors import did_you_mean, quoted
from .fit_settings import ALL, MULTIPLE_SHOOTING, FitSettings
from .parse_options import GivenRange, OptionError, parse_number, read_prior

# A kind of noise, perhaps with its numbers in brackets.
_KIND = re.compile(r"\s*([A-Za-z_ -]+?)\s*(?:\(([^()]*)\))?\s*")
# The words that describe a network.
_SIZES = "width", "depth"
_FLAGS = "positive", "increasing", "decreasing", "through-zero"
_BOUNDS = re.compile(
    r"\bbounds\s*=\s*[\[(]?\s*([^\s,\])]+)\s*,\s*([^\s,\])]+)\s*[\])]?"
)


class FitData(NamedTuple):
    """The data of a fit, or a list of experiments; and, for data, the inputs and doses
    as arguments of `dd.fit`, and known values of parameters."""

    data: "dd.Data | list[dd.Experiment]"
    options: dict[str, Any]
    values: dict[str, float]

    def __str__(self) -> str:
        return "\n".join(map(str, self._records))

    @property
    def _records(self) -> "list[dd.Data]":
        if isinstance(self.data, list):
            return [each.data for each in self.data]
        return [self.data]

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences on how the data were read."""
        return tuple(note for each in self._records for note in each.notes)


def read_data(settings: FitSettings, model: "dd.Equation | dd.Problem") -> FitData:
    """Read the files of measurements, with the inputs and doses beside them."""
    places: dict[str, Any] = {
        "time": settings.time,
        "columns": settings.columns,
        "where": settings.where,
        "sheet": settings.sheet,
        "start": settings.time_zero,
    }
    further = (settings.values, settings.inputs, settings.doses)
    if not settings.is_study and not any(further):
        return FitData(dd.read_csv(settings.paths[0], **places), {}, {})
    experiments = dd.read_study(
        settings.paths,
        group=settings.group,
        values=settings.values or (),
        inputs=settings.inputs,
        input_kind=settings.input_kind or "linear",
        doses=doses_of(settings.doses, model),
        **places,
    )
    if settings.is_study:
        return FitData(experiments, {}, {})
    (only,) = experiments
    given = {"inputs": only.inputs, "doses": only.doses}
    options = {name: each for name, each in given.items() if each}
    return FitData(only.data, options, dict(only.values or {}))


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
    if settings.solver == "rk4":
        return dd.RK4()
    solver = dd.Tsit5 if settings.solver == "tsit5" else dd.Radau
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
