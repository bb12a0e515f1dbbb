"""A study as `fit` gets it: several experiments, and one problem for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from .._data.data import Data
from .._data.study_data import StudyData, study_data
from .._equation.equation import Equation
from .._problem.history import Smooth
from .._problem.problem import Problem
from .._problem.same_tables import with_same_tables
from .._util import wording
from .._util.errors import shown
from .experiment import Experiment, labels_of
from .matched_data import matched_data


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
    """The experiments of a study; None if `data` is one data set, or no list. A list of
    data sets is refused: it may stand for two things."""
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
    """The study of several experiments, each with its problem and, if it is a text, its
    equation."""
    labels, parts = labels_of(experiments), []
    for each, problem, model in zip(experiments, problems, models):
        if isinstance(problem.history, Smooth):
            raise ValueError(
                f"{wording.history('spline')} is for one data set. Choose another "
                "history for a study, such as `affine`."
            )
        parts.append(matched_data(problem, model, each.data))
    _check_quantities(parts, labels)
    values = tuple(dict(each.values or {}) for each in experiments)
    data = study_data(parts, labels)
    alike = tuple(with_same_tables(problems, data.T))
    return Study(alike, data, values, tuple(model for model in models if model))


def _check_quantities(parts: Sequence[Data], labels: Sequence[str]) -> None:
    """Refuse experiments with different quantities, where no equation names them."""
    for part, label in zip(parts, labels):
        if part.names != parts[0].names:
            raise ValueError(
                f"The quantities of {label!r} are {', '.join(part.names)}, those of "
                f"{labels[0]!r} are {', '.join(parts[0].names)}. Give all experiments "
                "the same columns, with NaN for what was not measured."
            )
