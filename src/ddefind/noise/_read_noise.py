"""Read a user's choice of noise: a noise model for each quantity."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import noise as models_of_noise
from .._util.errors import did_you_mean, shown
from ._abstract import AbstractNoise
from ._gaussian import Gaussian, Given

# The public noise models by their words.
_public = (getattr(models_of_noise, name) for name in dir(models_of_noise))
WORDS: dict[str, type[AbstractNoise]] = {
    cls.word: cls for cls in _public if cls is not AbstractNoise
}


def read_noise(noise: Any, names: Sequence[str]) -> dict[str, AbstractNoise]:
    """Return the noise model of each of the quantities `names`: Gaussian noise whose
    standard deviation is learned, for quantities that a dict does not name.

    >>> models = read_noise({"hare": "poisson"}, ["hare", "lynx"])
    >>> [str(model) for model in models.values()]
    ['Poisson', 'Gaussian']
    """
    if not isinstance(noise, Mapping):
        return {name: _model(noise, "") for name in names}
    for name in noise:
        if name not in names:
            raise ValueError(
                f"`noise` names {shown(name)}, but the data have "
                f"{', '.join(names)}.{did_you_mean(str(name), names)}"
            )
    return {
        name: _model(noise[name], f"[{name!r}]") if name in noise else Gaussian()
        for name in names
    }


def _model(noise: Any, place: str) -> AbstractNoise:
    if isinstance(noise, AbstractNoise):
        return noise
    if isinstance(noise, type) and issubclass(noise, AbstractNoise):
        raise TypeError(
            f"`noise{place}` is the class `{noise.__name__}`. Call it: "
            f"`dd.noise.{noise.__name__}()`."
        )
    if not isinstance(noise, str):
        raise TypeError(
            f"`noise{place}` must be one of {', '.join(map(repr, WORDS))}, a model "
            f"as `dd.noise.LogNormal()`, or a dict of them by quantity, but got "
            f"{shown(noise)}."
        )
    word = noise.strip().lower().replace("_", "-").replace(" ", "-")
    if word not in WORDS:
        raise ValueError(
            f"There is no noise {noise!r}.{did_you_mean(noise, WORDS)} Choose one of "
            f"{', '.join(WORDS)}."
        )
    return WORDS[word]()


def with_given(
    models: Mapping[str, AbstractNoise],
    names: Sequence[str],
    x: np.ndarray,
    sd: np.ndarray | None,
    is_below: np.ndarray,
) -> dict[str, AbstractNoise]:
    """Return the noise models of the quantities that were measured, checked against the
    values x [N, k]. Gaussian noise to be learned takes the standard deviations `sd` of
    the data where they are given."""
    result = {}
    for column, name in enumerate(names):
        here = np.isfinite(x[:, column])
        if not here.any():
            continue
        model = models[name]
        if sd is not None and np.isfinite(sd[here, column]).all():
            is_plain = isinstance(model, Gaussian) and np.isnan(model.sd)
            if not is_plain and not isinstance(model, Given):
                raise ValueError(
                    f"The data have standard deviations of `{name}`, but {model.title} "
                    "noise has a size of its own. Leave out one of them."
                )
            model = Given()
        model.check(name, x[here, column], is_below[here, column])
        result[name] = model
    return result
