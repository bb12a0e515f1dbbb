"""The option `--noise`: a kind of noise, or one for each quantity."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .._util.errors import did_you_mean, quoted
from .parse_options import OptionError, parse_number

_KIND = re.compile(r"\s*([A-Za-z_ -]+?)\s*(?:\(([^()]*)\))?\s*")


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


def simulated_noise(
    option: str | Mapping[str, str] | None, names: Sequence[str] | None
) -> Any:
    """Return the noise of simulated data: a share of the standard deviation of each
    quantity, or the noise model of each of the quantities `names`, whose numbers must
    be known."""
    share = 0.0 if option is None else None
    if isinstance(option, str):
        share = parse_number(option)
    if share is not None:
        return share
    from ..noise._read_noise import read_noise

    names = names or ("x",)
    given = noise_models(option)
    if isinstance(given, dict) and set(given) != set(names):
        lacking = [name for name in names if name not in given]
        if lacking:
            raise OptionError(
                f"`--noise` gives none for {', '.join(lacking)}. Give one for each "
                "quantity, or one for all."
            )
    models = read_noise(given, names)
    for model in models.values():
        unknown = [n for n in model.names if math.isnan(float(getattr(model, n)))]
        if unknown:
            raise OptionError(
                f"`--noise {model.word}` needs {' and '.join(unknown)} in brackets, as "
                f'"{model.word}({", ".join(["1.2"] * len(model.names))})".'
            )
    return [models[name] for name in names]
