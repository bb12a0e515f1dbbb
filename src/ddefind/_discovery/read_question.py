"""The arguments of `discover`: read, checked, and made into a question."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import ddefind as dd

from .._data.study_data import Records, parts_of, study_data
from .._fitting.read_tasks import labels_of, read_experiments
from .._util import wording
from .._util.errors import check_instance, quoted, shown
from .._util.shown import listed
from .inner_parameters import powers_as_factors
from .library import Library, make_library, read_known
from .search import charge_of_term
from .stages import Question
from .terms import Term, delay_names, read_terms
from .weak_form import make_record

_MOST_DELAYS = 3
# By default delays are searched between these shares of the sampling interval and of
# the record.
_SHORTEST, _LONGEST = 0.5, 1 / 3
_LEAST_POINTS = 20

Settings = dict[str, dd.Parameter | dd.Fixed]


def read_question(
    data: Any, terms: Any, delays: int, known: Any, parameters: Any
) -> Question:
    """Return the question from the arguments of `discover`."""
    if parameters is not None and not isinstance(parameters, Mapping):
        raise TypeError(
            "`parameters` maps names to settings, as {'tau': dd.Parameter(lower=1, "
            f"upper=5)}}, but got {shown(parameters)}."
        )
    records = _read_data(data)
    settings = {str(n): _setting(n, each) for n, each in (parameters or {}).items()}
    states = records.names
    curves = [each for part in parts_of(records) if (each := make_record(part))]
    if not curves:
        raise ValueError(
            "`data` has too few times at which all states can be known for a smooth "
            "curve: measure them at the same times, or more often."
        )
    read = read_terms(terms, states, max(delays, 1))
    for item in [terms] if isinstance(terms, str) else terms:
        # Libraries do without their delayed terms.
        if delays == 0 and re.search(r"\btau\b", item):
            raise ValueError(
                f"The term {quoted(item)} needs a delay, but {wording.MOST_DELAYS} "
                "is 0."
            )
    parts = read_known(known, states)
    library = make_library(states, read, max(delays, 1), parts)
    _check_parameters(read, states, max(delays, 1), settings)
    _check_names(settings, library)
    bounds = _bounds_of_delays(records, settings.get("tau"), delays)
    charge = charge_of_term(sum(delays > 0 or not term.delays for term in read))
    return Question(states, records, curves, terms, parts, settings, bounds, charge)


def read_number_of_delays(delays: Any) -> int:
    """Return the largest number of delays."""
    text = re.fullmatch(r"(?:up to )?\s*(\d+)", str(delays).strip())
    if isinstance(delays, bool) or text is None or int(text.group(1)) > _MOST_DELAYS:
        raise ValueError(
            f"{wording.MOST_DELAYS} must be the largest number of delays, from 0 to "
            f"{_MOST_DELAYS}, or a text such as 'up to 2', but got {shown(delays)}."
        )
    return int(text.group(1))


# Settings of parameters


def _setting(name: Any, setting: Any) -> dd.Parameter | dd.Fixed:
    """Return the setting of one parameter: its bounds, or its value."""
    if isinstance(setting, dd.Fixed) and _is_number(setting.value):
        return dd.Fixed(float(setting.value))
    if not isinstance(setting, dd.Parameter):
        raise TypeError(
            f"`parameters[{name!r}]` must be a `dd.Parameter(lower=..., upper=...)`"
            f" or `dd.Fixed(value)`, but got {shown(setting)}."
        )
    if setting != dd.Parameter(lower=setting.lower, upper=setting.upper):
        raise ValueError(
            f"`parameters[{name!r}]` can have `lower` and `upper` in `discover`, and "
            "nothing else."
        )
    low, high = (_bound(str(name), end) for end in (setting.lower, setting.upper))
    if low is not None and high is not None and not low < high:
        raise ValueError(
            f"The bounds of {wording.setting(str(name))} must be in ascending order, "
            f"but got {low:.6g} and {high:.6g}."
        )
    return dd.Parameter(lower=low, upper=high)


def _bound(name: str, end: Any) -> float | None:
    """Return one bound of a parameter; None if it is infinite."""
    if end is None or (isinstance(end, float) and np.isinf(end)):
        return None
    if not _is_number(end):
        raise ValueError(
            f"The bounds of {wording.setting(name)} must be numbers, but got "
            f"{shown(end)}."
        )
    return float(end)


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float | np.integer | np.floating)
        and not isinstance(value, bool)
        and bool(np.isfinite(value))
    )


def _check_parameters(
    terms: Sequence[Term], states: Sequence[str], delays: int, settings: Settings
) -> None:
    """Refuse parameters that are misspelt states, and parameters that no term can
    determine: factors, and values at which a term jumps."""
    alike = {state.lower(): state for state in states if len(state) > 1}
    powers = {t: powers_as_factors(t, states, delay_names(delays)) for t in terms}
    for term in terms:
        for name in term.parameters:
            if name.lower() in alike:
                raise ValueError(
                    f"The term {quoted(term.text)} has a parameter {name}, which is "
                    f"called like the state {alike[name.lower()]}. Write the state as "
                    "its column is called, or give the parameter another name."
                )
            everywhere = [powers[t].get(name) for t in terms if name in t.parameters]
            if None in everywhere:
                continue
            if any(everywhere):
                raise ValueError(
                    f"The term {quoted(term.text)} is multiplied by a number that is "
                    f"learned, so that {name} has no value of its own. Leave it out."
                )
            if not isinstance(settings.get(name), dd.Fixed):
                raise ValueError(
                    f"The term {quoted(term.text)} does not change smoothly with "
                    f"{name}, so that {name} cannot be learned. Write a number in its "
                    f"place, or a smooth step such as x^n / ({name}^n + x^n)."
                )


def _check_names(settings: Settings, library: Library) -> None:
    """Refuse settings of names that are no parameters."""
    names = {*library.parameters, "tau"}
    for name in settings:
        if name in delay_names(_MOST_DELAYS):
            raise ValueError(
                f"{wording.setting(name)}: delays get their numbers when the search is "
                "over, and all have the same bounds. Give these to `tau`."
            )
        if library.is_coefficient(name):
            raise ValueError(
                f"{wording.setting(name)}: coefficients of terms get their numbers "
                "when the search is over, and cannot be bounded. What you know of an "
                f"equation can be given by {wording.KNOWN_PARTS}."
            )
        if name not in names:
            raise ValueError(
                f"{wording.setting(name)} stands in no term. Known names: "
                f"{', '.join(sorted(names))}."
            )


def _bounds_of_delays(
    data: Records, setting: dd.Parameter | dd.Fixed | None, delays: int
) -> tuple[float, float]:
    """Return the range in which delays are searched."""
    steps = np.concatenate([np.diff(np.unique(part.t)) for part in parts_of(data)])
    low, high = _SHORTEST * float(np.median(steps)), _LONGEST * data.T
    if isinstance(setting, dd.Fixed):
        if delays > 1:
            raise ValueError(
                f"{wording.setting('tau')} can have a fixed value if there is at most "
                "one delay. Give it bounds, or search one delay."
            )
        low = high = float(setting.value)
    elif setting is not None:
        low = low if setting.lower is None else float(setting.lower)
        high = high if setting.upper is None else float(setting.upper)
    is_fixed = isinstance(setting, dd.Fixed)
    if not 0 < low <= high < data.T or (low == high and not is_fixed):
        hint = ""
        if setting is not None and not is_fixed and setting.upper is None:
            hint = " Give both ends: by default the longest is a third of the record."
        raise ValueError(
            f"{wording.setting('tau')}: delays are searched between {low:.6g} and "
            f"{high:.6g}, but these bounds must be positive, in this order, and "
            f"shorter than the record of {data.T:.6g}.{hint}"
        )
    return low, high


# Data


def _read_data(data: Any) -> Records:
    """Return the data, with times that begin at zero."""
    given: Any = data
    if isinstance(given, list | tuple) and {type(each) for each in given} == {dd.Data}:
        raise TypeError(
            "`data` is a list of data sets. If all of them have one equation, make "
            "experiments of them: `[dd.Experiment(each) for each in data]`."
        )
    experiments = read_experiments(data)
    if experiments is None:
        check_instance("data", data, dd.Data, "Data(t, x)")
        record = _one_record(data)
        _check_values([record])
        return record
    for each in experiments:
        if each.inputs or each.doses or each.values:
            raise ValueError(
                "`discover` takes the states alone: give it experiments without "
                "`inputs`, `doses` and `values`."
            )
    parts, labels = [_one_record(e.data) for e in experiments], labels_of(experiments)
    for part, label in zip(parts, labels):
        if part.names != parts[0].names:
            raise ValueError(
                f"The states of one experiment are {', '.join(part.names)}, those of "
                f"another {', '.join(parts[0].names)}. All need the same columns."
            )
        counts = np.isfinite(part.x).sum(axis=0)
        if absent := [n for n, count in zip(part.names, counts) if not count]:
            raise ValueError(
                f"Experiment {quoted(label)} has no value of {listed(absent)}, so that "
                "nothing is known of its beginning. Leave this experiment out."
            )
    _check_values(parts)
    return parts[0] if len(parts) == 1 else study_data(parts, labels)


def _check_values(parts: Sequence[dd.Data]) -> None:
    """Refuse a state with few values in all experiments together, and a state beside
    others that never changes."""
    names, values = parts[0].names, np.concatenate([part.x for part in parts])
    for name, column in zip(names, values.T):
        x = column[np.isfinite(column)]
        if len(x) < _LEAST_POINTS:
            raise ValueError(
                f"{quoted(name)} has {len(x)} values. `discover` needs at least "
                f"{_LEAST_POINTS} of every state."
            )
        if len(names) > 1 and np.ptp(x) == 0:
            raise ValueError(
                f"{quoted(name)} is {x[0]:.6g} everywhere, which says nothing of an "
                "equation. Leave this column out."
            )


def _one_record(data: dd.Data) -> dd.Data:
    """Return data with times from zero and with names that can stand in equations."""
    names = [re.sub(r"\[(\d+)\]", r"_\1", name) for name in data.names]
    for name in names:
        try:
            dd.equation(f"{name}' = -{name}(t - tau)")
        except dd.EquationError:
            raise ValueError(
                f"The column {quoted(name)} cannot stand in an equation as the name of "
                f"a state. Give it another name{wording.another_name(name)}."
            ) from None
    if data.below is not None:
        raise ValueError("`discover` needs values: some are only below a limit.")
    moved = data.from_first_time() if data.t[0] > 0 else data
    return moved if tuple(names) == data.names else moved.with_fields(names=names)
