"""The tables and figures of a run of the paper's experiments."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ddefind as dd

from .._figures.panels import START
from .._util.files import write_whole
from ._experiments import EXPERIMENTS, PROTOCOLS
from ._run import LevelResults

COLUMNS = (
    "parameter",
    "true",
    "paper: mean ± sd",
    "ours: mean ± sd",
    "RMSE",
    "Cramér-Rao sd",
    "z",
)
_FORMATS = ("png", "svg")
# A light grey, so that the line differs from the others in print without colours.
_TARGET = "#b0b0b0"
_STYLE: Any = {
    "font.size": 9,
    "axes.linewidth": 0.8,
    "svg.fonttype": "path",
    # A fixed salt makes the identifiers in SVG files, and so the files, reproducible.
    "svg.hashsalt": "ddefind",
}


def table_rows(results: LevelResults) -> list[tuple[str, ...]]:
    """Return a table's cells: a row for each parameter, in the order of `COLUMNS`."""
    columns = (
        results.experiment.parameters,
        [f"{true:g}" for true in results.true],
        map(_spread, results.paper_mean, results.paper_sd),
        map(_spread, results.mean, results.sd),
        map(_number, results.rmse),
        map(_number, results.cramer_rao),
        [_number(z, ".1f") for z in results.z],
    )
    return list(zip(*columns))


def _number(value: float, form: str = ".4f") -> str:
    """Format a number, or a dash where there is none."""
    return f"{value:{form}}" if np.isfinite(value) else "–"


def _spread(mean: float, sd: float) -> str:
    """Format a mean with its standard deviation, where there is one."""
    return f"{mean:.4f} ± {sd:.4f}" if np.isfinite(sd) else _number(mean)


def caption(results: LevelResults) -> str:
    """Return the heading of a table: model, noise level, number of fits, agreement."""
    rms = results.rms_z()
    agreement = f", rms z {rms:.2f}" if np.isfinite(rms) else ""
    subject = f"{results.experiment.title}, noise {results.noise:g}"
    return f"{subject}: {results.repeats} fits{agreement}"


def rich_table(results: LevelResults) -> Any:
    """Return a table for the terminal, at most 80 columns wide."""
    from rich.table import Table

    table = Table(
        title=f"\n{caption(results)}",
        title_justify="left",
        title_style="bold",
        header_style="italic",
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
    )
    for index, column in enumerate(COLUMNS):
        name = column.replace(": ", ":\n").replace("Cramér-", "Cramér-\n")
        table.add_column(name, justify="right" if index else "left", no_wrap=True)
    for row in table_rows(results):
        table.add_row(*row)
    return table


def markdown_table(results: LevelResults) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |"]
    lines.append("|---" + "|---:" * (len(COLUMNS) - 1) + "|")
    lines += ["| " + " | ".join(row) + " |" for row in table_rows(results)]
    return "\n".join(line.replace("T*", r"T\*") for line in lines)


def write_tables(levels: Sequence[LevelResults], folder: Path) -> Path:
    """Write all tables to one Markdown file, and return its path."""
    first = levels[0]
    parts = [
        f"# The paper's experiments, protocol `{first.protocol}`",
        f"Protocol: {PROTOCOLS[first.protocol].about}. {first.repeats} data sets each, "
        f"seed {first.seed}. z is the difference of the two means over its standard "
        "error; the Cramér-Rao sd is the smallest that unbiased estimates can have.",
    ]
    for results in levels:
        parts += [f"## {caption(results)}", markdown_table(results)]
    path = folder / "tables.md"
    write_whole(path, "\n\n".join(parts) + "\n")
    return path


def write_figures(levels: Sequence[LevelResults], folder: Path) -> None:
    """Write a model's figures, one for each component of the state.

    They show the first data set at noise 0.3, as the paper's do, or at the noise level
    that is nearest to it."""
    from matplotlib import rc_context

    shown = min(levels, key=lambda results: abs(results.noise - 0.3))
    for component, paths in enumerate(_figure_paths(shown.model, folder)):
        figure = trajectory_figure(shown, component)
        for path in paths:
            form, buffer = path.suffix.removeprefix("."), io.BytesIO()
            metadata = {"Date": None} if form == "svg" else {}
            with rc_context(_STYLE):
                figure.savefig(buffer, format=form, dpi=300, metadata=metadata)
            path.parent.mkdir(exist_ok=True)
            write_whole(path, buffer.getvalue())


def has_figures(model: str, folder: Path) -> bool:
    """Whether all files of a model's figures exist."""
    return all(
        path.exists() for paths in _figure_paths(model, folder) for path in paths
    )


def _figure_paths(model: str, folder: Path) -> list[list[Path]]:
    """Return the files of each component's figure: one for each format."""
    components = EXPERIMENTS[model].components
    names = [f"{model}-{name.replace('*', '_star')}" for name in components]
    names = names if len(names) > 1 else [model]
    return [
        [folder / "figures" / f"{name}.{form}" for form in _FORMATS] for name in names
    ]


def trajectory_figure(
    results: LevelResults, component: int = 0, repeat: int = 0
) -> Any:
    """Draw a component's true, target and predicted trajectory for one data set."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(5.2, 3.1), layout="constrained")
        handles = draw_trajectories(figure.subplots(), results, component, repeat)
        draw_legend(figure, handles)
    return figure


def draw_trajectories(
    ax: Any, results: LevelResults, component: int, repeat: int = 0
) -> list[Any]:
    """Draw the three trajectories on given axes; return the handles of a legend."""
    from scipy.interpolate import CubicSpline

    experiment = results.experiment
    data = results.data(repeat)
    t = np.linspace(0, experiment.T, 1000)
    target = CubicSpline(data.t, data.x[:, component])(t)
    true = _trajectory(results, experiment.true, t)[:, component]
    learned = experiment.at(results.estimates[repeat])
    predicted = _trajectory(results, learned, t)[:, component]
    (line,) = ax.plot(t, target, color=_TARGET, lw=0.7)
    (dots,) = ax.plot(data.t, data.x[:, component], ".", color=_TARGET, ms=5)
    (truth,) = ax.plot(t, true, color="black", lw=1.4)
    (prediction,) = ax.plot(t, predicted, "--", color=START, lw=1.9)
    ax.set(xlabel="$t$", ylabel=tuple(experiment.components.values())[component])
    ax.set(xlim=(0, experiment.T))
    ax.set_title(f"{experiment.title}, noise {results.noise:g}", loc="left", size=9)
    ax.spines[["top", "right"]].set_visible(False)
    return [truth, (line, dots), prediction]


def draw_legend(figure: Any, handles: Any) -> None:
    """Draw the legend of the three trajectories, below all axes."""
    names = ["true", "target: spline through the noisy data", "predicted"]
    place = "outside lower center"
    figure.legend(handles, names, loc=place, ncols=3, frameon=False)


def _trajectory(
    results: LevelResults, problem: dd.Problem, t: np.ndarray
) -> np.ndarray:
    """Solve, at times `t`, by the solver that made the data; shape (times, d)."""
    experiment = results.experiment
    solver, n = dd.RK2(), experiment.steps_per_delay
    if results.is_exact:
        solver, n = dd.RK4(), 100
    return np.asarray(dd.solve(problem, experiment.T, solver, n)(t))
