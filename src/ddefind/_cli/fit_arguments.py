"""The settings of a fit as arguments of `ddefind.fit` and `ddefind.fit_many`."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._fitting.fit_options import SETTINGS
from .._util.errors import did_you_mean, quoted
from .fit_settings import ALL, MULTIPLE_SHOOTING, FitSettings
from .parse_options import Bounds, OptionError, parse_number, read_prior

if TYPE_CHECKING:
    from .._equation.equation import Equation
    from .._problem.problem import Problem


# A kind of noise, perhaps with its numbers in brackets.
_KIND = re.compile(r"\s*([A-Za-z_ -]+?)\s*(?:\(([^()]*)\))?\s*")
# What is said of a network.
_SIZES = "width", "depth"
_FLAGS = "positive", "increasing", "decreasing", "through-zero"
_BOUNDS = re.compile(
    r"\bbounds\s*=\s*[\[(]?\s*([^\s,\])]+)\s*,\s*([^\s,\])]+)\s*[\])]?"
)


def fit_arguments(settings: FitSettings, model: "Equation | Problem") -> dict[str, Any]:
    """Return the arguments, without model and data."""
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
    """Return the method, as the argument `optimizer` of `ddefind.fit`."""
    import ddefind as dd

    if settings.method is None and settings.starts is None:
        return None
    starts: dict[str, Any] = (
        {} if settings.starts is None else {"starts": settings.starts}
    )
    if settings.method == MULTIPLE_SHOOTING:
        return dd.MultipleShooting(**starts)
    return dd.LeastSquares(**starts)


def _solver(settings: FitSettings) -> Any:
    """Return the solver, as the argument of `ddefind.fit`."""
    import ddefind as dd

    if settings.solver in (None, "auto"):
        return "auto"
    if settings.solver == "rk4":
        return dd.RK4()
    solver = dd.Tsit5 if settings.solver == "tsit5" else dd.Radau
    return solver() if settings.rtol is None else solver(rtol=settings.rtol)


def _parameters(settings: FitSettings, model: "Equation | Problem") -> dict[str, Any]:
    """Return what is known of each parameter, as the argument of `ddefind.fit`."""
    import ddefind as dd

    bounds, priors = dict(settings.bounds), settings.prior
    for name in _positive(settings, model):
        lower, upper = bounds.get(name, Bounds())
        bounds[name] = Bounds(max(lower, 0.0), upper)
    parameters: dict[str, Any] = {k: dd.Fixed(v) for k, v in settings.set.items()}
    own = dict.fromkeys(settings.per_experiment or ())
    for name in {**settings.start, **bounds, **priors, **own}:
        lower, upper = bounds.get(name, (None, None))
        prior = _prior(priors[name]) if name in priors else None
        parameters[name] = dd.Parameter(
            settings.start.get(name),
            lower,
            upper,
            prior,
            per_experiment=True if name in own else None,
        )
    return parameters


def _positive(settings: FitSettings, model: "Equation | Problem") -> list[str]:
    """Return the parameters that are positive by `--positive`."""
    from .model_file import names_in_equation

    names: list[str] = list(settings.positive or ())
    if ALL not in names:
        return names
    names.remove(ALL)
    known = {*names, *settings.set}
    return names + [name for name in names_in_equation(model) if name not in known]


def _prior(text: str) -> Any:
    """Return a prior, as `ddefind.fit` takes it."""
    import ddefind as dd

    kind, center, spread = read_prior(text)
    distribution = dd.Gaussian if kind == "normal" else dd.LogNormal
    return distribution(center, spread)


def noise_models(option: str | Mapping[str, str] | None) -> Any:
    """Return the noise as the argument of `ddefind.fit`: a model, or models by
    quantity. A kind may have numbers in brackets, as `lognormal(1.2)`, which are then
    known."""
    if option is None or isinstance(option, str):
        return None if option is None else _noise_model(option)
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
    """Return the networks as the argument of `ddefind.fit`."""
    return {name: _network(name, text) for name, text in option.items()} or None


def _network(network: str, text: str) -> Any:
    """Return the network of this name that words describe."""
    import ddefind as dd

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
                f"`--network` does not know {quoted(word)}.{did_you_mean(name, known)}"
                ' Write width=32, depth=2 or bounds=0,1, and "positive", "increasing", '
                '"decreasing" or "through-zero".'
            )
    try:
        return dd.Network(**arguments)
    except ValueError as error:
        raise OptionError(f'`--network "{network}: {whole}"`: {error}') from None
