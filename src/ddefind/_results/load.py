"""Fits from their files: whole ones, and the numbers of those whose model is code.

A sweep keeps the content of each fit without problem and data, which its folder holds
once."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from html import escape
from typing import Any, NoReturn, final, overload

import numpy as np

from .._data.data import Data
from .._equation.equation import Equation
from .._inference.identifiability import NOT_JUDGED
from .._inference.system import system_of
from .._problem.driving import with_same_tables
from .._problem.history import time_zero
from .._problem.parameters import parameter_arrays, with_values
from .._problem.problem import Problem
from .._search.setup import FitSetup
from .._util.errors import ResultError, check_instance
from .._util.files import file_name
from .._util.shown import frame_of_rows
from .estimate import Estimate, FitOrigin, estimate_at
from .result import AbstractFit, FitResult
from .saved_file import read_saved, write_saved
from .saved_fit import (
    DATA,
    read_content,
    saved_assessment,
    saved_data,
    saved_minimum,
    setup_of,
    study_setup,
)
from .saved_problem import rebuild, solver_named, with_described_noise, with_scales
from .status import Status

_BY_DESCENT = "This fit is by gradient descent, which computes no errors."
_WITHOUT_INTERVALS = (
    "This fit was saved without its intervals. Load it with its model, "
    "`dd.load(path, problem=...)`, to compute them."
)


@final
@dataclass(frozen=True)
class SavedFit:
    """The numbers of a saved fit whose model is code, which no file holds.

    `dd.load(path, problem=...)` with that model gives the whole fit. `content` is what
    the file holds."""

    names: tuple[str, ...]
    best: np.ndarray
    loss: float
    status: Status
    message: str
    seconds: float
    data: Any
    table: tuple[dict[str, Any], ...]
    text: str
    content: dict[str, Any] = field(repr=False)

    @property
    def values(self) -> dict[str, float]:
        """The learned parameters by name."""
        return dict(zip(self.names, self.best.tolist()))

    @property
    def noise(self) -> dict[str, float]:
        """The standard deviation of the noise of each measured quantity."""
        if "noise" not in self.content:
            raise ValueError(_BY_DESCENT)
        return dict(self.content["noise"])

    @property
    def standard_errors(self) -> dict[str, float]:
        """The standard error of each parameter of the table; infinite where the data
        determine nothing."""
        return {
            row["name"]: np.inf if row["standard_error"] is None else error
            for row, error in self._column("standard_error")
        }

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The interval of each parameter of the table; infinite on a side where the
        data give no limit, and NaN where nothing is known."""
        found = {}
        for row, low in self._column("low"):
            is_unknown = row["verdict"] == NOT_JUDGED and row["high"] is None
            ends = (np.nan, np.nan) if is_unknown else (-np.inf, np.inf)
            given = (low, row["high"])
            found[row["name"]] = tuple(
                end if value is None else value for end, value in zip(ends, given)
            )
        return found

    @property
    def verdicts(self) -> dict[str, str]:
        """What the data say about each parameter of the table: determined, weakly
        determined, not determined or not judged."""
        return {row["name"]: verdict for row, verdict in self._column("verdict")}

    def _column(self, key: str) -> list[tuple[dict[str, Any], Any]]:
        """Return the rows of the table, each with its value in a column."""
        if self.table and key not in self.table[0]:
            is_estimate = self.content["kind"] == "estimate"
            raise ValueError(_WITHOUT_INTERVALS if is_estimate else _BY_DESCENT)
        return [(row, row[key]) for row in self.table]

    def summary(self) -> list[dict[str, Any]]:
        """Return a row for each parameter, as that of the fit."""
        return [dict(row) for row in self.table]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, ready for JSON."""
        kept = ("loss", "status", "message", "noise", "seconds")
        known = {key: self.content[key] for key in kept if key in self.content}
        parameters = {row["name"]: row["estimate"] for row in self.table}
        return {"parameters": parameters, **known}

    def to_frame(self) -> Any:
        """Return the rows of `summary` as a pandas data frame, by name."""
        return frame_of_rows(self.summary(), "name")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the same file again, whole or not at all."""
        write_saved(path, self.content)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"

    def __getattr__(self, name: str) -> NoReturn:
        if name in _OF_WHOLE_FITS:
            raise AttributeError(
                f"`{name}` needs the model, which is code and therefore not in the "
                "file. Load the fit with it, `dd.load(path, problem=...)`, where "
                "`problem` is the `dd.Problem` that was fitted, with any values."
            )
        raise AttributeError(f"A saved fit has no attribute {name!r}.")


# What fits have that are loaded with their models.
_OF_WHOLE_FITS = {
    name
    for cls in (Estimate, FitResult)
    for name in (*dir(cls), *(each.name for each in fields(cls)))
    if not name.startswith("_")
}


@overload
def load(
    path: str | os.PathLike[str], *, problem: Problem | Equation
) -> Estimate | FitResult: ...
@overload
def load(
    path: str | os.PathLike[str], *, problem: None = None
) -> Estimate | FitResult | SavedFit: ...
def load(
    path: str | os.PathLike[str], *, problem: Problem | Equation | None = None
) -> Estimate | FitResult | SavedFit:
    """Load a fit that was saved by `fit.save(path)`, or by the command line with
    `--out`.

    `path` is the file, or the folder. Nothing is fitted again, and no code of the file
    is run. The result is an `Estimate` or a `FitResult`, as it was saved, if the model
    is a text equation or is made of the package's own classes. A model of your own is
    not in the file: without it the result is a `SavedFit`, the numbers and the table;
    with it, as `problem`, it is the whole fit.

    A file that is damaged, altered or from another version of the format is a
    `ResultError`.

    >>> import tempfile
    >>> t = np.linspace(0, 4, 30)
    >>> model, data = dd.equation("x' = -k * x(t - tau)"), dd.Data(t, np.cos(t))
    >>> fit = dd.fit(model, data, intervals=False)
    >>> path = f"{tempfile.mkdtemp()}/cosine.json"
    >>> fit.save(path)
    >>> dd.load(path).values == fit.values
    True
    """
    if problem is not None and not isinstance(problem, Equation):
        if callable(problem):
            raise TypeError(
                "`problem` is a right-hand side. Give the whole problem that was "
                "fitted, with any values: `dd.Problem(rhs, dd.Constant(1.0), tau=1.0)`."
            )
        check_instance("problem", problem, Problem, "Problem(rhs, history, tau)")
    saved = read_saved(path)
    name = file_name(path)
    try:
        content = read_content(saved)
        if problem is None and content["problem"] is None:
            return _numbers_only(content, saved)
        if content["kind"] == "estimate" and content["study"] is not None:
            return _study(content, problem)
        filled, model = _filled_problem(content, content["problem"], problem)
        return _whole(content, filled, model)
    except ResultError as error:
        raise ResultError(f"{name}: {error}") from None
    except (IndexError, KeyError, TypeError, ValueError) as error:
        # Each field is right in itself, but they contradict each other.
        raise ResultError(
            f"{name}: its parts do not belong together ({error!r}). Save the fit again."
        ) from None


def _filled_problem(
    content: dict[str, Any], described: Any, given: Problem | Equation | None
) -> tuple[Problem, Equation | None]:
    """Return the problem with the saved numbers, and the equation it comes from."""
    if given is None:
        most = sum(len(array["values"]) for array in content["parameters"])
        blank, model = rebuild(described, most)
    elif isinstance(given, Equation):
        blank, model = given.blank, given
    else:
        blank, model = given, None
    blank = with_described_noise(blank, content.get("noise_models"))
    filled = _filled(blank, content["parameters"])
    return with_scales(filled, content["networks"]), model


def _study(content: dict[str, Any], given: Problem | Equation | None) -> Estimate:
    """Make the fit of a study."""
    study, problems, models = content["study"], [], []
    for each in study["experiments"]:
        problem, model = _filled_problem(content, each["problem"], given)
        problems.append(with_values(problem, each["values"]))
        models.append(model)
    longest = max(part.T for part in saved_data(content).parts)
    alike = tuple(with_same_tables(problems, longest))
    return _from_setup(content, study_setup(content, alike), models)


def _filled(problem: Problem, arrays: list[dict[str, Any]]) -> Problem:
    """Return the problem with the saved numbers."""
    saved = [(array["name"], tuple(array["shape"].tolist())) for array in arrays]
    present = [(array.name, array.shape) for array in parameter_arrays(problem)]
    if saved != present:
        raise ResultError(
            f"`problem` is not the one that was saved: it has the parameters "
            f"{_listed(present)}, but the file {_listed(saved)}."
        )
    return with_values(problem, np.concatenate([array["values"] for array in arrays]))


def _listed(names: list[tuple[str, tuple[int, ...]]]) -> str:
    return ", ".join(f"{name}{list(shape) if shape else ''}" for name, shape in names)


def _whole(
    content: dict[str, Any], problem: Problem, equation: Equation | None
) -> Estimate | FitResult:
    """Make the fit of one data set."""
    data = Data(**content["data"])
    if content["kind"] == "descent":
        return _descent(content, problem, data, equation)
    setup = setup_of(content, problem, data.later(-time_zero(problem.history)))
    return _from_setup(content, setup, [equation])


def _from_setup(
    content: dict[str, Any], setup: FitSetup, equations: Sequence[Equation | None]
) -> Estimate:
    """Make the fit from its setup, and the equation of each experiment, if any."""
    setup = replace(setup, equations=tuple(each for each in equations if each))
    minimum = saved_minimum(content, setup.points())
    return estimate_at(
        setup,
        minimum,
        FitOrigin(content["options"]["seed"], content["seconds"], content["histories"]),
        saved_assessment(content, setup.model.free.names),
        system_of(content["process"], minimum.best.gram[0, 1:, 1:]),
    )


def _descent(
    content: dict[str, Any], problem: Problem, data: Data, equation: Equation | None
) -> FitResult:
    free = content["free"]
    return FitResult(
        problem=problem,
        start=with_values(problem, content["start"]),
        data=data,
        names=tuple(free["names"]),
        best=free["best"],
        first=free["first"],
        final=free["final"],
        loss=content["loss"],
        losses=content["losses"],
        path=content["path"],
        status=Status[content["status"]],
        message=content["message"],
        epochs=content["epochs"],
        seconds=content["seconds"],
        solver=solver_named(content["solver"], content["tolerances"]),
        steps_per_delay=content["steps_per_delay"],
        model=equation,
    )


def _numbers_only(content: dict[str, Any], saved: dict[str, Any]) -> SavedFit:
    """Make the fit without its model; `saved` is what the file holds."""
    keys = {frozenset(row) for row in content["table"]}
    if len(keys) > 1 or any("name" not in each for each in keys):
        raise ResultError("The rows of `table` must have a name and the same fields.")
    is_study = content.get("study") is not None
    if content["kind"] == "descent":
        best = content["free"]["best"]
    else:
        best = content["search"]["best"].theta[0]
    return SavedFit(
        names=tuple(content["free"]["names"]),
        best=best,
        loss=content["loss"],
        status=Status[content["status"]],
        message=content["message"],
        seconds=content["seconds"],
        data=saved_data(content) if is_study else Data(**content["data"]),
        table=tuple(content["table"]),
        text=content["text"],
        content=saved,
    )


# What is not kept, or follows from the rest.
_LEFT_OUT = ("problem", "data", "text", "table")


def kept_content(fit: AbstractFit) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what is kept of a fit, and the rows of its table."""
    content = fit.file_content()
    kept = {name: each for name, each in content.items() if name not in _LEFT_OUT}
    return kept, content["table"]


def fit_of_kept(
    kept: dict[str, Any], problem: Problem, data: Data, equation: Equation | None
) -> Estimate | FitResult:
    """Make the whole fit of this problem to these data. Nothing is fitted again."""
    fields = DATA.write(data.later(time_zero(problem.history)))
    left_out = {"problem": None, "data": fields, "text": "", "table": []}
    content = read_content({**kept, **left_out})
    filled, _ = _filled_problem(content, None, problem)
    return _whole(content, filled, equation)
