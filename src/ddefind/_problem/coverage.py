"""Whether inputs are known at all times at which they are read.

An input that is read at the time t must be known from 0 to T. If it is read at t - tau,
it must be known from -tau on, for every value that tau may have.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .._util import wording
from .._util.arrays import is_traced
from .delays import delay_names
from .general_delays import typical_delays
from .inputs import AbstractInput, is_input
from .known_times import Reads, input_reads
from .problem import Problem


def check_inputs_known(problem: Problem, T: float) -> None:
    """Raise an error unless the inputs of a problem, whose values are known, cover its
    solution up to the time `T`."""
    if is_traced(problem) or not any_inputs(problem):
        return
    longest = np.asarray(typical_delays(problem.tau, problem.start))
    check_covered(problem, T, longest, longest)


def any_inputs(problem: Problem) -> bool:
    """Whether a problem has inputs."""
    return any(map(is_input, jax.tree.leaves(problem, is_leaf=is_input)))


def check_covered(
    problem: Problem,
    T: float,
    shortest: Sequence[float] | np.ndarray,
    longest: Sequence[float] | np.ndarray,
    advice: Sequence[str] | None = None,
) -> None:
    """Raise an error unless all inputs are known where they are read up to the time
    `T`, if each delay is between its `shortest` and its `longest` value. `advice` says
    for each delay what helps, beside more values."""
    names = delay_names(problem.tau)
    for name, each, reads in _named_inputs(problem):
        if reads.direct and (lacking := each.lacking(0.0, T)):
            raise ValueError(
                f"The input {name!r} is not known {lacking}, but it is needed from 0 "
                f"to {T:.6g}. Give its values at these times, or "
                f"{wording.EARLIER_END}."
            )
        for q in reads.delays:
            early, late = -float(longest[q]), T - float(shortest[q])
            if np.isnan(early):
                continue
            if not np.isfinite(early):
                raise ValueError(_no_limit(name, names[q]))
            if lacking := each.lacking(early, late):
                # A shorter delay helps only if some delay is covered.
                is_covered = float(each.knots[0]) < -float(shortest[q])
                more = f", or {advice[q]}" if advice and is_covered else ""
                raise ValueError(
                    f"The input {name!r} is not known {lacking}. It is read at t - "
                    f"{names[q]}, with {names[q]} up to {-early:.6g}, and so it is "
                    f"needed from {early:.6g} to {late:.6g}. Give its values at these "
                    f"times{more}."
                )


def earliest_known(problem: Problem, q: int) -> float | None:
    """How long delay `q` can be so that all inputs that are read through it are known;
    None if there is no such limit."""
    limits = [
        -float(each.knots[0])
        for _, each, reads in _named_inputs(problem)
        if q in reads.delays and not each.covers(-1e300, 0.0)
    ]
    return min(limits, default=None)


def _no_limit(name: str, delay: str) -> str:
    return (
        f"The input {name!r} is read at t - {delay}, and {delay} has no upper bound: "
        f"give it one {wording.BOUNDS}, so that it is known which times are needed."
    )


def _named_inputs(problem: Problem) -> list[tuple[str, AbstractInput, Reads]]:
    """The inputs of a problem with their names, and how they are read."""
    paths = jax.tree_util.tree_flatten_with_path(problem, is_leaf=is_input)[0]
    reads, found = iter(input_reads(problem)), []
    for path, leaf in paths:
        if is_input(leaf):
            is_in_rhs = getattr(path[0], "name", None) == "rhs"
            how = next(reads) if is_in_rhs else Reads(True, ())
            found.append((_last_name(path), leaf, how))
    return found


def _last_name(path: tuple[Any, ...]) -> str:
    key = path[-1]
    return str(getattr(key, "name", getattr(key, "key", key)))
