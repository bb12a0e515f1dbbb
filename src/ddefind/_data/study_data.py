"""The experiments of a study, and their measurements, one after the other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, final

import numpy as np

from .._util.errors import DataError, check_instance, quoted, shown
from .data import Data


@final
@dataclass(frozen=True)
class Experiment:
    """One of several experiments that are fitted together: `dd.fit(model, [low, high])`
    with two of them.

    Parameters are shared by all experiments. The history and x(0) belong to each of
    them, and so does a parameter with `dd.Parameter(per_experiment=True)`: its values
    are called `b@low` and `b@high`, by the labels of the experiments.

    **Arguments**

    - `data`: the measurements. Their times and their quantities may differ from those
      of other experiments.
    - `inputs`: the inputs of the equation by name, such as a `dd.Input`.
    - `doses`: what was given to the system, and when: a `dd.Dose` or several.
    - `values`: parameters that are known in this experiment, by name.
    - `label`: the name of the experiment, by default that of its data, or else its
      number in the study.

    >>> Experiment(Data([0, 1], [5.0, 4.0]), values={"dose": 2.0}, label="low").label
    'low'
    """

    data: Data
    inputs: Mapping[str, Any] | None = None
    doses: Sequence[Any] = ()
    values: Mapping[str, Any] | None = None
    label: str | None = None

    def __post_init__(self):
        check_instance("data", self.data, Data, "Data(t, x)")
        for name in ("inputs", "values"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise TypeError(
                    f"`{name}` of an experiment maps names to values, as {{'u': ...}}, "
                    f"but got {shown(value)}."
                )
        if not isinstance(self.doses, Sequence) or isinstance(self.doses, str):
            object.__setattr__(self, "doses", (self.doses,))
        object.__setattr__(self, "doses", tuple(self.doses))
        label = self.data.label if self.label is None else str(self.label)
        if label is not None and ("@" in label or not label.strip()):
            raise ValueError(
                f"The label {quoted(label)} of an experiment must be a text without @, "
                "which stands between the name of a parameter and the label."
            )
        object.__setattr__(self, "label", label)


@final
@dataclass(frozen=True)
class StudyData:
    """The data of the experiments of a study, all with the same quantities: a column of
    NaN for one that was not measured there.

    `t`, `x` and `sd` hold the rows of all experiments, one after the other; each has
    its own time zero. `rows` says where each begins and ends."""

    parts: tuple[Data, ...]
    labels: tuple[str, ...]

    def __post_init__(self):
        named = list(zip(self.parts, self.labels))
        with_sd = [label for part, label in named if part.sd is not None]
        without = [label for part, label in named if part.sd is None]
        if with_sd and without:
            raise DataError(
                f"The data of {quoted(with_sd[0])} have standard deviations, those of "
                f"{quoted(without[0])} have none. Give them to all experiments or to "
                "none."
            )

    @property
    def names(self) -> tuple[str, ...]:
        return self.parts[0].names

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(note for part in self.parts for note in part.notes))

    @property
    def T(self) -> float:
        """The last time of the longest record."""
        return max(part.T for part in self.parts)

    @cached_property
    def t(self) -> np.ndarray:
        return np.concatenate([part.t for part in self.parts])

    @cached_property
    def x(self) -> np.ndarray:
        return np.concatenate([part.x for part in self.parts])

    @cached_property
    def sd(self) -> np.ndarray | None:
        given = [part.sd for part in self.parts if part.sd is not None]
        return np.concatenate(given) if given else None

    @cached_property
    def below(self) -> np.ndarray | None:
        """Which values are only known to be below a limit; None if there are none."""
        if all(part.below is None for part in self.parts):
            return None
        return np.concatenate(
            [
                np.zeros(part.x.shape, bool) if part.below is None else part.below
                for part in self.parts
            ]
        )

    @cached_property
    def rows(self) -> np.ndarray:
        """The first row of each experiment, and the first one after it, [parts, 2]."""
        return rows_of(self)

    def cut(self, array: np.ndarray) -> list[np.ndarray]:
        """Return the rows of an array that belong to each experiment."""
        return [array[first:last] for first, last in self.rows]

    def __len__(self) -> int:
        return len(self.t)

    def __repr__(self) -> str:
        return f"{len(self.parts)} experiments: {', '.join(self.labels)}"


# What a fit may be made to: one data set, or those of a study.
Records: TypeAlias = Data | StudyData


def parts_of(data: Records) -> tuple[Data, ...]:
    """Return the data of each experiment; one data set is a study of one experiment."""
    return (data,) if isinstance(data, Data) else data.parts


def rows_of(data: Records) -> np.ndarray:
    """Return the first row of each experiment, and the first after it, [parts, 2]."""
    ends = np.cumsum([0, *map(len, parts_of(data))])
    return np.stack([ends[:-1], ends[1:]], axis=1)


def experiment_labels(data: Records) -> tuple[str, ...]:
    """Return the labels of the experiments of a study; one data set has none."""
    return () if isinstance(data, Data) else data.labels


def longest_part(data: Records) -> Data:
    """Return the data set with the longest record."""
    return max(parts_of(data), key=lambda part: part.T)


def each_part(data: Records, array: np.ndarray) -> Iterator[tuple[Data, np.ndarray]]:
    """Yield the data of each experiment with their rows of an array."""
    if isinstance(data, Data):
        yield data, array
    else:
        yield from zip(data.parts, data.cut(array))


def with_parts(data: Records, parts: Sequence[Data]) -> Records:
    """Replace the data of each experiment."""
    return parts[0] if isinstance(data, Data) else replace(data, parts=tuple(parts))
