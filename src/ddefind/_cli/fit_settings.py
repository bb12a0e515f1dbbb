"""The settings of a fit: from options and TOML files, and to the file `fit.toml`."""

import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, final

from .._util import wording
from .._util.errors import did_you_mean, quoted
from .._util.text_files import file_name, read_text
from .._util.version import __version__
from .parse_options import Bounds, OptionError, check_bounds, check_level, read_prior
from .paths_in_settings import with_paths
from .setting_values import EXPECTED, read_value, toml_key, toml_value

Values = dict[str, float | list[float]]
# The methods of a fit.
LEAST_SQUARES, MULTIPLE_SHOOTING = METHODS = ("least-squares", "multiple-shooting")
# What stands for all parameters of the equation in `--positive`.
ALL = "all"
# The solvers that have a tolerance.
ADAPTIVE = ("tsit5", "radau")


@final
@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """Everything that determines the numbers of a fit.

    The fields are named as the options of `ddefind fit` and as the entries of its TOML
    files. `data` is a path, or several, and `model` a path and a name, `FILE.py:NAME`.
    None stands for the default.
    """

    data: str | list[str] | None = None
    group: str | None = None
    values: list[str] | None = None
    doses: str | dict[str, str] | None = None
    input_kind: str | dict[str, str] | None = None
    noise: str | dict[str, str] | None = None
    per_experiment: list[str] | None = None
    time: str | None = None
    columns: list[str] | dict[str, str] | None = None
    where: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    sheet: str | None = None
    time_zero: float | str | None = None
    equation: str | None = None
    model: str | None = None
    history: str | list[float] | None = None
    observe: str | None = None
    method: str | None = None
    starts: int | None = None
    seed: int = 0
    level: float | None = None
    solver: str | None = None
    rtol: float | None = None
    steps: int | None = None
    positive: list[str] | None = None
    set: Values = field(default_factory=dict)
    start: Values = field(default_factory=dict)
    bounds: dict[str, Bounds] = field(default_factory=dict)
    prior: dict[str, str] = field(default_factory=dict)
    network: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.data is None:
            raise OptionError(
                "Give a file of measurements: `ddefind fit DATA.csv ...`."
            )
        if self.is_study and self.method == MULTIPLE_SHOOTING:
            raise OptionError(
                "Several experiments are fitted by `--method least-squares`, not by "
                "`--method multiple-shooting`."
            )
        if self.per_experiment and not self.is_study:
            raise OptionError(
                "`--per-experiment` goes with several experiments: name their column "
                "by `--group`, or give several files."
            )
        if (self.equation is None) == (self.model is None):
            raise OptionError(
                "Give either `--equation TEXT` or `--model FILE.py:NAME`."
            )
        if self.solver not in (None, "auto", "rk4", *ADAPTIVE):
            raise OptionError(
                "`--solver` must be auto, rk4, tsit5 or radau, but got "
                f"{quoted(self.solver)}."
            )
        if self.method not in (None, *METHODS):
            raise OptionError(
                f"`--method` must be {' or '.join(METHODS)}, but got "
                f"{quoted(self.method)}."
            )
        if self.rtol is not None and self.solver not in ADAPTIVE:
            raise OptionError(
                "`--rtol` goes with `--solver tsit5` or `--solver radau`, which choose "
                "their steps by it."
            )
        self._check_numbers()
        for prior in self.prior.values():
            read_prior(prior)
        named = [name for name in self.positive or () if name != ALL]
        for name in named:
            if math.isfinite(self.bounds.get(name, Bounds()).lower):
                raise OptionError(
                    f"`--positive` and `--bounds` both limit {quoted(name)} from below."
                )
        for option, names in (
            ("--start", self.start),
            ("--bounds", self.bounds),
            ("--prior", self.prior),
            ("--positive", named),
        ):
            for name in names:
                if name in self.set:
                    raise OptionError(
                        f"{name!r} is set to a value, and so not learned: `{option}` "
                        "does not go with `--set`."
                    )

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of measurements."""
        return (self.data,) if isinstance(self.data, str) else tuple(self.data or ())

    @property
    def is_study(self) -> bool:
        """Whether there may be several experiments."""
        return self.group is not None or len(self.paths) > 1

    def _check_numbers(self) -> None:
        """Refuse numbers outside of their range."""
        for name, least in (("starts", 1), ("steps", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise OptionError(
                    f"`--{name}` needs a whole number from {least} on, but got {value}."
                )
        if self.level is not None:
            check_level(self.level)

    def toml(self) -> str:
        """Return the text of a TOML file that repeats the fit."""
        lines = [
            f"# Written by ddefind {__version__}. To repeat the fit:",
            "#   ddefind fit --config fit.toml",
        ]
        tables = []
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, dict):
                if value:
                    rows = [
                        f"{toml_key(k)} = {toml_value(v)}" for k, v in value.items()
                    ]
                    tables += ["", f"[{each.name}]", *rows]
            elif value is not None:
                lines.append(f"{each.name} = {toml_value(value)}")
        return "\n".join([*lines, *tables]) + "\n"


def combine_settings(
    file: str | os.PathLike[str] | None, options: Mapping[str, Any]
) -> FitSettings:
    """Return the settings of a TOML file, if there is one, and of options, which
    override it. Parameters are overridden one by one, by name."""
    settings = {} if file is None else _read(Path(file))
    given = {
        name: value for name, value in options.items() if value not in (None, {}, [])
    }
    if "equation" in given or "model" in given:
        settings.pop("equation", None)
        settings.pop("model", None)
    for name, value in given.items():
        old = settings.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            value = {**old, **value}
        settings[name] = value
    return FitSettings(**settings)


def unknown_setting(file: str, name: str, known: Iterable[str]) -> OptionError:
    """Return the error of a file with a setting that is none of the `known`."""
    if name == "huber":
        says = wording.instead_of_huber("setting `huber`", '`noise = "student"`')
        return OptionError(f"{file}: {says}")
    hint = did_you_mean(name, known)
    return OptionError(f"{file}: there is no setting {name!r}.{hint}")


def _read(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file, with its types checked."""
    text, _ = read_text(path)
    try:
        settings = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise OptionError(f"{file_name(path)}: {error}.") from None
    known = [each.name for each in fields(FitSettings)]
    for name, value in settings.items():
        if name not in known:
            raise unknown_setting(file_name(path), name, known)
        try:
            settings[name] = read_value(name, value)
        except (AttributeError, TypeError, ValueError):
            raise OptionError(
                f"{file_name(path)}: `{name}` must be {EXPECTED.get(name, 'a text')}, "
                f"but it is {value!r}."
            ) from None
    check_bounds(settings.get("bounds", {}))
    return with_paths(settings, lambda place: os.path.join(path.parent, place))
