"""`compare`: several fits of the same data, best first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from .._data.data import Data
from .._search.misfit import Criteria
from .._util.shown import AbstractShown, Cells, Shown
from .estimate import Estimate


@final
@dataclass(frozen=True)
class Comparison(AbstractShown):
    """Fits of the same data, ordered by BIC, best first. With enough data BIC prefers
    the true model also to a larger one that contains it."""

    labels: tuple[str, ...]
    criteria: tuple[Criteria, ...]

    @property
    def best(self) -> str:
        """The label of the best fit."""
        return self.labels[0]

    @property
    def differences(self) -> np.ndarray:
        """The BIC of each fit less that of the best."""
        return np.array([each.bic - self.criteria[0].bic for each in self.criteria])

    @property
    def weights(self) -> np.ndarray:
        """The weights exp(-BIC / 2), normalised: about the probability of each model,
        if one of them is true and all were equally likely beforehand."""
        share = np.exp(-0.5 * self.differences)
        return share / share.sum()

    def cells(self) -> Cells:
        """Return the table, with the numbers of each fit behind it."""
        values = [
            {
                "fit": label,
                "parameters": each.parameters,
                "log_likelihood": each.log_likelihood,
                "aic": each.aic,
                "aicc": each.aicc,
                "bic": each.bic,
                "bic_difference": difference,
                "weight": weight,
            }
            for label, each, difference, weight in zip(
                self.labels, self.criteria, self.differences, self.weights
            )
        ]
        rows = []
        for label, k, *numbers, weight in (each.values() for each in values):
            texts = [f"{number:.2f}" for number in numbers]
            rows.append((label, f"{k:.3g}", *texts, f"{weight:.3f}"))
        header = "model", "k", "log L", "AIC", "AICc", "BIC", "BIC - best", "weight"
        return Cells(header, rows, values)

    def shown(self) -> Shown:
        """Return the table."""
        return Shown([self.cells()])


def compare(fits: Mapping[str, Estimate] | Iterable[Estimate]) -> Comparison:
    """Compare least-squares fits of the same data: a table, best first.

    Likelihoods can be compared if they are densities of the same values. Fits of
    different data are refused, and so are fits of which only one knows the noise, or
    with another `sd`. Noise models may differ: all likelihoods are those of the data as
    they are.

    **Arguments**

    - `fits`: a mapping from labels to fits, or a list of fits, which are then labelled
      by their equations.

    >>> import numpy as np
    >>> import ddefind as dd
    >>> t = np.linspace(0, 5, 40)
    >>> noise = 0.05 * np.random.default_rng(0).normal(size=40)
    >>> data = dd.Data(t, np.exp(-t) + noise)
    >>> fits = {text: dd.fit(dd.equation(text), data, intervals=False)
    ...         for text in ("x' = -r * x", "x' = -r")}
    >>> dd.compare(fits).best
    "x' = -r * x"
    """
    if isinstance(fits, Mapping):
        named: dict[str, Any] = {str(label): fit for label, fit in fits.items()}
    else:
        named = _labelled(list(fits))
    if len(named) < 2:
        raise ValueError(f"Give at least two fits to compare, not {len(named)}.")
    for label, fit in named.items():
        if not isinstance(fit, Estimate):
            raise TypeError(
                f"{label!r} is no least-squares fit, but {type(fit).__name__}: there "
                "is no likelihood to compare."
            )
    first, *others = named.items()
    for other in others:
        _check_comparable(first, other)
    order = sorted(named, key=lambda label: named[label].criteria.bic)
    return Comparison(tuple(order), tuple(named[label].criteria for label in order))


def _labelled(fits: list[Any]) -> dict[str, Any]:
    """Label fits by their equations, with a number behind those that occur twice."""
    labels = [_label(fit) for fit in fits]
    repeated = {label for label in labels if labels.count(label) > 1}
    return {
        f"{label} ({position})" if label in repeated else label: fit
        for position, (label, fit) in enumerate(zip(labels, fits), start=1)
    }


def _label(fit: Any) -> str:
    words = fit.setup.misfit.title(fit.setup)
    noise = f", {words} noise" if words else ""
    model = getattr(fit, "model", None)
    if model is not None:
        return "; ".join(str(model).splitlines()) + noise
    rhs = getattr(getattr(fit, "problem", None), "rhs", fit)
    return getattr(rhs, "__name__", type(rhs).__name__) + noise


def _check_comparable(one: tuple[str, Estimate], other: tuple[str, Estimate]) -> None:
    """Refuse two fits unless their likelihoods are densities of the same values."""
    (label, fit), (other_label, other_fit) = one, other
    both = f"{label!r} and {other_label!r}"
    end = "Their likelihoods cannot be compared."
    values, others = _measured(fit.data), _measured(other_fit.data)
    if not _are_equal(values, others):
        raise ValueError(
            f"{both} are fits of different data: {_difference(values, others)}. {end}"
        )
    sd, other_sd = fit.data.sd, other_fit.data.sd
    if (sd is None) != (other_sd is None):
        known, unknown = (other_label, label) if sd is None else (label, other_label)
        raise ValueError(
            f"{both} are fits of different densities: {known!r} knows the noise "
            f"(`sd`), and {unknown!r} estimates it. {end}"
        )
    if not _are_equal(_measured(fit.data, sd), _measured(other_fit.data, other_sd)):
        raise ValueError(
            f"{both} are fits of different densities: their data have a different "
            f"`sd`. {end}"
        )


def _difference(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> str:
    """Say how the measured values differ."""
    if one.keys() != other.keys():
        return f"of {', '.join(one)}, and of {', '.join(other)}"
    name = next(n for n in one if not np.array_equal(one[n], other[n]))
    counts = one[name].shape[1], other[name].shape[1]
    if counts[0] != counts[1]:
        return f"of {counts[0]} values of {name}, and of {counts[1]}"
    return f"{name} has other times or values"


def _are_equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) for name in one
    )


def _measured(data: Data, sd: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Return, for each measured quantity, its times and values, whether these are below
    a limit, and its standard deviations if they are given; without missing values."""
    measured = {}
    below = np.zeros(data.x.shape, bool) if data.below is None else data.below
    for column, name in enumerate(data.names):
        here = np.isfinite(data.x[:, column])
        rows = [data.t, data.x[:, column], below[:, column]]
        rows += [] if sd is None else [sd[:, column]]
        if here.any():
            measured[name] = np.stack([row[here] for row in rows])
    return measured
