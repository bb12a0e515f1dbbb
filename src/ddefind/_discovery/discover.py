"""`discover`: it reads its arguments, searches, and fits what was found."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._data.data import Data
from .._fitting.experiment import Experiment
from .._fitting.request import check_seed
from .._problem.parameters import Fixed, Parameter
from .._results.estimate import Estimate
from .._results.status import Status
from .._util.progress import Progress, Reporter
from .discovery import Discovery
from .found_model import FoundModel
from .last_fit import found_equation, last_fit, last_settings, searched_data
from .read_question import read_number_of_delays, read_question
from .search import Model, Outcome, search_models
from .stages import ORDINARY, Question, Stage
from .terms import renamed

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
    lowest score is sought by steps to terms more and less. The score is the BIC with 10
    more for each delay, and with 2 log(p) more for each term, where an equation has p
    candidates.

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

    Interrupted by Ctrl-C, it returns the best so far: without a fit during the search,
    and with what there is of the fit after it. (Before there is any model, the
    interruption goes on.)

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
            search, number = stage.search, _PHASES.index(phase.split(",")[0])
            best, exact = search.best, search.exact
            read = list(exact.library.delays_in(best.structure))
            tau = max(best.theta[exact.delays][read].tolist(), default=np.nan)
            label = f"{phase}: {len(search.visited)} structures"
            reporter.show(label, number, 0, float(best.gram[0, 0]), tau)

        outcome = search_models(question, most, report)
    best, estimate = outcome.models[0], None
    settings = last_settings(best)
    if not outcome.interrupted:
        try:
            estimate = last_fit(best, settings, intervals, seed, progress)
            is_cut_short = _is_cut_short(estimate, intervals)
        except KeyboardInterrupt:
            is_cut_short = True
        outcome = outcome._replace(interrupted=is_cut_short)
    seconds = time.perf_counter() - began
    return _discovery(question, most, outcome, settings, estimate, seconds)


def _is_cut_short(estimate: Estimate | None, intervals: bool) -> bool:
    """Whether the last fit was interrupted, or its intervals, which it then lacks."""
    if estimate is None:
        return False
    lacks_intervals = intervals and estimate.assessment is None
    return lacks_intervals or estimate.status is Status.interrupted


def _discovery(
    question: Question,
    delays: int,
    outcome: Outcome,
    settings: Mapping[str, Parameter | Fixed],
    estimate: Estimate | None,
    seconds: float,
) -> Discovery:
    scores = np.array([each.score for each in outcome.models])
    weights = np.exp(-0.5 * (scores - scores.min()))
    weights = (weights / weights.sum()).tolist()
    found = [_found(*pair) for pair in zip(outcome.models, weights)]
    plain = [each for each in found if not each.delays]
    delayed = [each for each in found if each.delays]
    listed = [each for each in found if each.weight >= _LEAST_WEIGHT]
    if delayed and not any(each.delays for each in listed):
        listed.append(delayed[0])
    return Discovery(
        equation=found_equation(outcome.models[0]),
        parameters=settings,
        data=searched_data(question),
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


def _found(model: Model, weight: float) -> FoundModel:
    return FoundModel(
        text=model.text,
        terms=model.terms,
        delays=model.delays,
        parameters=model.fitted.parameters,
        bic=model.fitted.bic,
        score=model.score,
        weight=weight,
    )


def _inclusion(
    best: Model, models: Sequence[FoundModel], delays: int
) -> dict[str, dict[str, float]]:
    """The probability of each candidate in each equation: of the candidates of the best
    model's stage, and of those that other models have. Without `delays` no delayed term
    was a candidate."""
    library = best.stage.library
    terms = [term for term in library.terms if delays or not term.delays]
    candidates = [renamed(term.text, best.names) for term in terms]
    totals = {state: dict.fromkeys(candidates, 0.0) for state in library.states}
    for model in models:
        for state, own in model.terms.items():
            for term in own:
                totals[state][term] = totals[state].get(term, 0.0) + model.weight
    return totals
