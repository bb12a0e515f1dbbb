"""What the records of a sweep of fits belong to: its model, data and settings."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp

from .._sweeps.digest import NoDigest, digest
from .._sweeps.logs import FileLog
from .._sweeps.manifest import Manifest
from .._util import wording
from .._util.errors import quoted
from .._util.version import __version__
from .fit_records import data_digest
from .method import AbstractMethod
from .request import FitOptions, FitTask, FitTasks, distinct


def manifest_of(
    method: AbstractMethod, tasks: FitTasks, options: FitOptions, width: int
) -> Manifest:
    """What a folder belongs to."""
    problems = distinct(tasks.problems)
    number = {id(problem): index for index, problem in enumerate(problems)}
    asked = {each.name: getattr(options, each.name) for each in fields(options)}
    del asked["progress"]
    seeds = range(tasks.seed, tasks.seed + len(tasks))
    parts: dict[str, tuple[str, Any]] = {
        "model": ("`problem`", (problems, tasks[0].equation)),
        "data": ("`data`", _of_each(map(data_digest, tasks.sets), tasks)),
        "settings": (
            "the options",
            (
                method,
                asked,
                _of_each((number[id(each)] for each in tasks.problems), tasks),
                list(zip(_of_each(map(dict, tasks.starts), tasks), seeds)),
            ),
        ),
    }
    digests = {}
    for name, (argument, part) in parts.items():
        try:
            digests[name] = digest(part)
        except NoDigest as error:
            raise ValueError(
                f"{wording.SWEEP_FOLDER} needs to know {argument} again, but {error}."
            ) from None
    versions = {
        "ddefind": __version__,
        "jax": jax.__version__,
        "float": str(jnp.finfo(jnp.result_type(float)).bits),
    }
    return Manifest(len(tasks), width, digests, versions, _about(tasks[0]))


def _of_each(given: Iterable[Any], tasks: FitTasks) -> list[Any]:
    """What was given once or for each fit, for each fit."""
    parts = list(given)
    return parts * len(tasks) if len(parts) == 1 else parts


def _about(task: FitTask) -> str:
    """The model in words."""
    if task.equation is not None:
        return str(task.equation)
    return type(task.problem.rhs).__qualname__


def changed_data(tasks: FitTasks, log: FileLog) -> str:
    """Which data have changed, as far as records tell."""
    for record in log.records():
        number = record["number"]
        if number >= len(tasks):
            break
        data = tasks[number].data
        if record["data"] != data_digest(data):
            label = "" if data.label is None else f", {quoted(data.label)},"
            return f": those of fit {number}{label} have changed"
    return ""
