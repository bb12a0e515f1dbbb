"""The setup of a study: several experiments that are fitted together."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._adaptive.methods import AbstractAdaptive
from .._data.study_data import StudyData
from .._problem.free_parameters import FreeParameters
from .._problem.joint_parameters import (
    JointParameters,
    is_own_by_default,
    joint_parameters,
)
from .._problem.parameters import Fixed, Parameter, find
from .._problem.problem import Problem
from .._solve.runge_kutta import AbstractSolver
from .._util import wording
from .experiments import Experiments, stack
from .make_setup import make_setup, mesh_plan
from .noise_setup import joint_likelihood, noise_count
from .normal_equations import MeshPlan
from .prior_equations import Priors
from .setup import FitSetup


def make_study_setup(
    problems: Sequence[Problem],
    data: StudyData,
    parameters: Mapping[str, Any] | None,
    values: Sequence[Mapping[str, Any]],
    solver: AbstractSolver | AbstractAdaptive,
    steps_per_delay: int,
    seed: int = 0,
    workers: int | None = None,
) -> tuple[FitSetup, tuple[Problem, ...]]:
    """The setup of a study, and the problems with the fixed parameters filled in.

    `problems` are those of the experiments, and `values` the parameters that are known
    in each, by name. A name in `parameters` stands for the parameter in all
    experiments, or with a label for that of one: `b@low`."""
    settings = _local_settings(dict(parameters or {}), data.labels)
    everywhere = [
        name for name in values[0] if all(name in each for each in values[1:])
    ]
    made = []
    for problem, own, part, known in zip(problems, settings, data.parts, values):
        fixed = {name: Fixed(known[name]) for name in everywhere}
        made.append(
            make_setup(
                problem,
                part,
                {**own, **fixed},
                solver,
                steps_per_delay,
                seed,
                workers,
            )
        )
    setups, filled = zip(*made)
    local = setups[0].model.free
    known = [
        _known_values(local, each, everywhere, label)
        for each, label in zip(values, data.labels)
    ]
    is_own = _is_own(local, settings[0])
    _check_labelled(local, parameters or {}, is_own)
    joint = joint_parameters(local, data.labels, is_own, known)
    return joined_setup(setups, filled, joint, data), filled


def _local_settings(
    settings: dict[str, Any], labels: Sequence[str]
) -> list[dict[str, Any]]:
    """The settings for each experiment, with those that name its label."""
    common = {key: each for key, each in settings.items() if "@" not in str(key)}
    own: list[dict[str, Any]] = [dict(common) for _ in labels]
    for key, setting in settings.items():
        if key in common:
            continue
        name, _, label = key.rpartition("@")
        if label not in labels:
            raise ValueError(
                f"{wording.setting(key)}: there is no experiment {label!r}. The "
                f"experiments are {', '.join(labels)}."
            )
        if not isinstance(setting, Parameter | int | float):
            raise ValueError(
                f"{wording.setting(key)} must be a Parameter or a number to start "
                "from. A value that is known in one experiment is one of the `values` "
                "of this `dd.Experiment`."
            )
        own[labels.index(label)][name] = setting
    return own


def _known_values(
    local: FreeParameters,
    values: Mapping[str, Any],
    everywhere: Sequence[str],
    label: str,
) -> dict[int, float]:
    """The free values that are known in one experiment but not in all, by number."""
    known = {}
    for name, value in values.items():
        if name in everywhere:
            continue
        for element in find(name, list(local.arrays)):
            source = local.source[element]
            if source < 0:
                raise ValueError(
                    f"The experiment {label!r} gives the value of `{name}`, which is "
                    "fixed. Leave it out of `values`, or do not fix it."
                )
            known[source] = float(value)
    return known


def _is_own(local: FreeParameters, settings: Mapping[str, Any]) -> list[bool]:
    """For each free value, whether every experiment has its own."""
    is_own = [is_own_by_default(path) for path in local.paths]
    for key, setting in settings.items():
        said = setting.per_experiment if isinstance(setting, Parameter) else None
        if said is None:
            continue
        for element in find(key, list(local.arrays)):
            if local.source[element] >= 0:
                is_own[local.source[element]] = bool(said)
    return is_own


def _check_labelled(
    local: FreeParameters, parameters: Mapping[str, Any], is_own: Sequence[bool]
) -> None:
    """Refuse a setting for one experiment of a parameter that all of them share."""
    for key in parameters:
        name, at, _ = str(key).rpartition("@")
        for element in find(name, list(local.arrays)) if at else ():
            source = local.source[element]
            if source >= 0 and not is_own[source]:
                raise ValueError(
                    f"{wording.setting(key)}: all experiments share `{name}`. Give "
                    f"each its own by {wording.per_experiment(name)}."
                )


def joined_setup(
    setups: Sequence[FitSetup],
    problems: Sequence[Problem],
    joint: JointParameters,
    data: StudyData,
) -> FitSetup:
    """The setup of the study, from those of its experiments. Where default bounds of a
    shared value differ between experiments, the widest ones count."""
    p, first = len(joint.free.names), setups[0]
    lower, upper = np.full(p, np.inf), np.full(p, -np.inf)
    guess = np.full(p, np.nan)
    is_history, is_frequency = np.zeros(p, bool), np.zeros(p, bool)
    is_given = np.zeros((2, p), bool)
    for setup, place in zip(setups, joint.place):
        local = np.flatnonzero(place >= 0)
        j = place[local]
        lower[j] = np.minimum(lower[j], setup.lower[local])
        upper[j] = np.maximum(upper[j], setup.upper[local])
        guess[j] = np.where(np.isnan(guess[j]), setup.guess[local], guess[j])
        is_history[j], is_frequency[j] = (
            setup.is_history[local],
            setup.is_frequency[local],
        )
        is_given[:, j] = setup.is_given[:, local]
    experiments = Experiments(
        first.model.free,
        stack([setup.model.learned for setup in setups]),
        stack([setup.model.fixed for setup in setups]),
        joint.selection,
        joint.known,
        data.rows,
        np.array([part.T for part in data.parts]),
    )
    model = replace(
        first.model,
        free=joint.free,
        priors=_joint_priors([setup.model.priors for setup in setups], joint),
        mesh=_joint_mesh(setups, problems, data),
        likelihood=joint_likelihood(
            [setup.model.likelihood for setup in setups],
            data,
            p - noise_count(joint.free),
        ),
        experiments=experiments,
    )
    return replace(
        first,
        model=model,
        data=data,
        lower=lower,
        upper=upper,
        guess=guess,
        is_history=is_history,
        is_frequency=is_frequency,
        is_given=is_given,
        joint=joint,
    )


def _joint_priors(
    priors: Sequence[Priors | None], joint: JointParameters
) -> Priors | None:
    """The priors of the joint values."""
    p = len(joint.free.names)
    mean, weight, log = np.zeros(p), np.zeros(p), np.zeros(p, bool)
    for prior, place in zip(priors, joint.place):
        if prior is None:
            continue
        local = np.flatnonzero(place >= 0)
        j = place[local]
        mean[j], weight[j], log[j] = (np.asarray(each)[local] for each in prior)
    return Priors(mean, weight, log) if np.any(weight > 0) else None


def _joint_mesh(
    setups: Sequence[FitSetup], problems: Sequence[Problem], data: StudyData
) -> MeshPlan | None:
    """How all experiments are solved on a mesh, if one of them is; their records have a
    first axis over them."""
    plans = [setup.model.mesh for setup in setups]
    if all(plan is None for plan in plans):
        return None
    solver = setups[0].model.solver
    assert isinstance(solver, AbstractSolver)
    plans = [
        mesh_plan(problem, part, solver, 0.0) if plan is None else plan
        for plan, problem, part in zip(plans, problems, data.parts)
    ]
    return MeshPlan(
        plans[0].points,
        np.array([part.T for part in data.parts]),
        any(plan.overlaps for plan in plans),
    )
