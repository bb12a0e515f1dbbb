"""One experiment of a study: its data, and what is known about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from .._data.data import Data
from .._util.errors import check_instance, quoted, shown


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


def labels_of(experiments: Sequence[Experiment]) -> tuple[str, ...]:
    """The labels of the experiments of a study: their own, or their numbers."""
    labels = tuple(
        str(number) if each.label is None else each.label
        for number, each in enumerate(experiments, start=1)
    )
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(
                f"Two experiments have the label {quoted(label)}. Give each a label of "
                "its own: `dd.Experiment(data, label='low')`."
            )
    return labels
