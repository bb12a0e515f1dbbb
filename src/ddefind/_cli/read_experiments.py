"""Reading the data of a fit: one record, or the experiments of a study."""

from typing import TYPE_CHECKING, Any, NamedTuple

from .._data.data import read_csv
from .._equation.equation import Equation
from .._fitting.read_study import read_study
from .._problem.problem import Problem
from .fit_settings import FitSettings
from .parse_options import OptionError

if TYPE_CHECKING:
    from .._data.data import Data
    from .._fitting.study import Experiment


class FitData(NamedTuple):
    """What a fit is made to: data, or a list of experiments; and, for data, what else
    is known of them, as arguments of `ddefind.fit`."""

    data: "Data | list[Experiment]"
    options: dict[str, Any]
    values: dict[str, float]

    def __str__(self) -> str:
        if isinstance(self.data, list):
            return "\n".join(str(each.data) for each in self.data)
        return str(self.data)

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences on how the data were read."""
        if isinstance(self.data, list):
            return tuple(note for each in self.data for note in each.data.notes)
        return self.data.notes


def read_data(settings: FitSettings, model: Equation | Problem) -> FitData:
    """Read the files of measurements, with the inputs and doses beside them."""
    places: dict[str, Any] = {
        "time": settings.time,
        "columns": settings.columns,
        "where": settings.where,
        "sheet": settings.sheet,
        "start": settings.time_zero,
    }
    further = (settings.values, settings.inputs, settings.doses)
    if not settings.is_study and not any(further):
        return FitData(read_csv(settings.paths[0], **places), {}, {})
    experiments = read_study(
        settings.paths,
        group=settings.group,
        values=settings.values or (),
        inputs=settings.inputs,
        input_kind=settings.input_kind or "linear",
        doses=doses_of(settings.doses, model),
        **places,
    )
    if settings.is_study:
        return FitData(experiments, {}, {})
    (only,) = experiments
    given = {"inputs": only.inputs or None, "doses": only.doses or None}
    options = {name: each for name, each in given.items() if each is not None}
    return FitData(only.data, options, dict(only.values or {}))


def doses_of(
    doses: str | dict[str, str] | None, model: Equation | Problem
) -> str | dict[str, str] | None:
    """Return the places of doses. A single state receives all of them."""
    if not isinstance(doses, str) or isinstance(model, Problem):
        return doses
    return {model.states[0]: doses} if len(model.states) == 1 else doses


def check_per_experiment(settings: FitSettings) -> None:
    """Refuse parameters that are at the same time known and of each experiment."""
    for name in settings.per_experiment or ():
        if name in settings.set or name in (settings.values or ()):
            raise OptionError(
                f"{name!r} is known: `--per-experiment` does not go with `--set` or "
                "`--values`."
            )
