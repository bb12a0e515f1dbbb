"""`compare`: several fits of the same data, best first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from .._data.data import Data
from .._inference.information_criteria import Criteria
from .._util.text_table import html_table, table_lines
from .estimate import Estimate


@final
@dataclass(frozen=True)
class Comparison:
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

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        rows += [("model", "k", "log L", "AIC", "AICc", "BIC", "BIC - best", "weight")]
        for label, each, difference, weight in zip(
            self.labels, self.criteria, self.differences, self.weights
        ):
            columns = (each.log_likelihood, each.aic, each.aicc, each.bic, difference)
            cells = [f"{value:.2f}" for value in columns]
            rows.append((label, f"{each.parameters:.3g}", *cells, f"{weight:.3f}"))
        return rows

    def __str__(self) -> str:
        return "\n".join(table_lines(self._rows()))

    def _repr_html_(self) -> str:
        return html_table(self._rows())


def compare(fits: Mapping[str, Estimate] | Iterable[Estimate]) -> Comparison:
    """Compare least-squares fits of the same data: a table, best first.

    **Arguments**

    - `fits`: a mapping from labels to fits, or a list of fits, which are then labelled
      by their equations.

    >>> import numpy as np
    >>> import ddefind as dd
    >>> t = np.linspace(0, 5, 40)
    >>> noise = 0.05 * np.random.default_rng(0).normal(size=40)
    >>> data = dd.Data(t, np.exp(-t) + noise)
    >>> fits = {text: dd.fit(dd.equation(text), data) for text in ("x' = -r * x",
    ...         "x' = -r")}
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
    for label, fit in others:
        if not _is_same_data(first[1].data, fit.data):
            raise ValueError(
                f"{first[0]!r} and {label!r} are fits of different data: their "
                "likelihoods cannot be compared."
            )
    order = sorted(named, key=lambda label: named[label].criteria.bic)
    return Comparison(tuple(order), tuple(named[label].criteria for label in order))


def _labelled(fits: list[Any]) -> dict[str, Any]:
    """The fits by their equations, with a number behind those that occur twice."""
    labels = [_label(fit) for fit in fits]
    repeated = {label for label in labels if labels.count(label) > 1}
    return {
        f"{label} ({position})" if label in repeated else label: fit
        for position, (label, fit) in enumerate(zip(labels, fits), start=1)
    }


def _label(fit: Any) -> str:
    model = getattr(fit, "model", None)
    if model is not None:
        return "; ".join(str(model).splitlines())
    rhs = getattr(getattr(fit, "problem", None), "rhs", fit)
    return getattr(rhs, "__name__", type(rhs).__name__)


def _is_same_data(one: Data, other: Data) -> bool:
    """Whether both hold the same measured values; missing ones do not count."""
    columns, others = _measured(one), _measured(other)
    return columns.keys() == others.keys() and all(
        np.array_equal(columns[name], others[name], equal_nan=True) for name in columns
    )


def _measured(data: Data) -> dict[str, np.ndarray]:
    """For each quantity that was measured, its times, values and standard
    deviations."""
    sd = np.full_like(data.x, np.nan) if data.sd is None else data.sd
    measured = {}
    for column, name in enumerate(data.names):
        here = np.isfinite(data.x[:, column])
        if here.any():
            rows = (data.t, data.x[:, column], sd[:, column])
            measured[name] = np.stack([row[here] for row in rows])
    return measured
