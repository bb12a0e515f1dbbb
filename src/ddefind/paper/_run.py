"""Run the paper's experiments: all noise levels and data sets of a model as one batch,
whose results, `LevelResults`, are saved when it ends, so that a run can be interrupted
and continued."""

import json
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

import ddefind as dd

from .._util.errors import did_you_mean
from .._util.files import nonfinite_as_none, write_whole
from ._experiments import (
    EXPERIMENTS,
    NOISE,
    PROTOCOLS,
    REPEATS,
    PaperExperiment,
    PrintedTable,
    Protocol,
    PublishedAdam,
    Settings,
)

RESULTS = "results.json"
# Significant digits of a saved estimate: far more than its standard deviation
# justifies, and few enough for small files.
_DIGITS = 8
# How many models are fitted at the same time.
_TOGETHER = 2


@final
class PaperError(ValueError):
    """A plan or a results folder is not valid; the message says what to change."""


@final
class Interrupted(Exception):
    """The fits of `model` were interrupted, for example by Ctrl-C."""

    def __init__(self, model: str):
        super().__init__(f"Interrupted during the fits of {model}.")
        self.model = model


@final
@dataclass(frozen=True)
class Plan:
    """The experiments that a run consists of. Invalid plans are a `PaperError`.

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
        names = [("model", name, EXPERIMENTS) for name in self.models]
        for kind, name, known in [*names, ("protocol", self.protocol, PROTOCOLS)]:
            if name not in known:
                hint = did_you_mean(name, known)
                raise PaperError(f"Unknown {kind} {name!r}.{hint}")
        for level in self.noise:
            if not 0 <= level < float("inf"):
                raise PaperError(
                    f"A noise level is a number from 0 on, but got {level:g}."
                )
        for name, lowest in (("repeats", 1), ("seed", 0)):
            if (given := getattr(self, name)) < lowest:
                raise PaperError(
                    f"`{name}` must be at least {lowest}, but got {given}."
                )
        for name in ("models", "noise"):
            if not getattr(self, name):
                raise PaperError(f"`{name}` must not be empty.")
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))


@final
@dataclass(frozen=True, eq=False)
class LevelResults:
    """The estimates of one model at one noise level, and what they are compared with.

    `estimates` has a row for each noisy data set and a column for each parameter, in
    the order of `experiment.parameters`. All other arrays have one entry for each
    parameter. NaN means that there is no number: the paper prints none, or the data do
    not determine the parameter.

    - `protocol`, `seed`: how the parameters were learned, and the seed of the noise.
    - `statuses`: how many of the fits ended with each status.
    - `seconds`: the time that the fits took."""

    experiment: PaperExperiment
    noise: float
    protocol: str
    seed: int
    estimates: np.ndarray
    statuses: Mapping[str, int]
    seconds: float

    @property
    def model(self) -> str:
        return self.experiment.model

    @property
    def repeats(self) -> int:
        """The number of noisy data sets."""
        return len(self.estimates)

    @property
    def true(self) -> np.ndarray:
        """The true values, with which the data were made."""
        values = dd.parameter_values(self.experiment.true)
        return np.array([values[name] for name in self.experiment.names.values()])

    @property
    def mean(self) -> np.ndarray:
        return np.mean(self.estimates, axis=0)

    @property
    def sd(self) -> np.ndarray:
        """The standard deviation of the estimates; NaN for a single data set."""
        if self.repeats < 2:
            return np.full(self.estimates.shape[1], np.nan)
        return np.std(self.estimates, axis=0, ddof=1)

    @property
    def rmse(self) -> np.ndarray:
        """The root mean square error of the estimates."""
        return np.sqrt(np.mean((self.estimates - self.true) ** 2, axis=0))

    @property
    def cramer_rao(self) -> np.ndarray:
        """The smallest standard deviation that unbiased estimates can have."""
        return self.experiment.cramer_rao(self.noise, exact=self.is_exact)

    @property
    def is_exact(self) -> bool:
        """Whether the data come from the exact solution (and not from RK2)."""
        return PROTOCOLS[self.protocol].is_ours

    def data(self, repeat: int) -> dd.Data:
        """Draw again the noisy data set that was fitted in a repeat."""
        exact = self.is_exact
        return self.experiment.data(self.noise, repeat, self.seed, exact=exact)

    @property
    def _printed(self) -> PrintedTable:
        """The paper's table, all NaN where there is none."""
        missing = np.full(len(self.experiment.names), np.nan)
        table = self.experiment.published(self.noise)
        return table or PrintedTable(missing, missing)

    @property
    def paper_mean(self) -> np.ndarray:
        """The mean that the paper prints."""
        return self._printed.mean

    @property
    def paper_sd(self) -> np.ndarray:
        """The standard deviation that the paper prints."""
        return self._printed.sd

    @property
    def z(self) -> np.ndarray:
        """Our mean minus the paper's, over the standard error of the difference."""
        variance = self.sd**2 / self.repeats + self.paper_sd**2 / REPEATS
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.mean - self.paper_mean) / np.sqrt(variance)

    def rms_z(self, without: Sequence[str] = ()) -> float:
        """Compute the root mean square of z over the parameters that have one, except
        those in `without`. It is about 1 if our estimates and the paper's differ by the
        noise of their data sets alone."""
        kept = [name not in without for name in self.experiment.parameters]
        z = self.z[np.array(kept) & np.isfinite(self.z)]
        return float(np.sqrt(np.mean(z**2))) if len(z) else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings for JSON. What is not finite is None."""
        arrays = ("true", "estimates", "mean", "sd", "rmse", "cramer_rao")
        arrays += ("paper_mean", "paper_sd", "z")
        return {
            "model": self.model,
            "noise": self.noise,
            "protocol": self.protocol,
            "repeats": self.repeats,
            "seed": self.seed,
            "parameters": list(self.experiment.parameters),
            **{
                name: nonfinite_as_none(np.vectorize(rounded)(getattr(self, name)))
                for name in arrays
            },
            "statuses": dict(self.statuses),
            "seconds": round(self.seconds, 3),
        }

    @staticmethod
    def from_dict(saved: Mapping[str, Any]) -> "LevelResults":
        """Return the results that `to_dict` wrote."""
        return LevelResults(
            experiment=EXPERIMENTS[saved["model"]],
            noise=float(saved["noise"]),
            protocol=str(saved["protocol"]),
            seed=int(saved["seed"]),
            estimates=np.array(saved["estimates"], dtype=float),
            statuses=dict(saved["statuses"]),
            seconds=float(saved["seconds"]),
        )


def rounded(x: float) -> float:
    """Round a number to the digits that are saved."""
    return float(f"{x:.{_DIGITS}g}")


def fit_sets(
    experiment: PaperExperiment,
    settings: Settings,
    starts: Sequence[dd.Problem],
    sets: Sequence[dd.Data],
    *,
    progress: bool | Callable[[dd.Progress], None] = False,
) -> dd.FitBatch:
    """Fit each data set from its own start by gradient descent, as one batch."""
    return dd.fit_many(
        starts,
        sets,
        parameters={name: dd.Fixed() for name in experiment.fixed},
        loss=dd.Integral(settings.cost, nodes="solver"),
        optimizer=PublishedAdam(dd.Cosine(settings.rate), settings.shortest_delay),
        gradient=settings.gradient,
        solver=dd.RK2(),
        steps_per_delay=experiment.steps_per_delay,
        epochs=settings.epochs,
        threshold=settings.threshold,
        progress=progress,
    )


def estimates(experiment: PaperExperiment, batch: dd.FitBatch) -> np.ndarray:
    """Return the values after the last step, which is what the paper reports: a row for
    each fit, and a column for each parameter in the paper's order."""
    columns = [batch.names.index(name) for name in experiment.names.values()]
    return batch.final[:, columns]


def run_model(
    experiment: PaperExperiment,
    protocol: Protocol,
    noise: Sequence[float],
    repeats: int = REPEATS,
    seed: int = 0,
    *,
    progress: bool | Callable[[dd.Progress], None] = False,
) -> list[LevelResults]:
    """Run all fits of a model as one batch; return the results of each level."""
    sets = [
        experiment.data(level, repeat, seed, exact=protocol.is_ours)
        for level in noise
        for repeat in range(repeats)
    ]
    if protocol.is_ours:
        bounds = experiment.bounds
        batch = dd.fit_many(
            experiment.blank, sets, parameters=bounds, progress=progress
        )
    else:
        settings = protocol.settings_for(experiment.model)
        starts = [experiment.start_for(data) for data in sets]
        batch = fit_sets(experiment, settings, starts, sets, progress=progress)
    if dd.Status.interrupted in batch.statuses:
        raise Interrupted(experiment.model)
    values = np.vectorize(rounded)(estimates(experiment, batch))
    levels = []
    for level, first in zip(noise, range(0, len(sets), repeats)):
        rows = slice(first, first + repeats)
        statuses = [status.name for status in batch.statuses[rows]]
        levels.append(
            LevelResults(
                experiment=experiment,
                noise=level,
                protocol=protocol.name,
                seed=seed,
                estimates=values[rows],
                statuses={name: statuses.count(name) for name in sorted(set(statuses))},
                seconds=batch.seconds / len(noise),
            )
        )
    return levels


@final
class ResultsFolder:
    """The results in a folder, and the plan by which they are completed.

    `levels` has the results of each model and noise level, in the order of the
    experiments. They are in the folder's `results.json`, which is replaced as a whole,
    so that it is complete at any time."""

    def __init__(self, folder: Path, plan: Plan):
        self.folder, self.plan = folder, plan
        self.levels = _load(folder)
        for results in self.levels:
            # Results that were made with other settings are not mixed with these.
            for name in ("protocol", "repeats", "seed"):
                there, wanted = getattr(results, name), getattr(plan, name)
                if there != wanted:
                    raise PaperError(
                        f"{folder} holds results with {name} {there}, but this run has "
                        f"{name} {wanted}. Choose another `--out`, or the same {name} "
                        "to continue."
                    )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.add([])
        except OSError as error:
            raise PaperError(
                f"Cannot write to {folder}: {error.strerror}. Choose another `--out`."
            ) from None

    def missing(self, model: str) -> list[float]:
        """Return the plan's noise levels for which a model has no results yet."""
        done = {results.noise for results in self.levels if results.model == model}
        return [level for level in self.plan.noise if level not in done]

    def of(self, model: str) -> list[LevelResults]:
        """Return a model's results for the noise levels of the plan."""
        return [
            results
            for results in self.levels
            if results.model == model and results.noise in self.plan.noise
        ]

    def add(self, levels: Sequence[LevelResults]) -> None:
        """Add results, and write the file: JSON with a line for each level."""
        order = list(EXPERIMENTS).index
        together = [*self.levels, *levels]
        self.levels = sorted(together, key=lambda r: (order(r.model), r.noise))
        lines = ",\n".join(json.dumps(results.to_dict()) for results in self.levels)
        text = f"[\n{lines}\n]\n" if lines else "[]\n"
        write_whole(self.folder / RESULTS, text)


def _load(folder: Path) -> list[LevelResults]:
    """Read the results in a folder; none if it is new or empty. Any other content is an
    error, so that no foreign folder is written to."""
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


def load_results(file: Path) -> list[LevelResults]:
    """Read a `results.json`."""
    saved = json.loads(file.read_text("utf-8"))
    return [LevelResults.from_dict(results) for results in saved]


def reproduce(
    folder: ResultsFolder, report: Callable[[str, dd.Progress], None] | None = None
) -> Generator[tuple[str, list[LevelResults]]]:
    """Run the fits of the plan that the folder has no results for.

    Yields the name of each model, and its results, as soon as its fits have ended.
    Models run two at a time: while one compiles on one core, another uses the rest.
    `report` is called with a model's name and its progress."""
    stop = threading.Event()

    def run(model: str) -> list[LevelResults]:
        def watch(now: dd.Progress) -> None:
            if stop.is_set():
                raise KeyboardInterrupt
            if report is not None:
                report(model, now)

        plan = folder.plan
        return run_model(
            EXPERIMENTS[model],
            PROTOCOLS[plan.protocol],
            folder.missing(model),
            plan.repeats,
            plan.seed,
            progress=watch,
        )

    missing = [model for model in folder.plan.models if folder.missing(model)]
    with ThreadPoolExecutor(_TOGETHER) as pool:
        # The paper's later models take longer: start with those.
        futures = {pool.submit(run, model): model for model in reversed(missing)}
        try:
            for future in as_completed(futures):
                folder.add(future.result())
                yield futures[future], folder.of(futures[future])
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
