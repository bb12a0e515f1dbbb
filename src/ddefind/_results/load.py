"""Saved fits, back from their files."""

import os
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from .._data.data import Data
from .._equation.equation import Equation
from .._inference.profile_likelihood import Profile
from .._least_squares.batches import RefinedFits
from .._least_squares.normal_equations import Model, Priors
from .._least_squares.search import Minimum, SearchResult
from .._least_squares.setup import FitSetup
from .._loss.path_costs import Points
from .._problem.free_parameters import FreeParameters, ParameterArray
from .._problem.parameters import parameter_arrays, with_values
from .._problem.problem import Problem
from .._util.cores import cores
from .._util.errors import ResultError, check_instance
from .._util.text_files import file_name
from .describe_problem import rebuild
from .estimate import Estimate, make_estimate
from .result import FitResult, Status
from .save import SOLVERS
from .saved_file import read_saved


@final
@dataclass(frozen=True)
class SavedFit:
    """The numbers of a saved fit whose model is code, which no file holds.

    `dd.load(path, problem=...)` with that model gives the whole fit."""

    names: tuple[str, ...]
    best: np.ndarray
    loss: float
    status: Status
    message: str
    seconds: float
    data: Data
    table: tuple[dict[str, Any], ...]
    text: str

    @property
    def values(self) -> dict[str, float]:
        """The learned parameters by name."""
        return dict(zip(self.names, self.best.tolist()))

    def summary(self) -> list[dict[str, Any]]:
        """A row for each parameter, as that of the fit."""
        return [dict(row) for row in self.table]

    def __str__(self) -> str:
        return self.text


def load(
    path: str | os.PathLike[str], *, problem: Problem | Equation | None = None
) -> Any:
    """A fit that was saved by `fit.save(path)`, or by the command line with `--out`.

    `path` is the file, or the folder. Nothing is fitted again, and no code of the file
    is run. What comes back is an `Estimate` or a `FitResult`, as it was saved, if the
    model is a text equation or one of the package's own modules. A model of your own is
    not in the file: without it the result is a `SavedFit`, the numbers and the table;
    with it, as `problem`, the whole fit.

    A file that is damaged, altered or from a newer version is a `ResultError`.

    >>> import tempfile
    >>> t = np.linspace(0, 4, 30)
    >>> fit = dd.fit(dd.equation("x' = -k * x(t - tau)"), dd.Data(t, np.cos(t)))
    >>> path = f"{tempfile.mkdtemp()}/cosine.json"
    >>> fit.save(path)
    >>> dd.load(path).values == fit.values
    True
    """
    if problem is not None and not isinstance(problem, Equation):
        check_instance("problem", problem, Problem, "Problem(rhs, history, tau)")
    body = read_saved(path)
    name = file_name(path)
    try:
        if problem is None and body["problem"] is None:
            return _numbers_only(body)
        blank, model = _blank(body, problem)
        filled = _filled(blank, body["parameters"])
        whole = _estimate if body["kind"] == "estimate" else _descent
        return whole(body, filled, model)
    except ResultError as error:
        raise ResultError(f"{name}: {error}") from None
    except (
        AssertionError,
        AttributeError,
        IndexError,
        KeyError,
        OverflowError,
        TypeError,
        ValueError,
    ) as error:
        raise ResultError(
            f"{name}: its parts do not belong together ({error!r}). Save the fit again."
        ) from None


def _blank(
    body: dict[str, Any], given: Problem | Equation | None
) -> tuple[Problem, Equation | None]:
    """The problem without its numbers, and the equation that it comes from."""
    if given is None:
        return rebuild(body["problem"])
    if isinstance(given, Equation):
        return given.blank, given
    return given, None


def _filled(problem: Problem, parameters: list[dict[str, Any]]) -> Problem:
    """The problem with the saved numbers."""
    saved = [(row["name"], tuple(row["shape"])) for row in parameters]
    there = [(array.name, array.shape) for array in parameter_arrays(problem)]
    if saved != there:
        raise ResultError(
            f"`problem` is not the one that was saved: it has the parameters "
            f"{_listed(there)}, but the file {_listed(saved)}."
        )
    return with_values(
        problem, np.concatenate([_array(r["values"]) for r in parameters])
    )


def _listed(names: list[tuple[str, tuple[int, ...]]]) -> str:
    return ", ".join(f"{name}{list(shape) if shape else ''}" for name, shape in names)


def _estimate(
    body: dict[str, Any], problem: Problem, model: Equation | None
) -> Estimate:
    data, free, options = _data(body["data"]), body["free"], body["options"]
    size = len(free["names"])
    free_map = _free_parameters(body["parameters"], tuple(free["names"]))
    priors = None if free["priors"] is None else Priors(*map(np.array, free["priors"]))
    learned, fixed = free_map.split(problem)
    setup = FitSetup(
        Model(
            free_map,
            learned,
            fixed,
            SOLVERS[body["solver"]](),
            priors,
            problem.dimension,
            options["huber"],
        ),
        data,
        _array(free["lower"], size),
        _array(free["upper"], size),
        _array(free["guess"], size),
        options["steps_per_delay"],
        np.array(free["history"], bool),
        np.array(free["frequencies"], bool),
        cores(),
    )
    search_result = _searched(body["search"], setup.points(), size)
    fit = make_estimate(
        setup, problem, search_result, options["seed"], body["seconds"], model
    )
    if body["profiles"] is not None:
        # A cached property: it is kept, not computed again.
        vars(fit)["_profiles"] = [_profile(each) for each in body["profiles"]]
    return fit


def _free_parameters(
    parameters: list[dict[str, Any]], names: tuple[str, ...]
) -> FreeParameters:
    found, source, like = [], [], []
    for row in parameters:
        found.append(
            ParameterArray(row["name"], row["short"], tuple(row["shape"]), len(source))
        )
        source += row["free"]
        like += row["like"]
    if set(source) - {-1} != set(range(len(names))):
        raise ResultError("Its free parameters are not numbered as they are named.")
    free = len(names)
    return FreeParameters(
        tuple(found),
        names,
        tuple(source),
        tuple(like),
        (-np.inf,) * free,
        (np.inf,) * free,
    )


def _searched(saved: dict[str, Any], points: Points, size: int) -> SearchResult:
    quantities = points.values.shape[1]
    shapes = {"theta": (size,), "gram": (size + 1, size + 1), "squares": (quantities,)}
    best = {
        name: _array(value, *shapes[name]) if name in shapes else np.array(value)
        for name, value in saved["best"].items()
    }
    best = {name: value[None] for name, value in best.items()}
    return SearchResult(
        best=RefinedFits(**best),
        points=points._replace(weights=_array(saved["weights"], *points.weights.shape)),
        noise=_array(saved["noise"], quantities),
        minima=tuple(
            Minimum(_array(theta, size), *rest) for theta, *rest in saved["minima"]
        ),
        starts=saved["starts"],
        evaluations=saved["evaluations"],
        step_error=float(saved["step_error"]),
        interrupted=saved["interrupted"],
    )


def _profile(saved: dict[str, Any]) -> Profile:
    arrays = {name: _array(saved[name]) for name in ("values", "r", "theta")}
    low, high = map(float, saved["interval"])
    reached = float(saved["reached"][0]), float(saved["reached"][1])
    name, estimate = saved["name"], saved["estimate"]
    return Profile(name, estimate, saved["quantile"], (low, high), reached, **arrays)


def _descent(
    body: dict[str, Any], problem: Problem, model: Equation | None
) -> FitResult:
    free, path, status = body["free"], body["path"], Status[body["status"]]
    return FitResult(
        problem=problem,
        start=with_values(problem, _array(body["start"])),
        data=_data(body["data"]),
        names=tuple(free["names"]),
        best=_array(free["best"]),
        first=_array(free["first"]),
        final=_array(free["final"]),
        loss=float(body["loss"]),
        losses=_array(body["losses"]),
        path=None if path is None else _array(path),
        status=status,
        message=body["message"],
        epochs=body["epochs"],
        seconds=body["seconds"],
        solver=SOLVERS[body["solver"]](),
        steps_per_delay=body["steps_per_delay"],
        model=model,
    )


def _numbers_only(body: dict[str, Any]) -> SavedFit:
    return SavedFit(
        names=tuple(body["free"]["names"]),
        best=_array([row["estimate"] for row in body["table"]]),
        loss=float(body["loss"]),
        status=Status[body["status"]],
        message=body["message"],
        seconds=body["seconds"],
        data=_data(body["data"]),
        table=tuple(body["table"]),
        text=body["text"],
    )


def _data(saved: dict[str, Any]) -> Data:
    sd = saved["sd"]
    return Data(
        _array(saved["t"]),
        _array(saved["x"]),
        sd=None if sd is None else _array(sd),
        names=saved["names"],
        label=saved["label"],
        origin=saved["origin"],
        notes=saved["notes"],
    )


def _array(saved: Any, *shape: int) -> np.ndarray:
    """Numbers, and words for what is not finite; of a shape, where one is given."""
    found = np.array(saved, dtype=float)
    if shape and found.shape != shape:
        raise ValueError(f"shape {found.shape} for {shape}")
    return found
