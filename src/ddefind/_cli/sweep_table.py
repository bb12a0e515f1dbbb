"""The table of a sweep: files x equations x settings, from a TOML file; and what it
names, which is read before anything is fitted."""

import glob
import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, final

import ddefind as dd

from .._fitting.fit_options import SETTINGS
from .._util.errors import did_you_mean, quoted
from .._util.files import file_name, read_text
from .fit_settings import ALL, FitSettings, checked_settings, places
from .parse_options import OptionError, is_equation_file

_TABLES = ("files", "equations", "settings")
# Settings that a sweep cannot have, since each file is a data set of its own.
_OF_STUDIES = (
    *("data", "group", "values", "doses", "inputs", "input_kind", "per_experiment"),
    *("equation", "model"),
)
# The names that folders of fits may have.
_NAME = re.compile(r"[\w-][\w.-]*")
# At most this many files that cannot be read are named.
_MOST_NAMED = 5
# Settings that name parameters.
_BY_PARAMETER = ("set", "start", "bounds", "prior", "positive")
# Files in the folder of a sweep: the table of all fits, and the numbers of fits.
TABLE, PLAN = "table.csv", "plan.json"


@final
@dataclass(frozen=True)
class Group:
    """The fits of one equation with one kind of settings, to all files."""

    name: str
    equation: str
    settings_name: str
    settings: FitSettings


@final
@dataclass(frozen=True)
class SweepTable:
    """The parts of a sweep: files, and groups of fits to all of them."""

    files: tuple[str, ...]
    groups: tuple[Group, ...]

    def __str__(self) -> str:
        files, groups = len(self.files), len(self.groups)
        equations = len({group.equation for group in self.groups})
        kinds = len({group.settings_name for group in self.groups})
        factors = [_counted(files, "file"), _counted(equations, "equation")]
        if kinds > 1:
            factors.append(f"{kinds} kinds of settings")
        return f"{_counted(files * groups, 'fit')}: {' x '.join(factors)}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def read_sweep_table(path: Path) -> SweepTable:
    """Read the table of a sweep, in which paths are relative to its folder."""
    name, (text, _) = file_name(path), read_text(path)
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise OptionError(f"{name}: {error}.") from None
    for key in content:
        if key not in _TABLES:
            hint = did_you_mean(key, _TABLES)
            raise OptionError(
                f"{name}: a sweep has no {key!r}, only `files`, `[equations]` and "
                f"`[settings.NAME]`.{hint}"
            )
    files = _files(name, path.parent, content.get("files"))
    equations = _equations(name, path.parent, content.get("equations"))
    settings = content.get("settings", {"usual": {}})
    if not isinstance(settings, dict) or not settings:
        _refuse(name, "settings", "tables by name, as [settings.robust]", settings)
    groups = []
    for kind, given in settings.items():
        values = _settings(name, kind, given)
        for label, equation in equations.items():
            folder = label if len(settings) == 1 else f"{label}-{kind}"
            try:
                made = FitSettings(data=files[0], equation=equation, **values)
            except OptionError as error:
                raise OptionError(f"{name}, settings {kind!r}: {error}") from None
            groups.append(Group(folder, label, kind, made))
    _check_folders(name, [group.name for group in groups])
    return SweepTable(files, tuple(groups))


def _check_folders(name: str, folders: list[str]) -> None:
    """Refuse a folder of fits that has the name of another, or of a file. For some
    systems small and capital letters are the same."""
    from .._sweeps.database import FILES

    known: dict[str, str] = {}
    for folder in folders:
        same = folder.casefold()
        if same in (TABLE, PLAN, *FILES):
            raise OptionError(
                f"{name}: the equation {folder!r} would get a folder of this name, but "
                f"`{same}` is a file of the sweep itself. Rename the equation."
            )
        if same in known:
            raise OptionError(
                f"{name}: the fits {known[same]!r} and {folder!r} would be in one "
                "folder where small and capital letters are the same. Rename an "
                "equation."
            )
        known[same] = folder


def _refuse(name: str, key: str, expected: str, value: Any) -> NoReturn:
    came = "it is missing" if value is None else f"it is {value!r}"
    raise OptionError(f"{name}: `{key}` must be {expected}, but {came}.")


def _files(name: str, folder: Path, given: Any) -> tuple[str, ...]:
    """Return the files that match the patterns, each once."""
    patterns = [given] if isinstance(given, str) else given
    is_list = isinstance(patterns, list) and patterns
    if not is_list or not all(isinstance(each, str) for each in patterns):
        _refuse(name, "files", 'a list of files, as ["lakes/*.csv"]', given)
    found: list[str] = []
    for pattern in patterns:
        place = os.path.normpath(os.path.join(folder, pattern))
        paths = [place] if os.path.exists(place) else sorted(glob.glob(place))
        if not paths:
            raise OptionError(f"{name}: `files`: there is no file {quoted(pattern)}.")
        found += [path for path in paths if path not in found]
    return tuple(found)


def _equations(name: str, folder: Path, given: Any) -> dict[str, str]:
    """Return the texts of the equations by name. One may be the path of a text file."""
    is_table = isinstance(given, dict) and given
    if not is_table or not all(isinstance(each, str) for each in given.values()):
        _refuse(name, "equations", "a table of equations by name", given)
    texts = {}
    for label, text in given.items():
        _check_name(name, "equations", label)
        if "=" not in text:
            place = os.path.join(folder, text)
            if ".py:" in text or not is_equation_file(place):
                raise OptionError(
                    f"{name}: the equation {label!r} must be a text, or a text file "
                    f"with one, but it is {quoted(text)}. Models that are code are "
                    "fitted in Python, by `dd.fit_many(..., folder=...)`."
                )
            text, _ = read_text(place)
        texts[label] = text
    return texts


def _check_name(name: str, table: str, label: str) -> None:
    if not _NAME.fullmatch(label):
        raise OptionError(
            f"{name}: {quoted(label)} in `{table}` becomes a folder: its name may have "
            "letters, digits, `_`, `-` and `.` only."
        )


def _settings(name: str, kind: str, given: Any) -> dict[str, Any]:
    """Return the settings of one name, checked, as arguments of `FitSettings`."""
    _check_name(name, "settings", kind)
    if not isinstance(given, dict):
        _refuse(name, f"settings.{kind}", "a table, as of a fit.toml", given)
    for key in given:
        if key in _OF_STUDIES:
            raise OptionError(
                f"{name}: `settings.{kind}` has {key!r}, which a sweep does not have: "
                "each file is a data set of its own, and `[equations]` has the models."
            )
    known = [key for key in SETTINGS if key not in _OF_STUDIES]
    read = checked_settings(name, given, known, f"settings.{kind}.")
    from .._equation.history_kinds import CHOSEN_BY_FIT

    if read.get("history") in CHOSEN_BY_FIT:
        raise OptionError(
            f"{name}: the history {read['history']!r} follows from the data, but a "
            "sweep has one model for all files. Choose another, such as 'affine'."
        )
    return read


def read_groups(
    table: SweepTable,
) -> "list[tuple[Group, dd.Equation | dd.Problem, list[dd.Data]]]":
    """Read all equations and files. Return each group, with the settings that apply to
    its equation, beside its model and data."""
    from .model_file import names_of_parameters, read_model

    models = []
    for group in table.groups:
        try:
            models.append(read_model(vars(group.settings)))
        except ValueError as error:
            raise OptionError(f"The equation {group.equation!r}: {error}") from None
    parameters = [names_of_parameters(model) for model in models]
    known = set[str]().union(*parameters)
    data: dict[str, list[dd.Data]] = {}
    found = []
    for group, model, names in zip(table.groups, models, parameters):
        kind = group.settings_name
        if kind not in data:
            data[kind] = _data(table.files, group.settings)
        settings = _settings_for(group, names, known)
        found.append((replace(group, settings=settings), model, data[kind]))
    return found


def _settings_for(group: Group, names: set[str], known: set[str]) -> FitSettings:
    """Return the settings without parameters that only other equations have."""
    changes: dict[str, Any] = {}
    for field in _BY_PARAMETER:
        given: Any = getattr(group.settings, field)
        kept = []
        for name in given or ():
            array = name.split("[")[0]
            if array not in {*known, ALL}:
                raise OptionError(
                    f"The settings {group.settings_name!r}: `{field}` has {name!r}, "
                    "which is a parameter of no equation."
                    f"{did_you_mean(name, sorted(known))}"
                )
            if array in {*names, ALL}:
                kept.append(name)
        if given:
            is_dict = isinstance(given, dict)
            changes[field] = {n: given[n] for n in kept} if is_dict else kept
    return replace(group.settings, **changes)


def _data(files: Sequence[str], settings: FitSettings) -> "list[dd.Data]":
    """Read the files, or say which cannot be read."""
    sets, errors = [], []
    for file in files:
        try:
            sets.append(dd.read_csv(file, **places(settings)))
        except dd.DataError as error:
            errors.append(str(error))
    if errors:
        more = len(errors) - _MOST_NAMED
        shown = errors[:_MOST_NAMED] + ([f"and {more} more"] if more > 0 else [])
        raise dd.DataError("\n".join(shown))
    return sets
