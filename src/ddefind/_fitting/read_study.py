"""Reading a study from files: the public function `read_study`."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from .._data.columns import Columns
from .._data.doses import DoseRow, Doses
from .._data.experiments import ExperimentRecord, StudyFiles
from .._data.inputs import Inputs, InputSeries
from .._problem.doses import Dose, SetState
from .._problem.inputs import Input
from .._util import wording
from .._util.errors import did_you_mean, quoted
from .study import Experiment

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def read_study(
    path: Paths,
    *,
    group: str | None = None,
    values: str | Sequence[str] = (),
    inputs: Inputs = (),
    input_kind: str | Mapping[str, str] = "linear",
    doses: Doses | None = None,
    time: str | None = None,
    columns: Columns | None = None,
    start: float | str | None = None,
    where: Mapping[str, Any] | None = None,
    sheet: str | None = None,
) -> list[Experiment]:
    """Read the experiments of a study, for `dd.fit`, from one file or from several.

    **Arguments**

    - `path`: a file, or a list of files. Each is read by the rules of `read_csv`.
    - `group`: the column that names the experiment to which a row belongs. Without it,
      each file is an experiment, which is called as the file.
    - `values`: columns of known values, each one number for a whole experiment, such as
      a dose or a temperature. They become the `values` of the experiment.
    - `inputs`: the columns of inputs. `{"u": "Temp (C)"}` gives an input another name
      than its column, `{"u": "weather.csv:Temp"}` takes it from another file, and
      `{"u": "sin(t)"}` is a formula of time. Rows that hold inputs need no measurement.
    - `input_kind`: how inputs run between their values, `"linear"`, `"steps"` or
      `"cubic"`; or a dict by name.
    - `doses`: the column of amounts, in rows of the same file, or a file of its own.
      `{"gut": "AMT"}` says that all are given to the state `gut`; otherwise a column
      `state` says to which state. Further columns are `duration` or `rate`, `every` and
      `count`, and `event`, which is `set` where a state is set to the amount; the names
      of NONMEM are understood, too.
    - `time`, `columns`, `start`, `where`, `sheet`: as for `read_csv`. If `start` is not
      given, either all experiments keep their times or each begins at time 0.

    Rows of another file of inputs or doses belong to the experiment that their column
    `group` or `experiment` names, and to all experiments if there is no such column.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "growth.csv"
    >>> _ = path.write_text("id,t,x,food\\na,0,1,5\\na,1,2,5\\nb,0,1,9\\nb,1,3,9\\n")
    >>> a, b = dd.read_study(path, group="id", values="food")
    >>> a.label, a.values, b.data
    ('a', {'food': 5.0}, Data 'b': 2 times in [0, 1], 1 quantity (x))
    """
    is_one = isinstance(path, str | os.PathLike)
    paths = (path,) if is_one else tuple(path)
    if not paths:
        raise ValueError("`path` must be a file or a list of files, but it is empty.")
    files = StudyFiles(
        paths=paths,
        group=group,
        values=(values,) if isinstance(values, str) else tuple(values),
        inputs=inputs,
        doses=doses,
        time=time,
        columns=columns,
        start=start,
        where=where or {},
        sheet=sheet,
    )
    records = files.records()
    _check_kinds(input_kind, records[0].inputs)
    return [_experiment(record, input_kind) for record in records]


def _experiment(record: ExperimentRecord, kinds: str | Mapping[str, str]) -> Experiment:
    """Return the experiment of a record."""
    label = record.data.label
    return Experiment(
        record.data,
        inputs={
            name: given
            if isinstance(given, str)
            else as_input(name, given, label, kinds)
            for name, given in record.inputs.items()
        },
        doses=[as_dose(row) for row in record.doses],
        values=record.values,
        label=label,
    )


def as_input(
    name: str, series: InputSeries, label: str | None, kinds: str | Mapping[str, str]
) -> Input:
    """Return an input of an experiment. `kinds` is how it runs between its values, or
    how each input does."""
    kind: Any = kinds if isinstance(kinds, str) else kinds.get(name, "linear")
    try:
        return Input(*series, kind=kind)
    except ValueError as error:
        raise ValueError(
            f"Input {quoted(name)} of experiment {quoted(str(label))}: {error}"
        ) from None


def as_dose(row: DoseRow) -> Dose | SetState:
    """Return the dose of a row."""
    if row.is_set:
        return SetState(row.state, row.amount, row.time)
    return Dose(row.state, row.amount, row.time, row.duration, row.every, row.count)


def _check_kinds(kinds: str | Mapping[str, str], inputs: Mapping[str, Any]) -> None:
    """Refuse kinds of inputs that there are not, and unknown kinds."""
    by_name = {} if isinstance(kinds, str) else kinds
    for name in by_name:
        if name not in inputs:
            hint = did_you_mean(name, inputs) if inputs else ""
            raise ValueError(
                f"{wording.INPUT_KIND} names {quoted(name)}, which is no input.{hint}"
            )
    for kind in [kinds] if isinstance(kinds, str) else by_name.values():
        if kind not in ("linear", "steps", "cubic"):
            raise ValueError(
                f"{wording.INPUT_KIND} must be linear, steps or cubic, but got "
                f"{quoted(kind)}."
            )
