"""The request of a fit: its tasks (problems and data) and its options."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypedDict,
    TypeVar,
    Unpack,
    final,
    overload,
)

import numpy as np

from .._data.data import Data, DataStack, check_sizes, data_set, joined
from .._engine.runge_kutta import AbstractIntegrator
from .._equation.equation import Equation
from .._loss.gradients import AbstractGradient, check_data
from .._loss.losses import AbstractLoss, SumOfSquares
from .._problem.network import Network
from .._problem.parameters import Parameter, find, parameter_arrays
from .._problem.problem import Problem
from .._util import wording
from .._util.errors import DataError, check_level, did_you_mean, shown
from .._util.progress import Progress
from .fit_options import ALL_FITS, DESCENT, defaults, with_fields


def by_full_names(
    problem: Problem, parameters: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the settings of a problem's parameters by their full names, which stay
    unambiguous when the history has other parameters.

    >>> import ddefind as dd
    >>> model = dd.equation("x' = a * x(t - tau)")
    >>> by_full_names(model.blank, {"a": 1.0})
    {'rhs.a': 1.0}
    """
    arrays = parameter_arrays(problem)
    full = {}
    for key, setting in (parameters or {}).items():
        elements = find(key, arrays).tolist()
        array = next(a for a in arrays if a.first <= elements[0] < a.first + a.size)
        whole = len(elements) == array.size
        names = array.elements(array.name)
        full[array.name if whole else names[elements[0] - array.first]] = setting
    return full


Item = TypeVar("Item")


@final
@dataclass(frozen=True)
class FitTask:
    """One fit: the problem of each experiment, and their data. A fit to one data set
    has one experiment; `data` are then a `Data`, and else a `StudyData`.

    `parameters` are the settings of the parameters by name, with those that the
    `equations` imply, and `starts` are start values of this fit alone; `known` are the
    parameters that are known in each experiment. `seed` is for random starts.
    `equations` are the texts that the problems were made of, if they were."""

    problems: tuple[Problem, ...]
    data: Any
    parameters: Mapping[str, Any] | None
    seed: int
    equations: tuple[Equation, ...] = ()
    starts: Mapping[str, float] = field(default_factory=dict)
    known: tuple[Mapping[str, Any], ...] = ({},)

    @property
    def problem(self) -> Problem:
        """The problem of the first experiment."""
        return self.problems[0]

    @property
    def equation(self) -> Equation | None:
        """The text that it was made of, if any."""
        return next(iter(self.equations), None)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the parameters by name, with the starts of this fit."""
        settings = dict(self.parameters or {})
        for name, value in self.starts.items():
            shared = settings.get(name)
            bounds = shared if isinstance(shared, Parameter) else Parameter()
            settings[name] = replace(bounds, start=value)
        return settings


@final
@dataclass(frozen=True)
class FitTasks(Sequence[FitTask]):
    """The fits of a `fit_many`, numbered. What is given once is for all of them. Task i
    is made when it is read, with the seed `seed` + i."""

    problems: Sequence[Problem]
    sets: Sequence[Data]
    starts: Sequence[Mapping[str, float]]
    seed: int
    equation: Equation | None
    parameters: Mapping[str, Any] | None = None

    def __len__(self) -> int:
        return max(map(len, (self.problems, self.sets, self.starts)))

    @overload
    def __getitem__(self, index: int) -> FitTask: ...
    @overload
    def __getitem__(self, index: slice) -> list[FitTask]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        if not -len(self) <= index < len(self):
            raise IndexError(f"There are {len(self)} fits; {index} is outside.")
        number = int(index) % len(self)

        def own(given: Sequence[Any]) -> Any:
            return given[number if len(given) > 1 else 0]

        problems, data, starts = (own(self.problems),), own(self.sets), own(self.starts)
        equations = () if self.equation is None else (self.equation,)
        seed = self.seed + number
        return FitTask(problems, data, self.parameters, seed, equations, starts)

    @property
    def has_random_starts(self) -> bool:
        """Whether starts are drawn at random, so that they differ from fit to fit."""
        return any(
            isinstance(setting, Parameter) and isinstance(setting.start, str)
            for setting in (self.parameters or {}).values()
        )

    def check_data(self) -> None:
        """Check that the data have as many quantities as the problems observe."""
        observed = {problem.observed for problem in distinct(self.problems)}
        numbers: Iterable[int] = range(len(self.sets))
        if isinstance(self.sets, DataStack):
            numbers = sorted({0, *self.sets.of_unusual_size().tolist()})
        for number in numbers:
            for quantities in observed:
                try:
                    check_data(self.sets[number], quantities)
                    check_sizes(self.sets[number].x)
                except DataError as error:
                    if len(self.sets) == 1:
                        raise
                    which = data_set(number, self.sets[number].label)
                    raise DataError(f"{which}: {error}") from None

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The label of the data of each task, if all of them have one."""
        if len(self.sets) == 1 < len(self):
            return None
        if isinstance(self.sets, DataStack):
            return self.sets.labels
        labels = [data.label for data in self.sets]
        return None if None in labels else tuple(map(str, labels))

    def stack(self, numbers: np.ndarray) -> DataStack:
        """Return the data of the tasks with these numbers, as arrays."""
        rows = numbers if len(self.sets) > 1 else 0 * numbers
        if isinstance(self.sets, DataStack):
            return self.sets.take(rows)
        return joined([self.sets[i] for i in rows])


def distinct(items: Iterable[Item]) -> list[Item]:
    """Return the items without repetitions of the same object."""
    return list({id(item): item for item in items}.values())


class LeastSquaresKeywords(TypedDict, total=False):
    """The types of the keyword arguments that every method has."""

    history: Any
    inputs: Mapping[str, Any] | None
    doses: Any
    networks: Mapping[str, Network] | None
    parameters: Mapping[str, Any] | None
    noise: Any
    solver: AbstractIntegrator | Literal["auto"]
    steps_per_delay: int | None
    seed: int
    intervals: bool | None
    level: float
    progress: bool | Callable[[Progress], None] | None


class FitKeywords(LeastSquaresKeywords, total=False):
    """The types of the keyword arguments of `fit`."""

    loss: AbstractLoss
    gradient: AbstractGradient | None
    epochs: int | None
    threshold: float | None


@final
@dataclass(frozen=True, kw_only=True)
@with_fields(defaults(ALL_FITS, DESCENT))
class FitOptions:
    """The options that all fits of a call share, from the table in `fit_options.py`.
    None stands for the default of the method."""

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[FitKeywords]) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        if self.loss is None:
            object.__setattr__(self, "loss", SumOfSquares())


def read_options(function: str, keywords: FitKeywords) -> FitOptions:
    """Read the options from keyword arguments; name a misspelt one with its remedy."""
    known = [each.name for each in fields(FitOptions)]
    for name in keywords:
        if name == "huber":
            raise TypeError(wording.instead_of_huber("`huber`"))
        if name not in known:
            raise TypeError(
                f"`{function}` has no argument `{name}`."
                f"{did_you_mean(name, [*known, 'optimizer'])}"
            )
    options = FitOptions(**keywords)
    check_level(options.level)
    if not isinstance(options.parameters, Mapping | None):
        raise TypeError(
            "`parameters` maps names to settings, as {'tau': dd.Parameter(start=1.0, "
            f"lower=0.1)}} or {{'tau': 1.0}}, but got {shown(options.parameters)}."
        )
    check_seed(options.seed)
    return options


def check_seed(seed: Any) -> None:
    """Raise an error unless `seed` can be that of random numbers."""
    is_whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not is_whole or seed < 0:
        raise ValueError(f"`seed` must be an integer from 0 on, but got {shown(seed)}.")
