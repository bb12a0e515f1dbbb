"""What is saved of a fit: plain words and numbers, in the fields of the schema."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.study_data import Records, StudyData
from .._inference.assessment import Assessment
from .._inference.profile import Profile
from .._least_squares.search import SearchResult
from .._least_squares.setup import FitSetup
from .._problem.free_parameters import ParameterArray
from .._problem.parameter_names import parameter_arrays
from .._problem.parameters import parameter_vector
from .._util.json_numbers import nonfinite_as_words
from .describe_network import scales_of
from .describe_problem import describe, described_noise, is_known_solver, tolerances
from .saved_study import data_content, study_content

if TYPE_CHECKING:
    from .estimate import Estimate
    from .result import AbstractFit, FitResult


def estimate_content(fit: "Estimate") -> dict[str, Any]:
    """A least-squares fit, with its intervals if it has them."""
    setup, free = fit.setup, fit.setup.parts[0].model.free
    arrays = [
        {
            **_array(array, parameter_vector(fit.problem)),
            "free": free.source[array.first : array.first + array.size],
            "like": free.like[array.first : array.first + array.size],
        }
        for array in free.arrays
    ]
    assessment = fit.assessment
    profiles = None if assessment is None else assessment.profiles
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
        "profiles": None if profiles is None else [_profile(each) for each in profiles],
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
        "priors": None
        if priors is None
        else [
            np.asarray(priors.mean),
            np.asarray(priors.weight),
            np.asarray(priors.log),
        ],
    }


def _search(result: SearchResult) -> dict[str, Any]:
    best = result.best
    return {
        "best": {
            "z": best.theta[0],
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
        "z": profile.theta,
        "breakdown": profile.breakdown,
    }


def _assessment(assessment: Assessment) -> dict[str, Any]:
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
    """A fit by gradient descent, with its path."""
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
    """One array of parameters, with its elements of the vector of all parameters."""
    return {
        "name": array.name,
        "short": array.short,
        "shape": array.shape,
        "values": vector[array.first : array.first + array.size],
    }


def data_fields(data: Records) -> dict[str, Any]:
    if isinstance(data, StudyData):
        return data_content(data)
    return {
        "t": data.t,
        "x": data.x,
        "sd": data.sd,
        "names": data.names,
        "label": data.label,
        "origin": data.origin,
        "notes": data.notes,
        "axis_labels": data.axis_labels,
        "below": data.below,
    }
