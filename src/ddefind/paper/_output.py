"""What a run of the paper's experiments shows and writes: tables and figures."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import plots
from .._problem.problem import Problem
from .._solve.runge_kutta import RK2, RK4
from .._solve.solution import solve
from .._util.text_files import write_whole
from ._experiments import EXPERIMENTS, PROTOCOLS
from ._records import Record

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
# Light, so that it differs from the other lines in grey, too.
_TARGET = "#b0b0b0"
_STYLE: Any = {
    "font.size": 9,
    "axes.linewidth": 0.8,
    "svg.fonttype": "path",
    # The same figure gives the same file.
    "svg.hashsalt": "ddefind",
}


def table_rows(record: Record) -> list[tuple[str, ...]]:
    """The cells of a record's table, a row for each parameter."""
    columns = (
        record.true,
        record.paper_mean,
        record.paper_sd,
        record.mean,
        record.sd,
        record.rmse,
        record.cramer_rao,
        record.z,
    )
    rows = []
    for name, *values in zip(record.experiment.parameters, *columns):
        true, paper, paper_sd, ours, our_sd, rmse, bound, z = map(float, values)
        rows.append(
            (
                name,
                f"{true:g}",
                _spread(paper, paper_sd),
                _spread(ours, our_sd),
                _number(rmse),
                _number(bound),
                _number(z, ".1f"),
            )
        )
    return rows


def _number(value: float, form: str = ".4f") -> str:
    return f"{value:{form}}" if np.isfinite(value) else "–"


def _spread(mean: float, sd: float) -> str:
    return f"{mean:.4f} ± {sd:.4f}" if np.isfinite(sd) else _number(mean)


def caption(record: Record) -> str:
    """What a table is about, in a line."""
    rms = record.rms_z()
    agreement = f", rms z {rms:.2f}" if np.isfinite(rms) else ""
    what = f"{record.experiment.title}, noise {record.noise:g}"
    return f"{what}: {record.repeats} fits{agreement}"


def rich_table(record: Record) -> Any:
    """A record's table for the terminal, in 80 columns."""
    from rich.table import Table

    table = Table(
        title=f"\n{caption(record)}",
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
    for row in table_rows(record):
        table.add_row(*row)
    return table


def markdown_table(record: Record) -> str:
    """A record's table in Markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |"]
    lines.append("|---" + "|---:" * (len(COLUMNS) - 1) + "|")
    lines += ["| " + " | ".join(row) + " |" for row in table_rows(record)]
    return "\n".join(line.replace("T*", r"T\*") for line in lines)


def write_tables(records: Sequence[Record], folder: Path) -> Path:
    """All tables in one Markdown file."""
    first = records[0]
    parts = [
        f"# The paper's experiments, protocol `{first.protocol}`",
        f"Protocol: {PROTOCOLS[first.protocol].about}. {first.repeats} data sets each, "
        f"seed {first.seed}. z is the difference of the two means over its standard "
        "error; the Cramér-Rao sd is the smallest that unbiased estimates can have.",
    ]
    for record in records:
        parts += [f"## {caption(record)}", markdown_table(record)]
    path = folder / "tables.md"
    write_whole(path, "\n\n".join(parts) + "\n")
    return path


def write_figures(records: Sequence[Record], folder: Path) -> None:
    """A model's figures: the first repeat at noise 0.3, as in the paper, or else at the
    level nearest to it."""
    record = min(records, key=lambda record: abs(record.noise - 0.3))
    for component, paths in enumerate(_figure_paths(record.model, folder)):
        figure = trajectory_figure(record, component)
        for path in paths:
            path.parent.mkdir(exist_ok=True)
            write_whole(path, _drawn(figure, path.suffix.removeprefix(".")))


def has_figures(model: str, folder: Path) -> bool:
    """Whether all of a model's figures are there."""
    return all(
        path.exists() for paths in _figure_paths(model, folder) for path in paths
    )


def _figure_paths(model: str, folder: Path) -> list[list[Path]]:
    """The files of each component's figure."""
    components = EXPERIMENTS[model].components
    names = [f"{model}-{name.replace('*', '_star')}" for name in components]
    names = names if len(names) > 1 else [model]
    return [
        [folder / "figures" / f"{name}.{form}" for form in _FORMATS] for name in names
    ]


def _drawn(figure: Any, form: str) -> bytes:
    from matplotlib import rc_context

    buffer = io.BytesIO()
    metadata = {"Date": None} if form == "svg" else {}
    with rc_context(_STYLE):
        figure.savefig(buffer, format=form, dpi=300, metadata=metadata)
    return buffer.getvalue()


def trajectory_figure(record: Record, component: int = 0, repeat: int = 0) -> Any:
    """True, target and predicted trajectory of one component, for one repeat."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(5.2, 3.1), layout="constrained")
        handles = draw_trajectories(figure.subplots(), record, component, repeat)
        draw_legend(figure, handles)
    return figure


def draw_trajectories(ax: Any, record: Record, component: int, repeat: int = 0) -> Any:
    """The same on given axes; returns what a legend needs."""
    from scipy.interpolate import CubicSpline

    experiment = record.experiment
    data = record.data(repeat)
    t = np.linspace(0, experiment.T, 1000)
    target = CubicSpline(data.t, data.x[:, component])(t)
    true = _trajectory(record, experiment.true, t)[:, component]
    learned = experiment.at(record.estimates[repeat])
    predicted = _trajectory(record, learned, t)[:, component]
    (line,) = ax.plot(t, target, color=_TARGET, lw=0.7)
    (dots,) = ax.plot(data.t, data.x[:, component], ".", color=_TARGET, ms=5)
    (truth,) = ax.plot(t, true, color=plots.TRUE, lw=1.4)
    (found,) = ax.plot(t, predicted, "--", color=plots.START, lw=1.9)
    ax.set(xlabel="$t$", ylabel=tuple(experiment.components.values())[component])
    ax.set(xlim=(0, experiment.T))
    ax.set_title(f"{experiment.title}, noise {record.noise:g}", loc="left", size=9)
    ax.spines[["top", "right"]].set_visible(False)
    return [truth, (line, dots), found]


def draw_legend(figure: Any, handles: Any) -> None:
    """The legend of trajectories, below all axes."""
    names = ["true", "target: spline through the noisy data", "predicted"]
    place = "outside lower center"
    figure.legend(handles, names, loc=place, ncols=3, frameon=False)


def _trajectory(record: Record, problem: Problem, t: np.ndarray) -> np.ndarray:
    """As the data were made."""
    experiment = record.experiment
    solver, n = RK2(), experiment.steps_per_delay
    if record.is_exact:
        solver, n = RK4(), 100
    return np.asarray(solve(problem, experiment.T, solver, n)(t))
