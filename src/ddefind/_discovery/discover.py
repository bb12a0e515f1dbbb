"""`discover`: it reads its arguments, searches, and fits what was found."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._data.data import Data
from .._data.study_data import Records, parts_of, study_data
from .._equation.equation import equation
from .._fitting.experiment import Experiment, labels_of
from .._fitting.fit import fit
from .._fitting.least_squares import LeastSquares
from .._fitting.study import read_experiments
from .._problem.parameters import Fixed, Parameter
from .._results.estimate import Estimate
from .._util import wording
from .._util.errors import check_instance, quoted, shown
from .._util.progress import Progress, Reporter
from .discovery import Discovery, FoundModel
from .library import read_known
from .search import DELAY_CHARGE, Model, Outcome, search_models
from .stages import ORDINARY, Question, Stage, renamed
from .terms import delay_names, read_terms
from .weak_form import make_record

_MOST_DELAYS = 3
# By default delays are searched between these shares of the sampling interval and of
# the record.
_SHORTEST, _LONGEST = 0.5, 1 / 3
_LEAST_POINTS = 20
# The starts of the last fit, which begins at what the search found.
_STARTS = 6
# Models with less weight than this are not listed, but they count.
_LEAST_WEIGHT = 1e-4
_PHASES = (ORDINARY, "one delay", "2 delays", "3 delays")


def discover(
    data: Data | Experiment | Sequence[Experiment],
    terms: str | Sequence[str] = "polynomial(2)",
    *,
    delays: int | str = 1,
    known: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    intervals: bool = True,
    seed: int = 0,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Discovery:
    """Find the terms and the delays of an equation from noisy states.

    Structures are proposed by the weak form of the equation over a scan of delays, and
    judged by fits of trajectories with all parameters and delays free: the one with the
    lowest BIC is sought by steps to terms more and less. A delay is claimed only if the
    BIC without it is higher by more than 10.

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
    - `known`: known parts of equations, as `"x' = -0.5 * x"`. Terms are added to them.
    - `parameters`: by name, bounds of a parameter inside a term or of the delays, as
      `{"tau": dd.Parameter(lower=1, upper=5)}`. By default delays are between half a
      sampling interval and a third of the record, and parameters inside terms are
      positive.
    - `intervals`: False leaves out the intervals of the last fit.
    - `seed`: of the random starts of the last fit. All else has nothing random.
    - `progress`: as for `dd.fit`.

    Interrupted by Ctrl-C, it returns the best so far, without a fit. (There is none
    before the end of the stage without a delay; the interruption then goes on.)

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
    most = _number_of_delays(delays)
    settings = _settings(parameters)
    given = _read_data(data)
    question = _question(given, terms, most, known, settings)
    with Reporter(progress, most + 2, 1) as reporter:

        def report(phase: str, stage: Stage) -> None:
            search, number = stage.search, _PHASES.index(phase.split(",")[0])
            best = search.best
            tau = float(np.max(best.theta[search.exact.delays]))
            label = f"{phase}: {len(search.visited)} structures"
            reporter.show(label, number, 0, float(best.gram[0, 0]), tau)

        outcome = search_models(question, most, report)
    estimate = None
    if not outcome.interrupted:
        try:
            estimate = _fit(
                outcome.models[0], given, settings, intervals, seed, progress
            )
        except KeyboardInterrupt:
            outcome = outcome._replace(interrupted=True)
    return _discovery(outcome, estimate, time.perf_counter() - began)


def _number_of_delays(delays: Any) -> int:
    text = re.fullmatch(r"(?:up to )?\s*(\d+)", str(delays).strip())
    if isinstance(delays, bool) or text is None or int(text.group(1)) > _MOST_DELAYS:
        raise ValueError(
            f"{wording.MOST_DELAYS} must be the largest number of delays, from 0 to "
            f"{_MOST_DELAYS}, or a text such as 'up to 2', but got {shown(delays)}."
        )
    return int(text.group(1))


def _settings(parameters: Any) -> dict[str, Parameter]:
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):
        raise TypeError(
            "`parameters` maps names to settings, as {'tau': dd.Parameter(lower=1, "
            f"upper=5)}}, but got {shown(parameters)}."
        )
    settings = {}
    for name, setting in parameters.items():
        if isinstance(setting, Fixed) and isinstance(setting.value, int | float):
            # The search treats it like all others, within a narrow range.
            value = float(setting.value)
            setting = Parameter(value, value * (1 - 1e-9), value * (1 + 1e-9))
        if not isinstance(setting, Parameter):
            raise TypeError(
                f"`parameters[{name!r}]` must be a `dd.Parameter(lower=..., upper=...)`"
                f" or `dd.Fixed(value)`, but got {shown(setting)}."
            )
        settings[str(name)] = setting
    return settings


def _read_data(data: Any) -> Records:
    """The data, with times that begin at zero."""
    experiments = read_experiments(data)
    if experiments is None:
        check_instance("data", data, Data, "Data(t, x)")
        return _one_record(data)
    for each in experiments:
        if each.inputs or each.doses or each.values:
            raise ValueError(
                "`discover` takes the states alone: give it experiments without "
                "`inputs`, `doses` and `values`."
            )
    parts = [_one_record(each.data) for each in experiments]
    for part in parts:
        if part.names != parts[0].names:
            raise ValueError(
                f"The states of one experiment are {', '.join(part.names)}, those of "
                f"another {', '.join(parts[0].names)}. All need the same columns."
            )
    return parts[0] if len(parts) == 1 else study_data(parts, labels_of(experiments))


def _one_record(data: Data) -> Data:
    names = [re.sub(r"\[(\d+)\]", r"_\1", name) for name in data.names]
    for name in names:
        if not name.isidentifier():
            raise ValueError(
                f"The column {quoted(name)} cannot stand in an equation as the name of "
                "a state. Give it another name."
            )
    if data.below is not None:
        raise ValueError("`discover` needs values: some are only below a limit.")
    counts = np.isfinite(data.x).sum(axis=0)
    if counts.min() < _LEAST_POINTS:
        few = data.names[int(np.argmin(counts))]
        raise ValueError(
            f"{quoted(few)} has {counts.min()} values. `discover` needs at least "
            f"{_LEAST_POINTS} of every state."
        )
    moved = data.from_first_time() if data.t[0] > 0 else data
    if tuple(names) == data.names:
        return moved
    return Data(
        moved.t,
        moved.x,
        sd=moved.sd,
        names=names,
        label=data.label,
        origin=moved.origin,
        notes=moved.notes,
    )


def _question(
    data: Records,
    terms: Any,
    delays: int,
    known: str | None,
    settings: Mapping[str, Parameter],
) -> Question:
    states = data.names
    records = [each for part in parts_of(data) if (each := make_record(part))]
    if not records:
        raise ValueError("`data` has too few different times for a smooth curve.")
    steps = np.concatenate([np.diff(np.unique(part.t)) for part in parts_of(data)])
    low, high = _SHORTEST * float(np.median(steps)), _LONGEST * data.T
    given = [settings[n] for n in ("tau", *delay_names(delays)) if n in settings]
    for each in given:
        low = low if each.lower is None else float(each.lower)
        high = high if each.upper is None else float(each.upper)
    if not 0 < low < high < data.T:
        raise ValueError(
            f"Delays are searched between {low:.6g} and {high:.6g}: these bounds must "
            f"be positive, in this order, and shorter than the record of {data.T:.6g}."
        )
    read = read_terms(terms, states, max(delays, 1))
    if delays == 0:
        _check_no_delay([terms] if isinstance(terms, str) else terms)
    parts = read_known(known, states)
    names = {name for term in read for name in term.parameters}
    unknown = set(settings) - names - {"tau", *delay_names(delays)}
    unknown = {n for n in unknown if known is None or not re.search(rf"\b{n}\b", known)}
    if unknown:
        raise ValueError(
            f"{wording.setting(min(unknown))} stands in no term. Known names: "
            f"{', '.join(sorted(names | {'tau'}))}."
        )
    return Question(states, data, records, terms, parts, settings, (low, high))


def _check_no_delay(terms: Sequence[str]) -> None:
    """Refuse a formula that needs a delay where none is sought. Libraries do without
    their delayed terms."""
    for item in terms:
        if re.search(r"\btau\b", item):
            raise ValueError(
                f"The term {quoted(item)} needs a delay, but {wording.MOST_DELAYS} "
                "is 0."
            )


def _fit(
    model: Model,
    data: Records,
    settings: Mapping[str, Parameter],
    intervals: bool,
    seed: int,
    progress: Any,
) -> Estimate | None:
    """The last fit, by `dd.fit`, from what the search found."""
    library, exact = model.stage.library, model.stage.search.exact
    text, structure = library.text(model.fitted.structure), model.fitted.structure
    history = exact.history if model.delays else "constant"
    law = equation(text, history=history)
    if not law.names:
        return None
    theta = model.fitted.theta
    starts: dict[str, Any] = {
        f"c_{j + 1}": value
        for j, value in enumerate(theta[exact.coefficients[: len(structure)]].tolist())
    }
    inner = dict(zip(library.parameters, theta[exact.inner_places].tolist()))
    starts |= {name: value for name, value in inner.items() if name in law.names}
    delays = dict(zip(delay_names(library.delays), theta[exact.delays].tolist()))
    starts |= {name: value for name, value in delays.items() if name in law.names}
    if not model.delays:
        starts.pop("tau", None)
    parameters: dict[str, Any] = {}
    for name, value in starts.items():
        own = settings.get(name, Parameter())
        lower = own.lower
        if lower is None and name in inner:
            lower = 0.0
        if (
            lower is not None
            and own.upper is not None
            and own.upper - lower < 1e-6 * abs(value)
        ):
            parameters[name] = Fixed(value)
        else:
            parameters[name] = replace(own, start=value, lower=lower)
    if isinstance(data, Data):
        what: Any = data
    else:
        what = [
            Experiment(part, label=label)
            for part, label in zip(data.parts, data.labels)
        ]
    # Far from the data a search for something better would go on for long.
    starts_tried = _STARTS if exact.is_near(model.fitted) else 1
    return fit(
        law,
        what,
        optimizer=LeastSquares(starts=starts_tried),
        parameters=parameters,
        intervals=intervals,
        seed=seed,
        progress=progress,
    )


def _discovery(
    outcome: Outcome, estimate: Estimate | None, seconds: float
) -> Discovery:
    scores = np.array([each.score for each in outcome.models])
    weights = np.exp(-0.5 * (scores - scores.min()))
    weights = (weights / weights.sum()).tolist()
    found = [_found(*pair) for pair in zip(outcome.models, weights)]
    best = outcome.models[0]
    plain = [each for each in found if not each.delays]
    listed = [each for each in found if each.weight >= _LEAST_WEIGHT]
    delayed = [each for each in found if each.delays]
    if delayed and not any(each.delays for each in listed):
        listed.append(delayed[0])
    text = best.stage.library.text(best.fitted.structure)
    history = best.stage.search.exact.history if best.delays else "constant"
    return Discovery(
        equation=equation(text, history=history),
        fit=estimate,
        models=tuple(listed),
        inclusion=_inclusion(outcome.models, weights),
        delay_probability=float(
            sum(w for m, w in zip(outcome.models, weights) if m.delays)
        ),
        without_delay=plain[0] if plain else None,
        delay_charge=DELAY_CHARGE,
        path=tuple(outcome.path),
        interrupted=outcome.interrupted,
        seconds=seconds,
    )


def _found(model: Model, weight: float) -> FoundModel:
    library, fitted = model.stage.library, model.fitted
    names = delay_names(library.delays)
    values = fitted.theta[model.stage.search.exact.delays].tolist()
    return FoundModel(
        text=library.text(fitted.structure),
        terms=library.term_texts(fitted.structure),
        delays={names[j]: values[j] for j in library.delays_in(fitted.structure)},
        parameters=fitted.parameters,
        bic=fitted.bic,
        score=model.score,
        weight=weight,
    )


def _inclusion(
    models: Sequence[Model], weights: Sequence[float]
) -> dict[str, dict[str, float]]:
    """The probability of each candidate in each equation, among the candidates of the
    best model's stage."""
    library = models[0].stage.library
    totals: dict[str, dict[str, float]] = {
        state: dict.fromkeys((term.text for term in library.terms), 0.0)
        for state in library.states
    }
    for model, weight in zip(models, weights):
        own = model.stage.library
        for i, term in model.fitted.structure:
            text = renamed(own.terms[term], own.delays, library.delays)
            state = totals[library.states[i]]
            state[text] = state.get(text, 0.0) + weight
    return totals
