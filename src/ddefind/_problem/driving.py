"""Problems with inputs and doses: equal tables, and inputs that are known long enough.

The problems of several experiments have the same equations, but inputs with different
numbers of knots, and different doses. `with_same_tables` gives all of them the same
structure: the last knot of an input is repeated, which changes nothing, and doses are
added that are never given.

`check_covered`: an input that is read at the time t must be known from 0 to T. If it is
read at t - tau, it must be known from -tau on, for every value that tau may have.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._util import wording
from .._util.arrays import is_traced
from .delays import delay_names
from .doses import Doses, Event, Quantity
from .general_delays import Reads, input_reads, typical_delays
from .inputs import AbstractInput, Input, is_input
from .problem import Problem, with_parts


def with_same_tables(problems: Sequence[Problem], T: float) -> list[Problem]:
    """Return the problems with equal structures, if no record is longer than `T`."""
    doses = _same_doses([problem.doses for problem in problems], problems[0], T)
    return _same_inputs([with_parts(p, doses=d) for p, d in zip(problems, doses)])


def _same_inputs(problems: list[Problem]) -> list[Problem]:
    leaves = [jax.tree.leaves(problem, is_leaf=is_input) for problem in problems]
    structure = jax.tree.structure(problems[0], is_leaf=is_input)
    sizes = []
    for each in zip(*leaves):
        tables = [leaf for leaf in each if isinstance(leaf, Input)]
        sizes.append(max((len(leaf.t) for leaf in tables), default=0))
        kinds = {leaf.kind for leaf in tables}
        if tables and (len(tables) < len(each) or len(kinds) > 1):
            raise ValueError(
                "An input has one kind in all experiments of a study, but here it is "
                f"{', '.join(sorted(kinds))} or a formula. Give tables of one kind."
            )
    padded = [
        [
            leaf.padded(size) if isinstance(leaf, Input) else leaf
            for leaf, size in zip(row, sizes)
        ]
        for row in leaves
    ]
    return [jax.tree.unflatten(structure, row) for row in padded]


def _same_doses(
    doses: Sequence[Doses | None], problem: Problem, T: float
) -> list[Doses | None]:
    if all(each is None for each in doses):
        return list(doses)
    has_initial, dimension = problem.initial is not None, problem.dimension
    empty = Doses({}, (), dimension, has_initial)
    known = [empty if each is None else each for each in doses]
    names = dict.fromkeys(name for each in known for name in each.values)
    tables = [_by_key(each) for each in known]
    examples: dict[Any, Event] = {}
    for table in tables:
        for key, event in table.items():
            size = len(event.times.numbers)
            if key not in examples or size > len(examples[key].times.numbers):
                examples[key] = event
    result = []
    for each, table in zip(known, tables):
        events = [
            _padded(table.get(key), example, never=1000.0 * T)
            for key, example in examples.items()
        ]
        values = {name: each.values.get(name, jnp.asarray(np.nan)) for name in names}
        result.append(Doses(values, tuple(events), dimension, has_initial, True))
    return result


def _by_key(doses: Doses) -> dict[Any, Event]:
    """Return the events by everything that experiments must share, and a number."""
    found: dict[Any, Event] = {}
    for event in doses.events:
        duration = None if event.duration is None else (event.duration.name,)
        key = event.state, event.times.name, event.amounts.name, duration, event.is_set
        number = sum(known[:-1] == key for known in found)
        found[(*key, number)] = event
    return found


def _padded(event: Event | None, example: Event, never: float) -> Event:
    """Return the event with as many times as the `example`; the added ones never
    come."""
    size = len(example.times.numbers)
    count = 0 if event is None else len(event.times.numbers)
    fill = (0, size - count)

    def numbers(name: str, constant: float) -> Any:
        quantity = getattr(example, name)
        if quantity is None:
            return None
        given = np.zeros(0) if event is None else getattr(event, name).numbers
        return Quantity(np.pad(given, fill, constant_values=constant), quantity.name)

    times, amounts = numbers("times", never), numbers("amounts", 0.0)
    # The length of an infusion that is never given must not be zero.
    is_named = example.duration is not None and example.duration.name is not None
    duration = numbers("duration", 0.0 if is_named else 1.0)
    return Event(example.state, times, amounts, duration, example.is_set)


def check_inputs_known(problem: Problem, T: float) -> None:
    """Raise an error unless the inputs of a problem are known up to the time `T`."""
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
    `T`, if each delay is between its `shortest` and its `longest` value. `advice` has
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
                raise ValueError(
                    f"The input {name!r} is read at t - {names[q]}, and {names[q]} has "
                    f"no upper bound: give it one {wording.BOUNDS}, so that it is "
                    "known which times are needed."
                )
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
    """Return the longest delay `q` with which all inputs that are read through it are
    known, or None if there is no such limit."""
    limits = [
        -float(each.knots[0])
        for _, each, reads in _named_inputs(problem)
        if q in reads.delays and not each.covers(-1e300, 0.0)
    ]
    return min(limits, default=None)


def _named_inputs(problem: Problem) -> list[tuple[str, AbstractInput, Reads]]:
    """Return the inputs of a problem with their names, and how they are read."""
    paths = jax.tree_util.tree_flatten_with_path(problem, is_leaf=is_input)[0]
    reads, found = iter(input_reads(problem)), []
    for path, leaf in paths:
        if is_input(leaf):
            is_in_rhs = getattr(path[0], "name", None) == "rhs"
            how = next(reads) if is_in_rhs else Reads(True, ())
            key: Any = path[-1]
            name = str(getattr(key, "name", getattr(key, "key", key)))
            found.append((name, leaf, how))
    return found
