"""The kinds of history that an equation can be given by name."""

from typing import Any

from .._problem.history import KINDS, Constant, NeuralHistory
from .._problem.network import Network
from .._problem.parameters import finite_numbers
from .._util import wording
from .._util.errors import did_you_mean
from .model_lines import ModelLines
from .parser import EquationError

# Kinds that a fit replaces by a history that it chooses.
CHOSEN_BY_FIT = ("auto", "data")


def read_history(history: Any, lines: ModelLines) -> Any:
    """Return the argument `history` as it is kept in an `Equation`."""
    in_text = lines.of("history")
    if in_text and history is not None:
        raise EquationError(
            f"The text has a history already ({in_text[0]}): leave out "
            f"{wording.HISTORY}, or {wording.REPLACE_HISTORY}."
        )
    if history is None:
        return None if in_text else "constant"
    known = [*KINDS, *CHOSEN_BY_FIT]
    if isinstance(history, str) and history not in known:
        raise ValueError(
            f"There is no history {history!r}.{did_you_mean(history, known)}"
        )
    if isinstance(history, Network):
        return NeuralHistory.of(history, len(lines.states))
    if isinstance(history, str) or callable(history):
        return history
    return tuple(finite_numbers("history", history, len(lines.states)).tolist())


def blank_history(history: Any, d: int) -> Any:
    """Return the history of d states that the argument means, NaN where unknown."""
    if isinstance(history, tuple):
        return Constant(history)
    if isinstance(history, Network):
        return NeuralHistory.of(history, d)
    if not isinstance(history, str):
        return history
    if history in CHOSEN_BY_FIT:
        raise ValueError(
            f"With {wording.history(history)} the history comes from data, and "
            f"{wording.FIT} chooses it: until then the parameters have no names or "
            "values. For a problem without data give another history, as "
            f"{wording.with_history('affine')}."
        )
    return KINDS[history].blank(d)
