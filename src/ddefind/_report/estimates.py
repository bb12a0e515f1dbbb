"""The table of estimates, and how they hang together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._problem.network_weights import named_indices
from .blocks import Block, Matrix, Section, Table, Text

if TYPE_CHECKING:
    from .._results.estimate import Estimate
    from .._results.result import AbstractFit

# With more parameters than this the matrix of correlations cannot be read.
_MOST_NAMES = 30
# Correlations above this are named.
_STRONG = 0.9


def correlations(fit: "Estimate") -> Section | None:
    """The section on correlations; None if there are no two parameters with a standard
    error."""
    errors = np.array(list(fit.standard_errors.values()))
    has_error = np.isfinite(errors) & (errors > 0)
    kept = [j for j in named_indices(len(fit.names), fit.networks) if has_error[j]]
    if len(kept) < 2:
        return None
    values = fit.covariance[np.ix_(kept, kept)] / np.outer(errors[kept], errors[kept])
    names = [fit.names[j] for j in kept]
    blocks: list[Block] = [Text(_about(names, values))]
    if len(kept) <= _MOST_NAMES:
        blocks.append(Matrix(names, values))
    return Section("correlations", "How the estimates hang together", blocks)


def _about(names: Sequence[str], values: np.ndarray) -> str:
    """Which pairs are strongly correlated, and what that means."""
    above = np.triu(np.abs(values), 1)
    pairs = np.argwhere(above > _STRONG)
    pairs = sorted(map(tuple, pairs), key=lambda pair: -above[pair])
    meaning = (
        "The correlation of two estimates says how an error of one would be made up "
        "for by the other."
    )
    if not pairs:
        i, j = divmod(int(np.argmax(above)), len(names))
        return (
            f"{meaning} None is above {_STRONG} in size; the strongest is that of "
            f"`{names[i]}` and `{names[j]}`, {values[i, j]:.2f}."
        )
    named = [
        f"`{names[i]}` and `{names[j]}` ({values[i, j]:.3f})" for i, j in pairs[:5]
    ]
    more = f", and {len(pairs) - 5} further pairs" if len(pairs) > 5 else ""
    return (
        f"{meaning} Strongly correlated are {', '.join(named)}{more}: the data "
        "determine a combination of them better than each."
    )


def estimates(fit: "AbstractFit") -> list[Block]:
    """The table as it is printed, with the verdict on each parameter in words, and the
    sentences below it."""
    table = fit.cells()
    header, rows = table.header, table.rows
    if table.values and "verdict" in table.values[0]:
        header = (*header[:-1], "what the data say")
        rows = [
            (*row[:-1], values["verdict"]) for row, values in zip(rows, table.values)
        ]
    doubts = fit.doubts()
    said = [Text(sentence, sentence in doubts) for sentence in fit.sentences()]
    return [*_judgement(fit), Table([header, *rows], (0, 4)), *said]


def _judgement(fit: "AbstractFit") -> list[Block]:
    """Whether the tests of the residuals contradict the model."""
    if not getattr(fit, "checks", ()):
        return []
    estimate: Any = fit
    count = len(estimate.failed_checks)
    if count:
        which = "One test" if count == 1 else f"{count} tests"
        verb = "contradicts" if count == 1 else "contradict"
        about = f"{which} of the residuals {verb} this model with this noise."
        return [
            Text(f"{about} What is said below holds only as far as it is right.", True)
        ]
    return [Text("No test of the residuals contradicts this model.")]
