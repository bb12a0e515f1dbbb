"""The setup of a saved fit by least squares, from what its file holds."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._adaptive.methods import AbstractAdaptive
from .._data.data import Data
from .._least_squares.make_setup import has_single_delay, mesh_plan, shortest_delay
from .._least_squares.noise_setup import make_likelihood
from .._least_squares.normal_equations import LeastSquaresModel, MeshPlan
from .._least_squares.prior_equations import Priors
from .._least_squares.setup import FitSetup
from .._problem.delays import DelayRole
from .._problem.free_parameters import FreeParameters, ParameterArray
from .._problem.general_delays import is_general
from .._problem.parameter_names import parameter_arrays
from .._problem.problem import Problem
from .._solve.runge_kutta import AbstractSolver
from .._util.cores import cores
from .._util.errors import ResultError
from .describe_problem import solver_named


def setup_of(content: dict[str, Any], problem: Problem, data: Data) -> FitSetup:
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
    """What a setup knows of each free value: bounds, start values and kinds."""
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
    """The mesh on which the problem was solved; None if it was on another grid, or with
    adaptive steps."""
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
    unbounded = (np.inf,) * len(names)
    return FreeParameters(
        tuple(arrays),
        names,
        tuple(source),
        tuple(like),
        tuple(-end for end in unbounded),
        unbounded,
    )
