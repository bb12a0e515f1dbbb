"""What is saved of a fit, as plain words and numbers."""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.data import Data
from .._problem.parameters import parameter_arrays, parameter_vector
from .._solve.runge_kutta import RK2, RK4, Euler
from .describe_problem import describe

if TYPE_CHECKING:
    from .._inference.profile_likelihood import Profile
    from .._problem.free_parameters import FreeParameters
    from .estimate import Estimate
    from .result import AbstractFit, FitResult

SOLVERS = {"Euler": Euler, "RK2": RK2, "RK4": RK4}


def estimate_content(fit: "Estimate", *, intervals: bool = True) -> dict[str, Any]:
    """Of a least-squares fit; with its intervals and profiles, which need further
    fits, or without."""
    setup, search_result = fit.setup, fit.search_result
    model, best = setup.model, search_result.best
    priors = model.priors
    # Where no start worked there is nothing to be sure of.
    intervals = intervals and bool(np.isfinite(fit.loss))
    rows = fit.summary() if intervals else _without_intervals(fit)
    text = str(fit) if intervals else f"{_lined_up(rows)}\n\n{fit.message}"
    return {
        **_common("estimate", fit, model.free, text),
        "table": rows,
        "noise": fit.noise,
        "options": {
            "starts": fit.starts,
            "seed": fit.seed,
            "huber": model.huber,
            "steps_per_delay": setup.steps_per_delay,
        },
        "free": {
            "names": list(fit.names),
            "lower": numbers(setup.lower),
            "upper": numbers(setup.upper),
            "guess": numbers(setup.guess),
            "history": setup.history.tolist(),
            "frequencies": setup.frequencies.tolist(),
            "priors": None
            if priors is None
            else [np.asarray(a).tolist() for a in priors],
        },
        "search": {
            "best": {name: numbers(array[0]) for name, array in vars(best).items()},
            "weights": numbers(search_result.points.weights),
            "noise": numbers(search_result.noise),
            "minima": [
                [numbers(m.theta), m.loss, m.starts] for m in search_result.minima
            ],
            "starts": search_result.starts,
            "evaluations": search_result.evaluations,
            "step_error": numbers(search_result.step_error),
            "interrupted": search_result.interrupted,
        },
        "profiles": [_profile(each) for each in fit._profiles] if intervals else None,
    }


def _without_intervals(fit: "Estimate") -> list[dict[str, Any]]:
    errors = fit.standard_errors if np.isfinite(fit.loss) else {}
    return [
        {
            "name": name,
            "estimate": value,
            "standard_error": error if np.isfinite(error) else None,
        }
        for name, value in fit.values.items()
        for error in [errors.get(name, np.inf)]
    ]


def _lined_up(rows: list[dict[str, Any]]) -> str:
    width = max(9, *(len(row["name"]) for row in rows)) + 2
    lines = [f"{'parameter':<{width}}{'estimate':>12}{'std. error':>12}"]
    for row in rows:
        error = row["standard_error"]
        shown = "-" if error is None else f"{error:.2g}"
        lines.append(f"{row['name']:<{width}}{row['estimate']:>12.5g}{shown:>12}")
    return "\n".join(lines)


def _profile(profile: "Profile") -> dict[str, Any]:
    return {
        key: value if isinstance(value, str) else numbers(value)
        for key, value in vars(profile).items()
    }


def descent_content(fit: "FitResult") -> dict[str, Any]:
    """Of a fit by gradient descent, with its path."""
    return {
        **_common("descent", fit, None, str(fit)),
        "table": fit.summary(),
        "start": numbers(parameter_vector(fit.start)),
        "free": {
            "names": list(fit.names),
            "first": numbers(fit.first),
            "best": numbers(fit.best),
            "final": numbers(fit.final),
        },
        "losses": numbers(fit.losses),
        "path": None if fit.path is None else numbers(fit.path),
        "epochs": fit.epochs,
    }


def _common(
    kind: str, fit: "AbstractFit", free: "FreeParameters | None", text: str
) -> dict[str, Any]:
    solver = type(fit.solver)
    described = describe(fit.problem, fit.model)
    if solver is not SOLVERS.get(solver.__name__):
        described = None
    return {
        "kind": kind,
        "problem": described,
        "text": text,
        "status": fit.status.name,
        "message": fit.message,
        "loss": numbers(fit.loss),
        "seconds": fit.seconds,
        "solver": solver.__name__,
        "steps_per_delay": fit.steps_per_delay,
        "parameters": _parameters(fit, free),
        "data": _data(fit.data),
    }


def _parameters(
    fit: "AbstractFit", free: "FreeParameters | None"
) -> list[dict[str, Any]]:
    """Every array of the problem; `free` says which free value an element is, -1 for
    one that is fixed."""
    vector = parameter_vector(fit.problem)
    rows = []
    for array in parameter_arrays(fit.problem) if free is None else free.arrays:
        part = slice(array.first, array.first + array.size)
        row: dict[str, Any] = {
            "name": array.name,
            "short": array.short,
            "shape": list(array.shape),
            "values": numbers(vector[part]),
        }
        if free is not None:
            row |= {"free": free.source[part], "like": free.like[part]}
        rows.append(row)
    return rows


def _data(data: Data) -> dict[str, Any]:
    return {
        "t": numbers(data.t),
        "x": numbers(data.x),
        "sd": None if data.sd is None else numbers(data.sd),
        "names": list(data.names),
        "label": data.label,
        "origin": data.origin,
        "notes": list(data.notes),
    }


def numbers(array: Any) -> Any:
    """Nested lists; what is not finite as words, which JSON has no numbers for.

    >>> numbers(np.array([[1.5, np.nan], [np.inf, 2.0]]))
    [[1.5, 'NaN'], ['Infinity', 2.0]]
    """
    plain = np.asarray(array)
    return plain.tolist() if np.all(np.isfinite(plain)) else _worded(plain.tolist())


def _worded(value: Any) -> Any:
    if isinstance(value, list):
        return [_worded(each) for each in value]
    if np.isfinite(value):
        return value
    return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
