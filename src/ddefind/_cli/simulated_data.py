"""Data made from the solution of a model: to test fits, and to check gradients."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import ddefind as dd

from .._data.read_csv import read_any_table
from .._data.read_study import FurtherFiles, dose_places, input_places
from .._data.table import Table
from .._engine.choose import engine_for
from .._engine.solution import check_time
from .._loss.check_gradient import compare_gradients
from .._problem.delays import longest_delay
from .._problem.general_delays import is_general, typical_delays
from .._problem.parameters import element_names, find, parameter_arrays
from .._util.errors import quoted
from ..noise._read_noise import read_noise
from .fit_settings import doses_of, noise_models
from .model_file import (
    check_no_networks,
    observed_names,
    problem_at,
    read_model,
    unknown,
)
from .parse_options import OptionError, parse_number

# The label of a single experiment.
_ONLY = "data"
# Solver steps in the shortest delay when gradients are compared, fewer if the longest
# one is much longer: `Adjoint` is only as exact as the steps.
_GRADIENT_STEPS = 100
# Random sets of parameters are tried until one gives a finite solution, each up to this
# share of the usual time: many solutions that grow beyond all bounds are finite at
# first.
_SHARES = (1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125)
_MOST_POINTS = 1_000_000
# The step size is divided by four until the solution changes by less than this fraction
# of its spread.
_PRECISION = 1e-6
# The tolerances of adaptive steps: of the solution to compare with, and of solutions
# for gradients.
_FINEST, _GRADIENT_TOLERANCE = 1e-10, 1e-9
# The range of random values of most parameters.
_USUAL = 0.5, 1.5


def simulated_experiments(
    given: Mapping[str, Any],
    file: str | None,
    T: float,
    points: int,
    noise: str | Mapping[str, str] | None,
    seed: int,
) -> tuple[str | None, "list[dd.Experiment]"]:
    """Return simulated experiments and, if there are several, the name of the column
    that names them: the first one of the `file`, which has a row for each experiment
    and values of parameters in the other columns. `given` are the settings."""
    model, T = read_model(given), check_time(T, "--T")
    group, rows = None, {_ONLY: {}}
    if file is not None:
        group, rows = _rows(read_any_table(file, None, None))
    planned = _planned(given, doses_of(given["doses"], model), group, rows, T)
    for name in given["values"] or ():
        if name not in (planned[0].values or ()):
            raise OptionError(
                f"`--values` names {quoted(name)}, which is no column of the file of "
                "`--experiments`."
            )
    names = observed_names(model)
    drawn = _noise(noise, names)
    made = []
    for number, each in enumerate(planned):
        values = {**given["set"], **(each.values or {})}
        problem = problem_at(model, values, {}, inputs=each.inputs, doses=each.doses)
        data = _noisy_data(problem, T, points, drawn, seed + number, names)
        made.append(replace(each, data=data))
    return group, made


def _planned(
    given: Mapping[str, Any],
    doses: str | dict[str, str] | None,
    group: str | None,
    rows: Mapping[str, dict[str, float]],
    T: float,
) -> "list[dd.Experiment]":
    """Return the experiments, with their inputs and doses, before they have data."""
    files, kinds = FurtherFiles(None, group), given["input_kind"] or "linear"
    places, formulas = input_places(given["inputs"])
    doses_at = dose_places(doses)
    planned = []
    for label, values in rows.items():
        # Times in files are those of the simulation.
        here = dd.Data([0.0, T], [0.0, 0.0], label=label)
        inputs = {
            name: files.input(name, place, here, list(rows), kinds)
            for name, place in places.items()
        }
        dosing = [
            dose
            for state, place in doses_at
            for dose in files.doses(state, place, here, list(rows))
        ]
        planned.append(dd.Experiment(here, {**inputs, **formulas}, dosing, values))
    return planned


def _rows(table: Table) -> tuple[str, dict[str, dict[str, float]]]:
    """Return the name of the first column, and the values of each experiment."""
    group, *names = table.columns
    rows: dict[str, dict[str, float]] = {}
    for row, label in enumerate(table.columns[group]):
        if label in rows:
            raise table.error(
                f"two experiments are called {quoted(label)}. Rename one of them.", row
            )
        rows[label] = {name: table.number(row, name) for name in names}
        for name, value in rows[label].items():
            if np.isnan(value):
                raise table.error("the value is missing.", row, name)
    if not rows:
        raise table.error("there is no experiment: a row for each is needed.")
    return group, rows


def _noise(option: str | Mapping[str, str] | None, names: Sequence[str] | None) -> Any:
    """Return the noise of simulated data: a share of the standard deviation of each
    quantity, or the noise model of each quantity, whose numbers must be known."""
    if option is None:
        return 0.0
    if isinstance(option, str) and (share := parse_number(option)) is not None:
        return share
    names = names or ("x",)
    given = noise_models(option)
    lacking = [n for n in names if isinstance(given, dict) and n not in given]
    if lacking:
        raise OptionError(
            f"`--noise` gives none for {', '.join(lacking)}. Give one for each "
            "quantity, or one for all."
        )
    models = read_noise(given, names)
    for model in models.values():
        lacking = [n for n in model.names if math.isnan(float(getattr(model, n)))]
        if lacking:
            raise OptionError(
                f"`--noise {model.word}` needs {' and '.join(lacking)} in brackets, as "
                f'"{model.word}({", ".join(["1.2"] * len(model.names))})".'
            )
    return [models[name] for name in names]


def _noisy_data(
    problem: "dd.Problem",
    T: float,
    points: int,
    noise: "float | Sequence[dd.noise.AbstractNoise]",
    seed: int,
    names: Sequence[str] | None,
) -> "dd.Data":
    """Return noisy values of the problem's solution at `points` equally spaced times
    from 0 to `T`.

    `noise` is the standard deviation of the noise, as a fraction of that of each
    quantity, or the noise model of each quantity."""
    if not 2 <= points <= _MOST_POINTS:
        raise ValueError(
            f"`--points` must be from 2 to {_MOST_POINTS:,}, but got {points}."
        )
    if isinstance(noise, float | int) and not 0 <= noise < np.inf:
        raise ValueError(f"`--noise` must be a number from 0 on, but got {noise}.")
    t = np.linspace(0, T, points)
    x, change = _exact(problem, t)
    random = np.random.default_rng(seed)
    if isinstance(noise, float | int):
        x = x + noise * np.std(x, axis=0) * random.normal(size=x.shape)
    else:
        drawn = []
        for model, name, column in zip(noise, names or ("x",), x.T, strict=True):
            if model.is_positive and np.any(column <= 0):
                raise ValueError(
                    f"`--noise`: the solution of {name!r} falls to {column.min():.4g}, "
                    f"but {model.title} noise is for positive quantities. Choose "
                    "another noise."
                )
            drawn.append(model.draw(column, np.asarray(model.eta()), random))
        x = np.stack(drawn, axis=1)
    notes = []
    if np.isinf(change):
        notes = ["There are too many steps to check the solution by shorter ones."]
    elif change > _PRECISION:
        notes = [
            f"Shorter steps still changed the solution, by {change:.1g} of its size."
        ]
    return dd.Data(t, x, names=names, notes=notes)


def _exact(problem: "dd.Problem", t: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the observed quantities at the times `t`, and their last change, as a
    fraction of their spread, when the steps were shortened."""
    T, x, change = float(t[-1]), None, np.inf
    for solution in _solutions(problem, T):
        finer = dd.plots.observed(problem, solution, t)
        if x is not None and np.all(np.isfinite(x + finer)):
            change = float(np.max(np.abs(finer - x) / _scale(finer)))
        x = finer
        if change < _PRECISION:
            break
    if x is None:
        raise ValueError(
            f"T = {T:g} is {T / float(problem.tau):.2g} delays: too many to solve for. "
            "Choose a smaller T."
        )
    not_finite = np.flatnonzero(~np.all(np.isfinite(x), axis=1))
    if len(not_finite):
        raise ValueError(
            f"The solution is not finite from t = {t[not_finite[0]]:g} on, with "
            f"{_listed(problem)}. Choose other values, or a smaller T."
        )
    return x, change


def _solutions(problem: "dd.Problem", T: float) -> "Iterator[dd.Solution]":
    """Yield solutions of increasing precision: with shorter and shorter steps or, if
    the equation needs adaptive ones, with two tolerances."""
    solution, solver = None, "auto"
    if not is_general(problem.tau):
        tau = longest_delay(problem.tau)
        n = max(20, int(np.ceil(200 * tau / T)))
        engine = engine_for(problem, dd.RK4(), T)
        for steps in engine.finer_steps(tau, T, n):
            solution = _solve(problem, T, solver, **steps)
            if solution.solver.with_tolerance(_FINEST) is not None:
                break
            solver = solution.solver
            yield solution
        else:
            return
    solution = solution or dd.solve(problem, T)
    yield solution
    yield dd.solve(problem, T, solution.solver.with_tolerance(_FINEST))


def _solve(
    problem: "dd.Problem", T: float, solver: Any = "auto", **steps: Any
) -> "dd.Solution":
    """Solve, with fixed steps where adaptive ones fail: that solution is not exact, or
    not finite from some time on."""
    try:
        return dd.solve(problem, T, solver, **steps)
    except ValueError:
        if is_general(problem.tau):
            raise
        return dd.solve(problem, T, dd.RK4(), **steps)


def _scale(x: np.ndarray) -> np.ndarray:
    """Return the range of each quantity; of a constant one its size, or else 1."""
    spread = np.ptp(x, axis=0)
    size = np.max(np.abs(x), axis=0)
    return np.where(spread > 1e-9 * size, spread, np.where(size > 0, size, 1.0))


def _listed(problem: "dd.Problem") -> str:
    """Return the parameters of a problem and their values as text, at most twelve."""
    values = list(dd.parameter_values(problem).items())
    listed = ", ".join(f"{name} = {value:.4g}" for name, value in values[:12])
    return listed + (", ..." if len(values) > 12 else "")


def gradients_at(
    settings: Mapping[str, Any], file: Path | None, seed: int
) -> "dd.GradientCheck":
    """Compare the gradients of a model with central differences.

    Parameters have the values that are set, and random ones where none is. The data are
    those of `file`, or else the model's own solution with 10% of noise. If that
    solution is not finite, other random values are tried."""
    model, given = read_model(settings), settings["set"]
    check_no_networks(model)
    random = np.random.default_rng(seed)
    data = None
    if file is not None:
        data, names = dd.read_csv(file), observed_names(model)
        data = data if names is None else data.select(names)
    has_random_values = bool(unknown(model, given))
    # Adaptive steps take long to find that a solution is not finite. They are tried
    # last, for stiff equations, which need them.
    trials = [(share, dd.RK4()) for share in _SHARES] if has_random_values else []
    message = ""
    for share, first_solver in [*trials, (1.0, "auto")]:
        others = _random_values(model, given, random)
        try:
            problem = problem_at(model, given, others)
            solver = "auto" if is_general(problem.tau) else first_solver
            if data is None:
                measured = _noisy_solution(problem, random, share, solver)
            else:
                _finite_solution(problem, data.t, solver)
                measured = data
            solver = (
                dd.Tsit5(_GRADIENT_TOLERANCE) if is_general(problem.tau) else "auto"
            )
            delays = np.asarray(typical_delays(problem.tau, problem.start))
            n = int(np.ceil(_GRADIENT_STEPS * np.min(delays) / np.max(delays)))
            check = compare_gradients(
                problem, measured, solver=solver, steps_per_delay=max(10, n)
            )
            return _by_name(check, problem, model)
        except ValueError as error:
            message = str(error)
    raise ValueError(message + " Give values by `--set`." * has_random_values)


def _by_name(
    check: "dd.GradientCheck", problem: "dd.Problem", model: "dd.Equation | dd.Problem"
) -> "dd.GradientCheck":
    """Return the derivatives with respect to the names in the text of an equation. A
    name that occurs in several parts of the model has the sum of their derivatives."""
    if isinstance(model, dd.Problem):
        return check
    settings = model.settings.items()
    tied = {
        name: setting.to for name, setting in settings if isinstance(setting, dd.Tied)
    }
    arrays = parameter_arrays(problem, tied)
    place = np.arange(len(check.differences))
    for name, source in tied.items():
        place[find(name, arrays)] = find(source, arrays)
    names = np.array(element_names(arrays))
    kept = np.unique(place)

    def summed(derivatives: np.ndarray) -> np.ndarray:
        return np.bincount(place, derivatives, len(place))[kept]

    routes = {route: summed(values) for route, values in check.routes.items()}
    return dd.GradientCheck(
        tuple(names[kept].tolist()), summed(check.differences), routes
    )


def _noisy_solution(
    problem: "dd.Problem", random: np.random.Generator, share: float, solver: Any
) -> "dd.Data":
    """Return data at some distance from the solution, so that the gradient is not 0,
    over a `share` of the usual time."""
    # No time is on a node of the solver, where the derivative with respect to the delay
    # has a kink.
    switches = np.asarray(problem.switch_times, float)
    last_switch = float(np.max(switches, initial=0.0))
    longest = float(np.max(typical_delays(problem.tau, problem.start)))
    T = max(5.37 * longest, 1.37 * last_switch)
    t = np.linspace(0, share * T, 29)
    x = _finite_solution(problem, t, solver)
    return dd.Data(t, x + 0.1 * _scale(x) * random.normal(size=x.shape))


def _finite_solution(problem: "dd.Problem", t: np.ndarray, solver: Any) -> np.ndarray:
    """Return the observed quantities at the times `t`, which must be finite."""
    x = dd.plots.observed(problem, _solve(problem, float(t[-1]), solver), t)
    if not np.all(np.isfinite(x)):
        raise ValueError(f"The solution is not finite, with {_listed(problem)}.")
    return x


def _random_values(
    model: "dd.Equation | dd.Problem",
    given: Mapping[str, Any],
    random: np.random.Generator,
) -> dict[str, float]:
    """Return random values for the parameters without a value."""
    if isinstance(model, dd.Problem):
        return {}
    roles = {array.short: array.role for array in parameter_arrays(model.blank)}
    ranges = {name: role.drawn for name, role in roles.items() if role and role.drawn}
    return {
        name: random.uniform(*ranges.get(name, _USUAL))
        for name in unknown(model, given)
    }
