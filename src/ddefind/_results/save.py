"""What a saved fit holds; and `setup_of`, which makes the setup of its search again.

Of a study, the data of all experiments stand one after the other. `parameters` are
those of one experiment, with the values of the first; `free` are the joint ones."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.data import Data
from .._data.study_data import Records, StudyData
from .._engine.adaptive.methods import AbstractAdaptive
from .._engine.runge_kutta import AbstractSolver
from .._inference.profile import Profile
from .._problem.delays import DelayRole
from .._problem.free_parameters import FreeParameters, ParameterArray, joint_parameters
from .._problem.general_delays import is_general
from .._problem.parameters import parameter_arrays, parameter_vector
from .._problem.problem import Problem
from .._search.batches import SearchResult
from .._search.levenberg_marquardt import Priors
from .._search.make_setup import (
    has_single_delay,
    joined_setup,
    mesh_plan,
    shortest_delay,
)
from .._search.noise_setup import make_likelihood
from .._search.normal_equations import LeastSquaresModel, MeshPlan
from .._search.setup import FitSetup
from .._util.errors import ResultError
from .._util.files import nonfinite_as_words
from .._util.machine import cores
from .describe_problem import (
    describe,
    described_noise,
    is_known_solver,
    scales_of,
    solver_named,
    tolerances,
)

if TYPE_CHECKING:
    from .._inference.assessment import Assessment
    from .estimate import Estimate
    from .result import AbstractFit, FitResult


# The fields of data, as `Data` takes them.
_DATA = "t", "x", "sd", "names", "label", "origin", "notes", "axis_labels", "below"


def setup_of(content: dict[str, Any], problem: Problem, data: Data) -> FitSetup:
    """Make the setup of a saved fit by least squares."""
    saved, options = content["free"], content["options"]
    present = parameter_arrays(problem)
    roles: dict[str, DelayRole | None] = {array.name: array.role for array in present}
    free = _free_parameters(content["parameters"], tuple(saved["names"]), roles)
    learned, fixed = free.split(problem)
    priors = saved["priors"]
    solver = solver_named(content["solver"], content["tolerances"])
    model = LeastSquaresModel(
        free=free,
        learned=learned,
        fixed=fixed,
        solver=solver,
        priors=None if priors is None else Priors(*priors),
        dimension=problem.dimension,
        mesh=_mesh(content, problem, free, data, solver),
        likelihood=make_likelihood(problem, data, free),
    )
    return FitSetup(
        model=model,
        data=data,
        steps_per_delay=options["steps_per_delay"],
        workers=cores(),
        **fields_of(saved),
    )


def fields_of(saved: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a setup about its free values: bounds, starts and kinds."""
    return {
        "lower": saved["lower"],
        "upper": saved["upper"],
        "guess": saved["guess"],
        "is_history": saved["history"],
        "is_frequency": saved["frequencies"],
        "is_given": saved["given"],
    }


def _mesh(
    content: dict[str, Any],
    problem: Problem,
    free: FreeParameters,
    data: Data,
    solver: AbstractSolver | AbstractAdaptive,
) -> MeshPlan | None:
    """Return the mesh on which the problem was solved; None if it was on another grid,
    or with adaptive steps."""
    name, has_mesh = content["solver"], content["options"]["mesh"]
    if isinstance(solver, AbstractAdaptive):
        if has_mesh:
            raise ResultError(f"`options.mesh` is true, but {name} has no mesh.")
        return None
    if is_general(problem.tau):
        raise ResultError(
            f"`solver` is {name}, which solves problems whose delays are numbers, but "
            "the problem has others."
        )
    if has_mesh:
        shortest = shortest_delay(problem, free, content["free"]["lower"])
        return mesh_plan(problem, data, solver, shortest)
    if not has_single_delay(problem):
        raise ResultError(
            "`options.mesh` is false, but the problem has several delays or switches."
        )
    return None


def _free_parameters(
    saved: list[dict[str, Any]],
    names: tuple[str, ...],
    roles: Mapping[str, DelayRole | None],
) -> FreeParameters:
    arrays, source, like = [], [], []
    for array in saved:
        shape, role = tuple(array["shape"].tolist()), roles[array["name"]]
        arrays.append(
            ParameterArray(array["name"], array["short"], shape, len(source), role)
        )
        source += array["free"].tolist()
        like += array["like"].tolist()
    if set(source) - {-1} != set(range(len(names))):
        raise ResultError("Its free parameters are not numbered as they are named.")
    if not all(0 <= element < len(source) for element in like):
        raise ResultError("A parameter is tied to one that is not there.")
    ends = (-np.inf,) * len(names), (np.inf,) * len(names)
    return FreeParameters(tuple(arrays), names, tuple(source), tuple(like), *ends)


def study_content(fit: "Estimate") -> dict[str, Any] | None:
    """Describe the experiments of a study; None for a fit of one data set."""
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


def saved_data(content: dict[str, Any]) -> StudyData:
    """Make the data of the experiments."""
    saved, study = content["data"], content["study"]
    counts = [each["count"] for each in study["experiments"]]
    if sum(counts) != len(saved["t"]):
        raise ResultError("The numbers of values of its experiments are wrong.")
    ends = np.cumsum(counts)[:-1]

    def cut(name: str) -> list[Any]:
        array = saved[name]
        return [None] * len(counts) if array is None else np.split(array, ends)

    names, texts = saved["names"], ("label", "origin", "notes", "axis_labels")
    arrays = zip(*map(cut, ("t", "x", "sd", "below")))
    parts = [
        Data(t, x, sd=sd, names=names, below=below, **{key: each[key] for key in texts})
        for (t, x, sd, below), each in zip(arrays, study["experiments"])
    ]
    return StudyData(tuple(parts), tuple(part.label or "" for part in parts))


def study_setup(content: dict[str, Any], problems: tuple[Problem, ...]) -> FitSetup:
    """Make the setup of a saved study."""
    study, saved, data = content["study"], content["free"], saved_data(content)
    place, known = study["place"], study["known"]
    setups = []
    for e, (problem, part) in enumerate(zip(problems, data.parts)):
        part_free = {
            name: _local(saved[name], place[e], known[e])
            for name in ("lower", "upper", "guess")
        }
        part_free |= {
            name: _local(saved[name], place[e], False)
            for name in ("given", "history", "frequencies")
        }
        free = {**saved, **part_free, "names": study["names"], "priors": None}
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
    """Return the part of an array of joint values that belongs to one experiment."""
    return np.where(place >= 0, array[..., place], known)


def estimate_content(fit: "Estimate") -> dict[str, Any]:
    """Describe a least-squares fit, with its intervals if it has them."""
    setup, free = fit.setup, fit.setup.parts[0].model.free
    arrays = [
        {
            **_array(array, parameter_vector(fit.problem)),
            "free": free.source[array.first : array.first + array.size],
            "like": free.like[array.first : array.first + array.size],
        }
        for array in free.arrays
    ]
    assessment, profiles = fit.assessment, None
    if assessment is not None:
        profiles = [_profile(each) for each in assessment.profiles]
    content = {
        **_common("estimate", fit),
        "parameters": arrays,
        "noise": fit.noise,
        "noise_models": described_noise(fit.problem),
        "options": {
            "starts": fit.starts,
            "seed": fit.seed,
            "steps_per_delay": setup.steps_per_delay,
            "mesh": setup.model.mesh is not None,
        },
        "free": _free(setup),
        "histories": fit.histories,
        "search": _search(fit.search_result),
        "profiles": profiles,
        "assessment": None if assessment is None else _assessment(assessment),
        "process": None if fit.process is None else dict(vars(fit.process)),
        "study": study_content(fit),
    }
    return nonfinite_as_words(content)


def _free(setup: FitSetup) -> dict[str, Any]:
    priors = setup.model.priors
    return {
        "names": setup.model.free.names,
        "lower": setup.lower,
        "upper": setup.upper,
        "given": setup.is_given,
        "guess": setup.guess,
        "history": setup.is_history,
        "frequencies": setup.is_frequency,
        "priors": None if priors is None else list(map(np.asarray, priors)),
    }


def _search(result: SearchResult) -> dict[str, Any]:
    best = result.best
    return {
        "best": {
            "theta": best.theta[0],
            "gram": best.gram[0],
            "squares": best.squares[0],
            "evaluations": best.evaluations[0],
            "status": best.status[0],
            "n": best.n[0],
            "rounding": best.rounding[0],
            "starts": best.starts[0],
        },
        "weights": result.points.weights,
        "noise": result.noise,
        "minima": [[m.theta, m.loss, m.starts] for m in result.minima],
        "starts": result.starts,
        "evaluations": result.evaluations,
        "step_error": result.step_error,
        "interrupted": result.interrupted,
    }


def _profile(profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "estimate": profile.estimate,
        "quantile": profile.quantile,
        "interval": profile.interval,
        "reached": profile.reached,
        "values": profile.values,
        "r": profile.r,
        "theta": profile.theta,
        "breakdown": profile.breakdown,
    }


def _assessment(assessment: "Assessment") -> dict[str, Any]:
    return {
        "verdicts": [
            [verdict.verdict, verdict.pattern, verdict.note]
            for verdict in assessment.verdicts
        ],
        "ties": assessment.ties,
        "fitted": assessment.fitted,
        "checks": [
            [check.test, check.quantity, check.statistic, check.p]
            for check in assessment.checks
        ],
        "other_history": assessment.other_history,
        "level": assessment.level,
        "explained": assessment.explained,
    }


def descent_content(fit: "FitResult") -> dict[str, Any]:
    """Describe a fit by gradient descent, with its path."""
    vector = parameter_vector(fit.problem)
    content = {
        **_common("descent", fit),
        "parameters": [_array(a, vector) for a in parameter_arrays(fit.problem)],
        "start": parameter_vector(fit.start),
        "free": {
            "names": fit.names,
            "first": fit.first,
            "best": fit.best,
            "final": fit.final,
        },
        "losses": fit.losses,
        "path": fit.path,
        "epochs": fit.epochs,
    }
    return nonfinite_as_words(content)


def _common(kind: str, fit: "AbstractFit") -> dict[str, Any]:
    described = describe(fit.problem, fit.model)
    return {
        "kind": kind,
        "problem": described if is_known_solver(fit.solver) else None,
        "text": str(fit),
        "status": fit.status.name,
        "message": fit.message,
        "loss": fit.loss,
        "seconds": fit.seconds,
        "solver": type(fit.solver).__name__,
        "tolerances": tolerances(fit.solver),
        "steps_per_delay": fit.steps_per_delay,
        "data": data_fields(fit.data),
        "table": fit.summary(),
        "networks": scales_of(fit.problem),
    }


def _array(array: ParameterArray, vector: np.ndarray) -> dict[str, Any]:
    """Describe an array of parameters, with its elements of the vector of all."""
    return {
        "name": array.name,
        "short": array.short,
        "shape": array.shape,
        "values": vector[array.first : array.first + array.size],
    }


def data_fields(data: Records) -> dict[str, Any]:
    """Return the fields of data; of a study those that hold for all experiments."""
    fixed: dict[str, Any] = {}
    if isinstance(data, StudyData):
        fixed = {"label": None, "origin": 0.0, "notes": ()}
        fixed["axis_labels"] = data.parts[0].axis_labels
    return {key: fixed[key] if key in fixed else getattr(data, key) for key in _DATA}
