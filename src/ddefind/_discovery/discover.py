"""`discover`: read the arguments, search, and fit the best equation by `dd.fit`."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import ddefind as dd

from .._data.study_data import Records, StudyData, parts_of
from .._fitting.read_tasks import labels_of, read_experiments
from .._fitting.request import check_seed
from .._util import wording
from .._util.errors import check_instance, quoted, shown
from .._util.progress import Reporter
from .._util.shown import listed
from .discovery import Discovery, FoundModel
from .exact import Question
from .inner_parameters import powers_as_factors
from .library import (
    Library,
    Term,
    delay_names,
    make_library,
    read_known,
    read_terms,
    renamed,
)
from .proposals import make_record
from .search import ORDINARY, Model, Search, charge_of_term, search_models

# The starts of the last fit, which begins at the values that the search found.
_STARTS = 6
# Models with less weight than this are not listed, but they count.
_LEAST_WEIGHT = 1e-4
_PHASES = (ORDINARY, "one delay", "2 delays", "3 delays")
_MOST_DELAYS = 3
# By default delays are searched between these shares of the sampling interval and of
# the record.
_SHORTEST, _LONGEST = 0.5, 1 / 3
_LEAST_POINTS = 20

Settings = dict[str, dd.Parameter | dd.Fixed]


def discover(
    data: dd.Data | dd.Experiment | Sequence[dd.Experiment],
    terms: str | Sequence[str] = "polynomial(2)",
    *,
    delays: int | str = 1,
    known: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    intervals: bool = True,
    seed: int = 0,
    progress: bool | Callable[[dd.Progress], None] | None = None,
) -> Discovery:
    """Find the terms and the delays of an equation from noisy states.

    Structures are proposed by the weak form of the equation over a scan of delays, and
    judged by fits of trajectories with all parameters and delays free. Adding and
    removing terms leads to the structure with the lowest score: the BIC plus 10 for
    each delay and 2 log(p) for each term, where an equation has p candidates.

    **Arguments**

    - `data`: the measurements of all states; the columns are called as the states. A
      list of `Experiment`s has one equation, and a history for each of them.
    - `terms`: the candidates for the equation of each state, one text or a list:
      `"polynomial(2)"` for all products of up to two states and delayed states;
      `"hill"`, `"exponential"` or `"saturation"` for functions of each state and
      delayed state; or formulas with parameters of their own, such as
      `"x(t - tau) / (1 + (x(t - tau) / K)^n)"`. A parameter has one value wherever its
      name stands. With several delays, `tau` stands for each of them.
    - `delays`: the largest number of delays, 0 to 3, or a text as `"up to 2"`.
    - `known`: known parts of equations, as `"x' = -0.5 * x"` or, with a parameter of
      any sign, `"x' = -d * x"`. Terms are added to them.
    - `parameters`: by name, bounds or the value of a parameter inside a term or of
      the delays, as `{"tau": dd.Parameter(lower=1, upper=5), "n": dd.Fixed(2)}`. By
      default delays are between half a sampling interval and a third of the record, and
      parameters inside terms are positive.
    - `intervals`: False leaves out the intervals of the last fit.
    - `seed`: of the random starts of the last fit. All else has nothing random.
    - `progress`: as for `dd.fit`.

    Interrupted by Ctrl-C, it returns the best so far: during the search without a fit,
    after it with the fit as far as it got. (Before there is any model, it raises
    `KeyboardInterrupt`.)

    >>> import numpy as np
    >>> import ddefind as dd
    >>> model = dd.equation("x' = r * x * (1 - x(t - tau))")
    >>> truth = dd.solve(model.problem(r=1.4, b=0.3, tau=1.0), T=20)
    >>> t = np.linspace(0, 20, 80)
    >>> noise = 0.02 * np.random.default_rng(0).normal(size=(80, 1))
    >>> found = dd.discover(dd.Data(t, truth(t) + noise), intervals=False)
    >>> found.terms["x"]
    ('x', 'x * x(t - tau)')
    """
    began = time.perf_counter()
    check_seed(seed)
    most = read_number_of_delays(delays)
    question = read_question(data, terms, most, known, parameters)
    with Reporter(progress, most + 2, 1) as reporter:

        def report(search: Search) -> None:
            number, best = _PHASES.index(search.phase.split(",")[0]), search.best
            tau = max(search.exact.delays_of(best).tolist(), default=np.nan)
            label = f"{search.phase}: {len(search.visited)} structures"
            reporter.show(label, number, 0, float(best.gram[0, 0]), tau)

        models, path, interrupted = search_models(question, most, report)
    best, estimate, searched = models[0], None, question.data
    history = best.search.exact.history if best.delays else "constant"
    equation = dd.equation(best.text, history=history)
    if not isinstance(searched, dd.Data):
        pairs = zip(searched.parts, searched.labels)
        searched = tuple(dd.Experiment(part, label=label) for part, label in pairs)
    settings = _last_settings(best, equation)
    if not interrupted:
        options = {"intervals": intervals, "seed": seed, "progress": progress}
        # Far from the data a search for something better would go on for long.
        starts = _STARTS if best.search.exact.is_near(best.fitted) else 1
        estimate, interrupted = _last_fit(
            equation, searched, settings, dd.LeastSquares(starts=starts), options
        )
    found = _found_models(models)
    plain = [each for each in found if not each.delays]
    delayed = [each for each in found if each.delays]
    listed_models = [each for each in found if each.weight >= _LEAST_WEIGHT]
    if delayed and not any(each.delays for each in listed_models):
        listed_models.append(delayed[0])
    return Discovery(
        equation=equation,
        parameters=settings,
        data=searched,
        fit=estimate,
        models=tuple(listed_models),
        inclusion=_inclusion(best, found, most),
        delay_probability=sum(each.weight for each in delayed),
        without_delay=plain[0] if plain else None,
        delay_bounds=question.bounds,
        term_charge=question.term_charge,
        path=tuple(path),
        interrupted=interrupted,
        seconds=time.perf_counter() - began,
    )


def _last_fit(
    equation: dd.Equation,
    data: Any,
    parameters: Mapping[str, dd.Parameter | dd.Fixed],
    optimizer: dd.LeastSquares,
    options: Mapping[str, Any],
) -> tuple[dd.Estimate | None, bool]:
    """Fit an equation. Return None if the fit has no finite loss; and whether it was
    interrupted, or its intervals, which it then lacks."""
    given: dict[str, Any] = {"optimizer": optimizer, "parameters": parameters}
    try:
        found = dd.fit(equation, data, **given, **options)
    except KeyboardInterrupt:
        return None, True
    if not np.isfinite(found.loss):
        return None, False
    lacks_intervals = options["intervals"] and found.assessment is None
    return found, lacks_intervals or found.status is dd.Status.interrupted


def _found_models(models: Sequence[Model]) -> list[FoundModel]:
    """Return the models with their weights."""
    scores = np.array([each.score for each in models])
    weights = np.exp(-0.5 * (scores - scores.min()))
    return [
        FoundModel(
            text=model.text,
            terms=model.terms,
            delays=model.delays,
            parameters=model.fitted.parameters,
            bic=model.fitted.bic,
            score=model.score,
            weight=weight,
        )
        for model, weight in zip(models, (weights / weights.sum()).tolist())
    ]


def _inclusion(
    best: Model, models: Sequence[FoundModel], delays: int
) -> dict[str, dict[str, float]]:
    """Return the probability of each candidate in each equation. Candidates are the
    terms that the best model's stage offered, delayed ones only with `delays`, and the
    terms of all models."""
    library = best.search.library
    terms = [term for term in library.terms if delays or not term.delays]
    candidates = [renamed(term.text, best.names) for term in terms]
    totals = {state: dict.fromkeys(candidates, 0.0) for state in library.states}
    for model in models:
        for state, chosen in model.terms.items():
            for term in chosen:
                totals[state][term] = totals[state].get(term, 0.0) + model.weight
    return totals


def _last_settings(
    model: Model, equation: dd.Equation
) -> dict[str, dd.Parameter | dd.Fixed]:
    """Return the settings of all parameters of a model, with the found values as
    starts, except of those that bend a smooth history."""
    exact, library = model.search.exact, model.search.library
    structure, theta = model.fitted.structure, model.fitted.theta
    settings, (low, high) = exact.question.settings, exact.question.bounds
    coefficients = theta[exact.coefficients[: len(structure)]].tolist()
    found: dict[str, dd.Parameter | dd.Fixed] = {
        f"{library.prefix}_{number}": dd.Parameter(value)
        for number, value in enumerate(coefficients, 1)
    }
    inner = dict(zip(library.parameters, theta[exact.inner_places].tolist()))
    for name in library.parameters_in(structure):
        setting, is_positive = settings.get(name), name not in library.known_parameters
        # A parameter of the history may have the same name.
        whole_name = name if name in equation.names else f"rhs.{name}"
        found[whole_name] = _with_start(inner[name], setting, is_positive)
    for name, value in model.delays.items():
        setting = settings.get("tau")
        if not isinstance(setting, dd.Fixed):
            setting = dd.Parameter(lower=low, upper=high)
        found[name] = _with_start(value, setting)
    data = exact.question.data
    ends = [""] if isinstance(data, dd.Data) else [f"@{label}" for label in data.labels]
    states = [f"[{i}]" for i in range(len(data.names))] if len(data.names) > 1 else [""]
    for field in "b" if equation.history == "constant" else "ab":
        for end, places in zip(ends, exact.history_places(field)):
            for state, value in zip(states, theta[places].tolist()):
                found[f"history.{field}{state}{end}"] = dd.Parameter(value)
    return found


def _with_start(
    value: float, setting: dd.Parameter | dd.Fixed | None, is_positive: bool = False
) -> dd.Parameter | dd.Fixed:
    """Return the setting with a start inside its bounds. A positive parameter has the
    lower bound zero, unless it has another one."""
    if isinstance(setting, dd.Fixed):
        return setting
    lower, upper = (None, None) if setting is None else (setting.lower, setting.upper)
    if is_positive and lower is None and (upper is None or upper > 0):
        lower = 0.0
    low = -np.inf if lower is None else lower
    high = np.inf if upper is None else upper
    width = high - low if np.isfinite(high - low) else max(abs(value), 1e-6)
    start = float(np.clip(value, low + 1e-6 * width, high - 1e-6 * width))
    return dd.Parameter(start, lower=lower, upper=upper)


# The arguments.


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
        if re.fullmatch(rf"{library.prefix}_\d+", name):
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
    return parts[0] if len(parts) == 1 else StudyData(tuple(parts), tuple(labels))


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
