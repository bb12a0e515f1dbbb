"""The experiments of a study, and data as a fit needs them: with the quantities of the
model, and with times that begin where the history ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from .._data.data import Data
from .._data.study_data import Experiment, StudyData, study_data
from .._equation.equation import Equation
from .._problem.driving import with_same_tables
from .._problem.history import Smooth
from .._problem.problem import Problem
from .._util import wording
from .._util.errors import DataError, check_instance, quoted, shown


def labels_of(experiments: Sequence[Experiment]) -> tuple[str, ...]:
    """Return the labels of the experiments of a study, or their numbers."""
    labels = tuple(
        str(number) if each.label is None else each.label
        for number, each in enumerate(experiments, start=1)
    )
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(
                f"Two experiments have the label {quoted(label)}. Give each a label of "
                "its own: `dd.Experiment(data, label='low')`."
            )
    return labels


# Data that begin after more lengths of the record than this are far from time zero.
_FAR = 20.0


def matched_data(problem: Problem, equation: Equation | None, data: Data) -> Data:
    """Return the data with a column for each quantity that an equation observes.

    Times are counted from the first one if they begin later than one length of the
    record, and the equation is the same at all times: the history is meant to end where
    the data begin. If the equation depends on time, data that begin far from zero are
    refused."""
    check_instance("data", data, Data, "Data(t, x)")
    if equation is not None:
        _check_names(equation, data)
        data = data.select(equation.observed)
    first, length = float(data.t[0]), float(data.T - data.t[0])
    if len(data) < 2 or first <= length:
        return data
    if problem.is_autonomous:
        return data.from_first_time()
    if first > _FAR * length:
        raise ValueError(
            f"The first measurement is at t = {first:.6g}, but the history ends at "
            "time 0: the equation would have to be solved over "
            f"{first / length:.0f} lengths of the record before there is anything to "
            f"compare. {wording.later_time_zero(f'{first:.15g}')}, and write "
            f"t + {first:.15g} for t in the equation."
        )
    return data


def _check_names(equation: Equation, data: Data) -> None:
    """Refuse a single column that has the name of a state but would be taken for
    another quantity, which is computed from the states."""
    (name, *others), observed = data.names, equation.observed
    is_renamed = not others and len(observed) == 1 and name not in observed
    if not (is_renamed and data.has_given_names and name in equation.states):
        return
    raise DataError(
        f"Column {quoted(name)} has the name of a state, but the model observes "
        f"{quoted(observed[0])}. Name the column {quoted(observed[0])} if it holds "
        "that, and transform its values first if it does not."
    )


@final
@dataclass(frozen=True)
class Study:
    """The experiments of a study, ready to be fitted: a problem for each, their data,
    the parameters that are known in each and, if the model is a text, the equation with
    the inputs and doses of each."""

    problems: tuple[Problem, ...]
    data: StudyData
    values: tuple[Mapping[str, Any], ...]
    models: tuple[Equation, ...] = ()


def read_experiments(data: Any) -> list[Experiment] | None:
    """Return the experiments of a study; None if `data` is one data set, or no list.

    A list of data sets is refused: it may stand for two things."""
    if isinstance(data, Experiment):
        return [data]
    if isinstance(data, Data) or not isinstance(data, Sequence | dict):
        return None
    given = list(data)
    has_any = any(isinstance(each, Data | Experiment) for each in given)
    if isinstance(data, dict) or not has_any:
        raise TypeError(
            "`data` must be a `Data`, or a list of `Experiment`s, but got "
            f"{shown(data)}."
        )
    if all(isinstance(each, Data) for each in given):
        raise TypeError(
            "`data` is a list of data sets. To fit them together, as one study with "
            "shared parameters, make experiments of them: `dd.fit(model, "
            "[dd.Experiment(each) for each in data])`. To fit each by itself, call "
            "`dd.fit_many(model, data)`."
        )
    for each in given:
        if not isinstance(each, Experiment):
            raise TypeError(
                "`data` must be a `Data`, or a list of `Experiment`s, but one of its "
                f"items is {shown(each)}."
            )
    return given


def make_study(
    experiments: Sequence[Experiment],
    problems: Sequence[Problem],
    models: Sequence[Equation | None],
) -> Study:
    """Return the study of several experiments, each with its problem and, if the model
    is a text, its equation."""
    labels, parts = labels_of(experiments), []
    for each, problem, model in zip(experiments, problems, models):
        if isinstance(problem.history, Smooth):
            raise ValueError(
                f"{wording.history('spline')} is for one data set. Choose another "
                "history for a study, such as `affine`."
            )
        parts.append(matched_data(problem, model, each.data))
    for part, label in zip(parts, labels):
        if part.names != parts[0].names:
            raise ValueError(
                f"The quantities of {label!r} are {', '.join(part.names)}, those of "
                f"{labels[0]!r} are {', '.join(parts[0].names)}. Give all experiments "
                "the same columns, with NaN for what was not measured."
            )
    values = tuple(dict(each.values or {}) for each in experiments)
    data = study_data(parts, labels)
    alike = tuple(with_same_tables(problems, data.T))
    return Study(alike, data, values, tuple(model for model in models if model))
