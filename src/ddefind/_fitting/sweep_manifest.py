"""What the records of a sweep of fits belong to: its model, data and settings."""

from collections.abc import Sequence
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
from .request import FitOptions, FitTask


def manifest_of(
    method: AbstractMethod, tasks: Sequence[FitTask], options: FitOptions, width: int
) -> Manifest:
    """What a folder belongs to."""
    problems = list({id(task.problem): task.problem for task in tasks}.values())
    number = {id(problem): index for index, problem in enumerate(problems)}
    asked = {each.name: getattr(options, each.name) for each in fields(options)}
    del asked["progress"]
    parts: dict[str, tuple[str, Any]] = {
        "model": ("`problem`", (problems, tasks[0].equation)),
        "data": ("`data`", [data_digest(task.data) for task in tasks]),
        "settings": (
            "the options",
            (
                method,
                asked,
                [number[id(task.problem)] for task in tasks],
                [(dict(task.starts), task.seed) for task in tasks],
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


def _about(task: FitTask) -> str:
    """The model in words."""
    if task.equation is not None:
        return str(task.equation)
    return type(task.problem.rhs).__qualname__


def changed_data(tasks: Sequence[FitTask], log: FileLog) -> str:
    """Which data have changed, as far as records tell."""
    for number in log.numbers():
        if number >= len(tasks):
            break
        data = tasks[number].data
        if log.record(number)["data"] != data_digest(data):
            label = "" if data.label is None else f", {quoted(data.label)},"
            return f": those of fit {number}{label} have changed"
    return ""
