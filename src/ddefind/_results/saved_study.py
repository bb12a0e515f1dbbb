"""What is saved of a study beside what every fit has, and how it is read again.

The data of all experiments stand one after the other. `parameters` are those of one
experiment, with the values of the first; `free` are the joint ones."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.data import Data
from .._data.study_data import StudyData
from .._least_squares.prior_equations import Priors
from .._least_squares.setup import FitSetup
from .._least_squares.study_setup import joined_setup
from .._problem.joint_parameters import joint_parameters
from .._problem.parameters import parameter_vector
from .._problem.problem import Problem
from .._util.errors import ResultError
from .describe_problem import describe
from .saved_setup import fields_of, setup_of

if TYPE_CHECKING:
    from .estimate import Estimate


def study_content(fit: "Estimate") -> dict[str, Any] | None:
    """The experiments of a study; None for a fit of one data set."""
    joint, data = fit.setup.joint, fit.data
    if joint is None:
        return None
    models = fit.models or (None,) * len(fit.problems)
    local = fit.setup.parts[0].model.free
    return {
        "names": local.names,
        "own": joint.is_own,
        "place": joint.place,
        "known": joint.known,
        "experiments": [
            {
                "label": label,
                "count": len(part),
                "origin": part.origin,
                "notes": part.notes,
                "axis_labels": part.axis_labels,
                "values": parameter_vector(problem),
                "problem": describe(problem, model),
            }
            for label, part, problem, model in zip(
                data.labels, data.parts, fit.problems, models
            )
        ],
    }


def data_content(data: StudyData) -> dict[str, Any]:
    """The data of all experiments, one after the other."""
    first = data.parts[0]
    return {
        "t": data.t,
        "x": data.x,
        "sd": data.sd,
        "names": data.names,
        "label": None,
        "origin": 0.0,
        "notes": (),
        "axis_labels": first.axis_labels,
        "below": data.below,
    }


def saved_data(content: dict[str, Any]) -> StudyData:
    """The data of the experiments."""
    saved, study = content["data"], content["study"]
    counts = [each["count"] for each in study["experiments"]]
    if sum(counts) != len(saved["t"]):
        raise ResultError("The numbers of values of its experiments are wrong.")
    ends = np.cumsum(counts)[:-1]

    def cut(name: str) -> list[Any]:
        array = saved[name]
        return [None] * len(counts) if array is None else np.split(array, ends)

    parts = [
        Data(
            t,
            x,
            sd=sd,
            names=saved["names"],
            label=each["label"],
            origin=each["origin"],
            notes=each["notes"],
            axis_labels=each["axis_labels"],
            below=below,
        )
        for t, x, sd, below, each in zip(
            *map(cut, ("t", "x", "sd", "below")), study["experiments"]
        )
    ]
    return StudyData(tuple(parts), tuple(part.label or "" for part in parts))


def study_setup(content: dict[str, Any], problems: tuple[Problem, ...]) -> FitSetup:
    """The setup of a saved study."""
    study, saved, data = content["study"], content["free"], saved_data(content)
    place, known = study["place"], study["known"]
    setups = []
    for e, (problem, part) in enumerate(zip(problems, data.parts)):
        own = {
            name: _local(saved[name], place[e], known[e])
            for name in ("lower", "upper", "guess")
        }
        own |= {
            name: _local(saved[name], place[e], False)
            for name in ("given", "history", "frequencies")
        }
        free = {**saved, **own, "names": study["names"], "priors": None}
        setups.append(setup_of({**content, "free": free}, problem, part))
    local = setups[0].model.free
    values = [
        {int(j): float(c[j]) for j in np.flatnonzero(p < 0)}
        for p, c in zip(place, known)
    ]
    joint = joint_parameters(local, data.labels, study["own"].tolist(), values)
    if not np.array_equal(joint.place, place) or list(joint.free.names) != list(
        saved["names"]
    ):
        raise ResultError("Its joint parameters are not numbered as they are named.")
    setup = joined_setup(setups, problems, joint, data)
    priors = saved["priors"]
    model = replace(setup.model, priors=None if priors is None else Priors(*priors))
    return replace(setup, model=model, **fields_of(saved))


def _local(array: np.ndarray, place: np.ndarray, known: Any) -> np.ndarray:
    """What an array of joint values holds for those of one experiment."""
    return np.where(place >= 0, array[..., place], known)
