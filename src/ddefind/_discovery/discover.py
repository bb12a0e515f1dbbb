"""`discover`: read the arguments, search, and fit the best equation by `dd.fit`."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import ddefind as dd

from .._fitting.request import check_seed
from .._util.progress import Progress, Reporter
from .discovery import Discovery, FoundModel
from .read_question import read_number_of_delays, read_question
from .search import Model, Outcome, search_models
from .stages import ORDINARY, Question, Stage
from .terms import renamed

# The starts of the last fit, which begins at the values that the search found.
_STARTS = 6
# Models with less weight than this are not listed, but they count.
_LEAST_WEIGHT = 1e-4
_PHASES = (ORDINARY, "one delay", "2 delays", "3 delays")


def discover(
    data: dd.Data | dd.Experiment | Sequence[dd.Experiment],
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

        def report(phase: str, stage: Stage) -> None:
            number, best = _PHASES.index(phase.split(",")[0]), stage.search.best
            tau = max(stage.delays_of(best).tolist(), default=np.nan)
            label = f"{phase}: {len(stage.search.visited)} structures"
            reporter.show(label, number, 0, float(best.gram[0, 0]), tau)

        outcome = search_models(question, most, report)
    best, estimate = outcome.models[0], None
    settings = _last_settings(best)
    if not outcome.interrupted:
        try:
            estimate = _last_fit(best, settings, intervals, seed, progress)
            is_cut_short = _is_cut_short(estimate, intervals)
        except KeyboardInterrupt:
            is_cut_short = True
        outcome = outcome._replace(interrupted=is_cut_short)
    seconds = time.perf_counter() - began
    return _discovery(question, most, outcome, settings, estimate, seconds)


def _is_cut_short(estimate: dd.Estimate | None, intervals: bool) -> bool:
    """Whether the last fit was interrupted, or its intervals, which it then lacks."""
    if estimate is None:
        return False
    lacks_intervals = intervals and estimate.assessment is None
    return lacks_intervals or estimate.status is dd.Status.interrupted


def _discovery(
    question: Question,
    delays: int,
    outcome: Outcome,
    settings: Mapping[str, dd.Parameter | dd.Fixed],
    estimate: dd.Estimate | None,
    seconds: float,
) -> Discovery:
    scores = np.array([each.score for each in outcome.models])
    weights = np.exp(-0.5 * (scores - scores.min()))
    weights = (weights / weights.sum()).tolist()
    found = [
        FoundModel(
            text=model.text,
            terms=model.terms,
            delays=model.delays,
            parameters=model.fitted.parameters,
            bic=model.fitted.bic,
            score=model.score,
            weight=weight,
        )
        for model, weight in zip(outcome.models, weights)
    ]
    plain = [each for each in found if not each.delays]
    delayed = [each for each in found if each.delays]
    listed = [each for each in found if each.weight >= _LEAST_WEIGHT]
    if delayed and not any(each.delays for each in listed):
        listed.append(delayed[0])
    return Discovery(
        equation=_found_equation(outcome.models[0]),
        parameters=settings,
        data=_searched_data(question),
        fit=estimate,
        models=tuple(listed),
        inclusion=_inclusion(outcome.models[0], found, delays),
        delay_probability=sum(each.weight for each in delayed),
        without_delay=plain[0] if plain else None,
        delay_bounds=question.bounds,
        term_charge=question.term_charge,
        path=tuple(outcome.path),
        interrupted=outcome.interrupted,
        seconds=seconds,
    )


def _inclusion(
    best: Model, models: Sequence[FoundModel], delays: int
) -> dict[str, dict[str, float]]:
    """Return the probability of each candidate in each equation. Candidates are the
    terms that the best model's stage offered, delayed ones only with `delays`, and the
    terms of all models."""
    library = best.stage.library
    terms = [term for term in library.terms if delays or not term.delays]
    candidates = [renamed(term.text, best.names) for term in terms]
    totals = {state: dict.fromkeys(candidates, 0.0) for state in library.states}
    for model in models:
        for state, chosen in model.terms.items():
            for term in chosen:
                totals[state][term] = totals[state].get(term, 0.0) + model.weight
    return totals


def _found_equation(model: Model) -> dd.Equation:
    """Return the equation of a model, with the history of its fit."""
    history = model.stage.search.exact.history if model.delays else "constant"
    return dd.equation(model.text, history=history)


def _searched_data(question: Question) -> dd.Data | tuple[dd.Experiment, ...]:
    """Return the data of a question, as `fit` takes them."""
    data = question.data
    if isinstance(data, dd.Data):
        return data
    pairs = zip(data.parts, data.labels)
    return tuple(dd.Experiment(part, label=label) for part, label in pairs)


def _last_fit(
    model: Model,
    parameters: Mapping[str, dd.Parameter | dd.Fixed],
    intervals: bool,
    seed: int,
    progress: Any,
) -> dd.Estimate | None:
    """Fit a model; None if the fit has no finite loss."""
    # Far from the data a search for something better would go on for long.
    starts = _STARTS if model.stage.search.exact.is_near(model.fitted) else 1
    found = dd.fit(
        _found_equation(model),
        _searched_data(model.stage.question),
        optimizer=dd.LeastSquares(starts=starts),
        parameters=parameters,
        intervals=intervals,
        seed=seed,
        progress=progress,
    )
    return found if np.isfinite(found.loss) else None


def _last_settings(model: Model) -> dict[str, dd.Parameter | dd.Fixed]:
    """Return the settings of all parameters of a model, with the found values as
    starts, except of those that bend a smooth history."""
    library, exact = model.stage.library, model.stage.search.exact
    structure, theta = model.fitted.structure, model.fitted.theta
    settings, bounds = model.stage.question.settings, model.stage.question.bounds
    places, names = exact.coefficients[: len(structure)], _found_equation(model).names
    found: dict[str, dd.Parameter | dd.Fixed] = {
        library.coefficient(j + 1): dd.Parameter(value)
        for j, value in enumerate(theta[places].tolist())
    }
    inner = dict(zip(library.parameters, theta[exact.inner_places].tolist()))
    for name in library.parameters_in(structure):
        setting = settings.get(name, dd.Parameter())
        if name not in library.known_parameters:
            setting = _positive(setting)
        # A parameter of the history may have the same name.
        whole_name = name if name in names else f"rhs.{name}"
        found[whole_name] = _with_start(inner[name], setting)
    for name, value in model.delays.items():
        setting = settings.get("tau")
        if not isinstance(setting, dd.Fixed):
            setting = dd.Parameter(lower=bounds[0], upper=bounds[1])
        found[name] = _with_start(value, setting)
    return found | _history_settings(model)


def _history_settings(model: Model) -> dict[str, dd.Parameter]:
    """Return the settings of the history, in every experiment."""
    data, exact = model.stage.question.data, model.stage.search.exact
    is_flat = _found_equation(model).history == "constant"
    ends = [""] if isinstance(data, dd.Data) else [f"@{label}" for label in data.labels]
    states = [f"[{i}]" for i in range(len(data.names))] if len(data.names) > 1 else [""]
    return {
        f"history.{field}{state}{end}": dd.Parameter(float(model.fitted.theta[place]))
        for field in ("b" if is_flat else "ab")
        for end, places in zip(ends, exact.history_places(field))
        for state, place in zip(states, places)
    }


def _positive(setting: dd.Parameter | dd.Fixed) -> dd.Parameter | dd.Fixed:
    """Return the setting with zero as the lower bound, unless it has another one."""
    if isinstance(setting, dd.Fixed) or setting.lower is not None:
        return setting
    is_negative = setting.upper is not None and setting.upper <= 0
    return setting if is_negative else replace(setting, lower=0.0)


def _with_start(
    value: float, setting: dd.Parameter | dd.Fixed
) -> dd.Parameter | dd.Fixed:
    """Return the setting with a start inside its bounds."""
    if isinstance(setting, dd.Fixed):
        return setting
    lower = -np.inf if setting.lower is None else setting.lower
    upper = np.inf if setting.upper is None else setting.upper
    width = upper - lower if np.isfinite(upper - lower) else max(abs(value), 1e-6)
    inside = 1e-6 * width
    return replace(setting, start=float(np.clip(value, lower + inside, upper - inside)))
