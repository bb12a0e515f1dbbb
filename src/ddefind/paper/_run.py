"""Run the paper's experiments: all noise levels and repeats of a model as one batch.

Its results are saved as soon as they are there, so that a run can be interrupted and
continued.
"""

import json
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from .._data.data import Data
from .._fitting.fit import fit_many
from .._fitting.optimizers import Cosine
from .._loss.losses import Integral
from .._problem.parameters import Fixed
from .._problem.problem import Problem
from .._results.batch import FitBatch
from .._results.status import Status
from .._solve.runge_kutta import RK2
from .._util.errors import did_you_mean
from .._util.progress import Progress
from .._util.text_files import write_whole
from ._experiments import (
    EXPERIMENTS,
    NOISE,
    PROTOCOLS,
    REPEATS,
    Experiment,
    Protocol,
    PublishedAdam,
    Settings,
)
from ._records import Record, rounded

RESULTS = "results.json"
_TOGETHER = 2


@final
class PaperError(ValueError):
    """What was asked for cannot be done; the message says what to change."""


@final
class Interrupted(Exception):
    """Ctrl-C during the fits of `model`."""

    def __init__(self, model: str):
        super().__init__(f"Interrupted during the fits of {model}.")
        self.model = model


@final
@dataclass(frozen=True)
class Plan:
    """What a run is to do, checked.

    >>> Plan(models=("logistic",), repeats=3).protocol
    'published'
    >>> Plan(models=("logistics",))
    Traceback (most recent call last):
    ddefind.paper._run.PaperError: Unknown model 'logistics'. Did you mean 'logistic'?
    """

    models: tuple[str, ...] = tuple(EXPERIMENTS)
    noise: tuple[float, ...] = NOISE
    repeats: int = REPEATS
    seed: int = 0
    protocol: str = "published"

    def __post_init__(self):
        for kind, names, known in (
            ("model", self.models, EXPERIMENTS),
            ("protocol", (self.protocol,), PROTOCOLS),
        ):
            for name in names:
                if name not in known:
                    hint = did_you_mean(name, known)
                    raise PaperError(f"Unknown {kind} {name!r}.{hint}")
        for level in self.noise:
            if not 0 <= level < float("inf"):
                raise PaperError(
                    f"A noise level is a number from 0 on, but got {level:g}."
                )
        for name, lowest in (("repeats", 1), ("seed", 0)):
            given = getattr(self, name)
            if given < lowest:
                raise PaperError(
                    f"`{name}` must be at least {lowest}, but got {given}."
                )
        for name in ("models", "noise"):
            if not getattr(self, name):
                raise PaperError(f"`{name}` must not be empty.")
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))


def fit_sets(
    experiment: Experiment,
    settings: Settings,
    starts: Sequence[Problem],
    sets: Sequence[Data],
    *,
    progress: bool | Callable[[Progress], None] = False,
) -> FitBatch:
    """Fit each data set from its start, as one batch."""
    return fit_many(
        starts,
        sets,
        parameters={name: Fixed() for name in experiment.fixed},
        loss=Integral(settings.cost, nodes="solver"),
        optimizer=PublishedAdam(Cosine(settings.rate), settings.shortest_delay),
        gradient=settings.gradient,
        solver=RK2(),
        steps_per_delay=experiment.steps_per_delay,
        epochs=settings.epochs,
        threshold=settings.threshold,
        progress=progress,
    )


def estimates(experiment: Experiment, batch: FitBatch) -> np.ndarray:
    """The values after the last step, a row for each fit, in the paper's order: what
    the paper reports."""
    names = [batch.names.index(name) for name in experiment.names.values()]
    return batch.final[:, names]


def run_model(
    experiment: Experiment,
    protocol: Protocol,
    noise: Sequence[float],
    repeats: int = REPEATS,
    seed: int = 0,
    *,
    progress: bool | Callable[[Progress], None] = False,
) -> list[Record]:
    """All fits of one model as one batch, and a record for each noise level."""
    sets = [
        experiment.data(level, repeat, seed, exact=protocol.is_ours)
        for level in noise
        for repeat in range(repeats)
    ]
    if protocol.is_ours:
        settings = experiment.bounds
        batch = fit_many(experiment.blank, sets, parameters=settings, progress=progress)
    else:
        settings = protocol.settings_for(experiment.model)
        starts = [experiment.start_for(data) for data in sets]
        batch = fit_sets(experiment, settings, starts, sets, progress=progress)
    if Status.interrupted in batch.statuses:
        raise Interrupted(experiment.model)
    found = np.vectorize(rounded)(estimates(experiment, batch))
    records = []
    for level, first in zip(noise, range(0, len(sets), repeats)):
        rows = slice(first, first + repeats)
        ended = [status.name for status in batch.statuses[rows]]
        records.append(
            Record(
                experiment=experiment,
                noise=level,
                protocol=protocol.name,
                seed=seed,
                estimates=found[rows],
                statuses={name: ended.count(name) for name in sorted(set(ended))},
                seconds=batch.seconds / len(noise),
            )
        )
    return records


@final
class Results:
    """The records of a folder, in the order of the experiments; written as a whole, so
    that the file is never half there."""

    def __init__(self, folder: Path, plan: Plan):
        self.folder, self.plan = folder, plan
        self.records = _load(folder)
        self._check()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / RESULTS, self._text())
        except OSError as error:
            raise PaperError(
                f"Cannot write to {folder}: {error.strerror}. Choose another `--out`."
            ) from None

    def _check(self) -> None:
        """Results that were made otherwise must not be mixed with this run's."""
        for record in self.records:
            for name in ("protocol", "repeats", "seed"):
                there, wanted = getattr(record, name), getattr(self.plan, name)
                if there != wanted:
                    raise PaperError(
                        f"{self.folder} holds results with {name} {there}, but this "
                        f"run has {name} {wanted}. Choose another `--out`, or the "
                        f"same {name} to continue."
                    )

    def missing(self, model: str) -> list[float]:
        """The plan's noise levels that a model has no record for."""
        done = {record.noise for record in self.records if record.model == model}
        return [level for level in self.plan.noise if level not in done]

    def of(self, model: str) -> list[Record]:
        """A model's records for the levels of the plan."""
        return [
            record
            for record in self.records
            if record.model == model and record.noise in self.plan.noise
        ]

    def add(self, records: Sequence[Record]) -> None:
        order = list(EXPERIMENTS).index
        together = [*self.records, *records]
        self.records = sorted(together, key=lambda r: (order(r.model), r.noise))
        write_whole(self.folder / RESULTS, self._text())

    def _text(self) -> str:
        lines = ",\n".join(json.dumps(r.to_dict()) for r in self.records)
        return f"[\n{lines}\n]\n" if lines else "[]\n"


def _load(folder: Path) -> list[Record]:
    if folder.exists() and not folder.is_dir():
        raise PaperError(f"{folder} is a file, not a folder. Choose another `--out`.")
    file = folder / RESULTS
    if not file.exists():
        if folder.exists() and any(folder.iterdir()):
            raise PaperError(
                f"The folder {folder} exists, and holds other things than results. "
                "Choose another `--out`."
            )
        return []
    try:
        return load_results(file)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PaperError(
            f"{file} cannot be read as results ({type(error).__name__}: {error}). Move "
            "it away, or choose another `--out`."
        ) from None


def load_results(file: Path) -> list[Record]:
    """The records of a `results.json`."""
    return [Record.from_dict(saved) for saved in json.loads(file.read_text("utf-8"))]


def reproduce(
    results: Results, report: Callable[[str, Progress], None] | None = None
) -> Generator[tuple[str, list[Record]]]:
    """Run what is missing: each model's name and records, as they come.

    Models run two at a time: while one compiles on one core, another uses the rest.
    `report` is told of each model's progress.
    """
    stop = threading.Event()

    def run(model: str) -> list[Record]:
        def watch(now: Progress) -> None:
            if stop.is_set():
                raise KeyboardInterrupt
            if report is not None:
                report(model, now)

        plan = results.plan
        return run_model(
            EXPERIMENTS[model],
            PROTOCOLS[plan.protocol],
            results.missing(model),
            plan.repeats,
            plan.seed,
            progress=watch,
        )

    missing = [model for model in results.plan.models if results.missing(model)]
    with ThreadPoolExecutor(_TOGETHER) as pool:
        # The paper's models grow from the first to the last: begin with the long runs.
        futures = {pool.submit(run, model): model for model in reversed(missing)}
        try:
            for future in as_completed(futures):
                results.add(future.result())
                yield futures[future], results.of(futures[future])
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
