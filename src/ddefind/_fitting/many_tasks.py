"""The tasks of `fit_many`: a problem, a data set and start values for each fit."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from .._data.data import Data
from .._data.stack import DataStack
from .._equation.equation import Equation
from .._problem.network import networks_in
from .._problem.problem import Problem
from .given_parts import with_given
from .matched_data import matched_data
from .noise_of_data import with_noise_of
from .one_data_set import depends_on_data
from .read_model import Model, equation_of_model, problem_of_model, with_settings_of
from .request import FitOptions, FitTasks
from .scaled_networks import scaled_together

# The arguments of `fit_many`: one for all fits, or one for each.
Problems: TypeAlias = Model | Sequence[Problem]
DataSets: TypeAlias = Data | Sequence[Data]
Starts: TypeAlias = int | Sequence[Mapping[str, float]] | None


def make_tasks(
    problem: Problems, data: DataSets, starts: Starts, given: FitOptions
) -> tuple[FitTasks, FitOptions]:
    """The tasks, and the options with what an equation knows of its parameters."""
    problems, sets, own_starts = _given_once_or_for_each(problem, data, starts)
    problems = [with_given(each, given) for each in problems]
    first = problems[0]
    if isinstance(first, Equation) and (kind := depends_on_data(first, given)):
        raise ValueError(
            f'`history="{kind}"` depends on the data, but `fit_many` fits one model to '
            "all of them. Call `dd.fit` for each data set, or choose a history."
        )
    _check_one_equation(problems)
    equation = equation_of_model(first, given)
    models = [problem_of_model(each, sets[0], given) for each in problems]
    matched = _matched(models, equation, sets)
    is_plain = given.noise is None and all(model.noise is None for model in models)
    if not (is_plain and isinstance(matched, DataStack)):
        pairs = _pairs(models, matched)
        noisy = [with_noise_of(m, each, given.noise) for m, each in pairs]
        if any(new is not old for new, (old, _) in zip(noisy, pairs)):
            models = noisy
    if not all(network.has_scales for network in networks_in(models[0])):
        models = scaled_together(*map(list, zip(*_pairs(models, matched))))
    given = with_settings_of(equation, matched[0], given)
    return FitTasks(models, matched, own_starts, given.seed, equation), given


def _pairs(models: Sequence[Problem], sets: Sequence[Data]) -> list:
    """A model and a data set for each of the fits in which they differ."""
    count = max(len(models), len(sets))
    return [
        (models[i if len(models) > 1 else 0], sets[i if len(sets) > 1 else 0])
        for i in range(count)
    ]


def _matched(
    models: Sequence[Problem], equation: Equation | None, sets: Sequence[Data]
) -> Sequence[Data]:
    """The data as the fits need them (see `matched_data.py`)."""
    if not isinstance(sets, DataStack):
        return [matched_data(model, equation, d) for model, d in _pairs(models, sets)]
    first = matched_data(models[0], equation, sets[0])
    if equation is not None:
        sets = _selected(sets, first.names)
    begin = sets.t[:, 0]
    is_late = begin > sets.T - begin
    if not is_late.any():
        return sets
    if not models[0].is_autonomous:
        for index in np.flatnonzero(is_late):
            matched_data(models[0], None, sets[int(index)])
        return sets
    moved = sets.t - np.where(is_late, begin, 0.0)[:, None]
    return sets.with_arrays(moved, sets.x, sets.sd)


def _selected(stack: DataStack, names: tuple[str, ...]) -> DataStack:
    """The stack with these quantities, which `Data.select` has accepted."""
    if len(names) == len(stack.names) and set(names).isdisjoint(stack.names):
        order = list(range(len(names)))
    else:
        order = [stack.names.index(n) if n in stack.names else -1 for n in names]
    if order == list(range(len(stack.names))):
        changes: dict[str, Any] = {"names": names, "has_given_names": True}
        return stack.with_arrays(stack.t, stack.x, stack.sd, **changes)

    def picked(array: np.ndarray) -> np.ndarray:
        wide = np.concatenate([array, np.full_like(array[..., :1], np.nan)], axis=2)
        return wide[..., order]

    return stack.with_arrays(
        stack.t,
        picked(stack.x),
        None if stack.sd is None else picked(stack.sd),
        names=names,
        has_given_names=True,
    )


def _given_once_or_for_each(
    problem: Problems, data: DataSets, starts: Starts
) -> tuple[list[Any], Sequence[Any], Sequence[Mapping[str, float]]]:
    """Problems, data sets and starts: one of each kind, or one for each fit."""
    if isinstance(problem, Problem | Equation | str) or callable(problem):
        problems: list[Any] = [problem]
    else:
        problems = list(problem)
    if isinstance(data, DataStack):
        sets: Sequence[Any] = data
    else:
        sets = [data] if isinstance(data, Data) else list(data)
    for name, items in {"problem": problems, "data": sets}.items():
        if not len(items):
            raise ValueError(f"`{name}` is empty: there is nothing to fit.")
    own: Sequence[Mapping[str, float]]
    if isinstance(starts, bool) or (isinstance(starts, int) and starts < 1):
        raise ValueError(
            "`starts` must be a number of fits from 1 on, or start values by name for "
            f"each fit, but got {starts!r}."
        )
    if starts is None or isinstance(starts, int):
        own, count = [{}], starts or 1
    else:
        own, count = list(starts), len(starts)
    sizes = {"problem": len(problems), "data": len(sets), "starts": count}
    fits = max(sizes.values())
    for name, size in sizes.items():
        if size < 1 or size not in (1, fits):
            shown = ", ".join(f"{n}: {s}" for n, s in sizes.items())
            raise ValueError(
                f"Give one or {fits} for `{name}`, as for the others ({shown})."
            )
    return problems, sets, own * fits if count > 1 and len(own) == 1 else own


def _check_one_equation(problems: Sequence[Any]) -> None:
    """Refuse text equations that differ."""
    texts = {id(each): str(each) for each in problems if isinstance(each, Equation)}
    if len(set(texts.values())) > 1 or 0 < len(texts) < len({*map(id, problems)}):
        raise ValueError(
            "`problem` has different equations. Fit one of them at a time: `fit_many` "
            "fits one equation to many data sets."
        )
