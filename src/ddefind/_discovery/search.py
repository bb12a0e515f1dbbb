r"""The whole search: all stages, and their models compared by a score.

The score is the BIC, with a charge for each term and delay. Models are weighted by
$\exp(-\mathrm{score} / 2)$. With the BIC alone every candidate would have the prior
probability one half, so that with more candidates one of them follows the noise more
often. But of the $p$ candidates for an equation few are true terms: each has prior odds
of $1 : p$, a charge of $2 \log p$. And of the many delays that a search tries, one
always follows the noise: each delay is charged 10, which is called very strong
evidence. (A delay that the user gives is not searched, and costs nothing.)"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np

from .exact import Fitted
from .stages import ORDINARY, Question, Report, Stage, delayed_stages, ordinary_stage
from .terms import delay_names, renamed, renumbered

DELAY_CHARGE = 10.0
# At most this many models, with scores within this distance of the best, are fitted
# again with shorter steps.
_FINAL, _WORST = 24, 14.0
# Of the models within this distance of the best score, the simplest is chosen.
_AS_GOOD = 1.0


def charge_of_term(candidates: int) -> float:
    """Return the charge for each term of an equation with this many `candidates`."""
    return 2.0 * math.log(max(candidates, 1))


class Model(NamedTuple):
    """A model that was found: its stage, its fit with the delays sorted by length, its
    score, and the names under which the delays are shown."""

    stage: Stage
    fitted: Fitted
    score: float
    names: Mapping[str, str]

    @property
    def delays(self) -> dict[str, float]:
        """The delays, the shortest first."""
        lengths = self.stage.delays_of(self.fitted)
        return dict(zip(self.names.values(), lengths.tolist()))

    @property
    def terms(self) -> dict[str, tuple[str, ...]]:
        """The terms of each state."""
        found = self.stage.library.term_texts(self.fitted.structure)
        return {
            state: tuple(renamed(text, self.names) for text in own)
            for state, own in found.items()
        }

    @property
    def text(self) -> str:
        """The equations."""
        return renamed(self.stage.library.text(self.fitted.structure), self.names)


class Outcome(NamedTuple):
    """All models, the chosen one first and the others by score; the path of the search,
    as (number of delays, number of terms, score); and whether it was interrupted."""

    models: list[Model]
    path: list[tuple[int, int, float]]
    interrupted: bool


def search_models(question: Question, delays: int, report: Report) -> Outcome:
    """Search with up to this many `delays`; after Ctrl-C return the best so far."""
    begun: dict[int, Stage] = {}

    def remember(phase: str, stage: Stage) -> None:
        # The stage without a delay comes first, and shares the number of the next one.
        key = 0 if phase == ORDINARY else stage.delays
        before = begun.get(key)
        if before is None or stage.search.best.score < before.search.best.score:
            begun[key] = stage
        report(phase, stage)

    interrupted, stages = False, []
    try:
        for some in _stages(question, delays, remember):
            for each in some:
                _refine(each)
            stages.append(some)
    except KeyboardInterrupt:
        if not begun:
            raise
        interrupted, stages = True, [[each] for each in begun.values()]
    models = _models([each for some in stages for each in some])
    if not models:
        raise ValueError(
            "No candidate equation has a solution near these data: all of them grow "
            "without bounds or are not defined. Offer terms in which the states may be "
            "as large as they are here, and bound the parameters inside of terms."
        )
    models = _chosen_first(models)
    models = [_use_names_of(models[0].delays, each) for each in models]
    path = [
        (len(model.delays), len(fit.structure), model.score)
        for stage, *_ in stages
        for fit in stage.search.path
        for model in [_model(stage, fit)]
    ]
    return Outcome(models, path, interrupted)


def _stages(question: Question, delays: int, report: Report) -> Iterator[list[Stage]]:
    """Yield the stages with no delay, with one and so on, the best of each first."""
    stages = [ordinary_stage(question, report)]
    yield stages
    for count in range(1, delays + 1):
        stages = delayed_stages(question, count, stages[0], report)
        yield stages


def _refine(stage: Stage) -> None:
    """Fit the best structures of a stage again, with steps of half the length."""
    search = stage.search
    if not search.visited:
        return
    ranked = sorted(search.visited.values(), key=lambda each: each.score)
    close = [each for each in ranked if each.score < ranked[0].score + _WORST][:_FINAL]
    structures = [each.structure for each in close]
    starts = [each.theta[None] for each in close]
    fits = search.exact.fit_all(structures, starts, finer=2)
    for fit in fits:
        if np.isfinite(fit.bic):
            search.visited[fit.structure] = fit


def _models(stages: Sequence[Stage]) -> list[Model]:
    """Return the models of all stages, each once."""
    found: dict[frozenset, Model] = {}
    for stage in stages:
        for fit in stage.search.visited.values():
            model = _model(stage, fit)
            key = frozenset((s, text) for s, own in model.terms.items() for text in own)
            if key not in found or model.score < found[key].score:
                found[key] = model
    return list(found.values())


def _chosen_first(models: Sequence[Model]) -> list[Model]:
    """Return the models by their scores, behind the simplest of the best."""
    lowest = min(each.score for each in models)
    best = [each for each in models if each.score < lowest + _AS_GOOD]
    first = min(best, key=lambda each: (each.fitted.parameters, each.score))
    return sorted(models, key=lambda each: (each is not first, each.score))


def _model(stage: Stage, fit: Fitted) -> Model:
    """Return a model whose delays are numbered by their lengths, so that models that
    differ only in the numbers of their delays are the same."""
    fit = _in_order(stage, fit)
    names = delay_names(stage.library.delays)
    count = len(stage.library.delays_in(fit.structure))
    is_given = stage.search.exact.has_fixed_delays
    score = fit.score + (0.0 if is_given else DELAY_CHARGE * count)
    return Model(stage, fit, score, dict(zip(names, delay_names(count))))


def _in_order(stage: Stage, fit: Fitted) -> Fitted:
    """Return the same fit, with the shortest delay as the first one."""
    library, exact = stage.library, stage.search.exact
    lengths = stage.delays_of(fit)
    order = np.argsort(lengths, kind="stable")
    if np.array_equal(order, np.arange(len(order))):
        return fit
    rank = [*np.argsort(order).tolist(), *range(len(order), library.delays)]
    becomes = renumbered(library.terms, rank)
    moved = [(state, becomes[term]) for state, term in fit.structure]
    places, theta = sorted(range(len(moved)), key=lambda s: moved[s]), fit.theta.copy()
    used = exact.coefficients[: len(moved)]
    theta[used] = fit.theta[used][places]
    theta[exact.delays[: len(order)]] = lengths[order]
    return fit._replace(structure=tuple(moved[s] for s in places), theta=theta)


def _use_names_of(best: Mapping[str, float], model: Model) -> Model:
    """Return the model with each delay called as the nearest delay of the `best` model,
    so that terms of both have the same text."""
    delays = model.delays.values()
    if not best or not delays:
        return model
    further = [f"tau_{len(best) + j + 1}" for j in range(len(delays) - len(best))]

    def distance(names: Sequence[str]) -> float:
        pairs = [pair for pair in zip(names, delays) if pair[0] in best]
        return sum(abs(np.log(best[name] / tau)) for name, tau in pairs)

    choices = permutations([*best, *further], len(delays))
    complete = [names for names in choices if set(further) <= set(names)]
    nearest = min(complete, key=distance)
    return model._replace(names=dict(zip(model.names, nearest)))
