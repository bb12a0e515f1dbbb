"""The settings of a fit, how to repeat it, and the versions it was made with."""

import base64
import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.study_data import Records, parts_of
from .._data.times import source_times
from .._problem.network_weights import named_indices, network_name
from .._search.noise_setup import describe_noise
from .._util.shown import listed
from .._util.version import __version__
from .blocks import Block, Code, Download, Prose, Section, TableBlock

if TYPE_CHECKING:
    from .._results.estimate import Estimate
    from .._results.result import AbstractFit


# A saved fit that is larger than this many bytes is not held by the page.
_MOST_BYTES = 200_000
_MOST_NAMES = 40
_FILE = "fit.json"
_CONFIG = "fit.toml"


def repeat(fit: "AbstractFit", saved: str, settings: str | None) -> Section:
    """Return the section on settings: `saved` is the text of the saved fit, and
    `settings` that of the command line's settings, None in Python."""
    rows = [("", ""), *_data_rows(fit.data)]
    if hasattr(fit, "setup"):
        rows += _search_rows(fit)  # type: ignore
    rows.append(("solver", _solver(fit)))
    rows.append(("time", f"{fit.seconds:.2g} s"))
    blocks: list[Block] = [TableBlock(rows, (0, 1))]
    blocks += [Prose(note) for note in fit.data.notes]
    if settings is not None:
        words = (
            f"The file `{_CONFIG}` beside this page holds all settings. With it, "
            f"`ddefind fit --config {_CONFIG} --out again` repeats the fit:"
        )
        blocks += [Prose(words), Code(settings)]
    if len(saved) < _MOST_BYTES:
        held = base64.b64encode(saved.encode("utf-8", "surrogateescape")).decode()
        address = f"data:application/json;base64,{held}"
        words = "This page holds the fit itself, with its data. Save it, and go on:"
        code = f'import ddefind as dd\n\nfit = dd.load("{_FILE}")\nprint(fit)'
        blocks += [Prose(words), Download(_FILE, address, f"Save {_FILE}"), Code(code)]
    packages = [f"{name} {version(name)}" for name in ("jax", "numpy", "scipy")]
    system = f"{platform.system()} ({platform.machine()})"
    python = f"Python {platform.python_version()} on {system}"
    made_with = listed([f"ddefind {__version__}", *packages, python])
    blocks.append(Prose(f"Made with {made_with}."))
    return Section("asked", "Settings, and how to repeat this fit", blocks)


def _data_rows(data: Records) -> list[tuple[str, str]]:
    parts = parts_of(data)
    values = sum(int(np.isfinite(part.x).sum()) for part in parts)
    times = sum(len(part.t) for part in parts)
    span = ""
    if len(parts) == 1:
        first, last = source_times(parts[0], parts[0].t[[0, -1]])[1]
        span = f", from {_shown(first)} to {_shown(last)}"
    what = f"{values} values at {times} times{span}"
    if len(parts) > 1:
        what = f"{values} values of {len(parts)} experiments"
    label = getattr(data, "label", None)
    rows = [("data", f"{label}: {what}" if label else what)]
    rows.append(("quantities", ", ".join(data.names)))
    if len(parts) > 1:
        rows.append(("experiments", _limited(list(data.labels))))  # type: ignore
    return rows


def _search_rows(fit: "Estimate") -> list[tuple[str, str]]:
    setup = fit.setup
    known = setup.indices_or_values()
    if not _has_delay(fit):
        known.pop("tau", None)  # which nothing reads
    fixed = [f"{n} = {v:.6g}" for n, v in known.items() if isinstance(v, float)]
    method = f"least squares from {fit.starts} starts, seed {fit.seed}"
    if fit.process is not None:
        method = f"multiple shooting, seed {fit.seed}"
    known = "estimated" if fit.data.sd is None else "given"
    plain = f"Gaussian, standard deviations {known}"
    rows = [("method", method), ("noise", describe_noise(setup) or plain)]
    given = {
        "known values": fixed,
        "given bounds": _bounds(fit),
        "priors": _priors(fit),
    }
    rows += [(name, _limited(texts)) for name, texts in given.items() if texts]
    return [*rows, ("confidence level", f"{100 * fit.level:g}%")]


def _bounds(fit: "Estimate") -> list[str]:
    """Return the bounds that the user gave."""
    found = []
    lower, upper = fit.setup.lower, fit.setup.upper
    for j in named_indices(len(fit.names), fit.networks):
        name = fit.names[j]
        has_low, has_high = fit.setup.is_given[:, j]
        low = f"{lower[j]:.6g} <= " if has_low and np.isfinite(lower[j]) else ""
        high = f" <= {upper[j]:.6g}" if has_high and np.isfinite(upper[j]) else ""
        if low or high:
            found.append(f"{low}{name}{high}")
    return found


def _priors(fit: "Estimate") -> list[str]:
    priors = fit.setup.model.priors
    if priors is None:
        return []
    columns = (np.asarray(each) for each in (priors.mean, priors.weight, priors.log))
    mean, weight, is_log = columns

    def shown(name: str, j: int) -> str:
        what = f"log {name}" if is_log[j] else name
        return f"{what} ~ {mean[j]:.4g} +- {1 / np.sqrt(weight[j]):.2g}"

    # The weights of the first layer of a network have one prior, all others another.
    groups = {}
    for owner, indices in fit.networks.items():
        weights = f"weights of {network_name(owner)}"
        first, last = indices[0], indices[-1]
        if weight[first] == weight[last]:
            groups[weights] = first
        else:
            groups |= {f"first {weights}": first, f"other {weights}": last}
    named = {fit.names[j]: j for j in named_indices(len(fit.names), fit.networks)}
    return [shown(n, j) for n, j in (named | groups).items() if weight[j] > 0]


def _solver(fit: "AbstractFit") -> str:
    name = type(fit.solver).__name__
    rtol: Any = getattr(fit.solver, "rtol", None)
    if rtol is not None:
        return f"{name}, adaptive steps, relative tolerance {rtol:g}"
    if fit.max_step is not None:
        return f"{name}, steps of at most {fit.max_step:.4g}"
    if not _has_delay(fit):
        return f"{name}, steps of {float(fit.problem.tau) / fit.steps_per_delay:.4g}"
    return f"{name}, {fit.steps_per_delay} steps for each delay"


def _has_delay(fit: "AbstractFit") -> bool:
    return fit.model is None or fit.model.delayed


def _limited(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST_NAMES
    return ", ".join(texts[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _shown(time: Any) -> str:
    return time if isinstance(time, str) else f"{time:.6g}"
