r"""The whole search: without a delay, with one, with several; and the models of all
stages, compared by a score.

Each stage proposes structures by the weak form, fits them, and climbs from the best of
each pattern. A stage with several delays also begins at the best equation of the stage
before, and gives it a term that reads one more delay.

The score is the BIC, with a charge for each term and delay. Models are weighted by
$\exp(-\mathrm{score} / 2)$. With the BIC alone every candidate would have the prior
probability one half, so that with more candidates one of them follows the noise more
often. But of the $p$ candidates for an equation few are true terms: each has prior odds
of $1 : p$, a charge of $2 \log p$. And of the many delays that a search tries, one
always follows the noise: each delay is charged 10, which is called very strong
evidence. (A delay that the user gives is not searched, and costs nothing.)"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any, NamedTuple

import numpy as np

from .._data.study_data import parts_of
from .climb import Search
from .exact import SPARE, Fitted, Question, make_exact
from .library import Structure, delay_names, renamed, renumbered
from .proposals import Proposal, propose

DELAY_CHARGE = 10.0
# At most this many models, with scores within this distance of the best, are fitted
# again with shorter steps.
_FINAL, _WORST = 24, 14.0
# Of the models within this distance of the best score, the simplest is chosen.
_AS_GOOD = 1.0
# The phase of the first stage.
ORDINARY = "without a delay"
# The most delays of a scan: of one delay, of each of several, and for a further delay.
_MOST_DELAYS, _MOST_IN_PAIRS, _TRIED_DELAYS = 90, 26, 14
# The number of fits of each pattern from which to climb; one state has one pattern.
_CLIMBS, _CLIMBS_OF_ONE = 1, 3
# The number of fits from which to climb where nothing is near the data.
_FURTHER_CLIMBS = 8
# Another kind of history is searched in full if a short search comes as near as this.
_NEAR = 3.0

Report = Callable[[Search], None]


def charge_of_term(candidates: int) -> float:
    """Return the charge for each term of an equation with this many `candidates`."""
    return 2.0 * math.log(max(candidates, 1))


class Model(NamedTuple):
    """A model that was found: its search, its fit with the delays sorted by length, its
    score, and the names under which the delays are shown."""

    search: Search
    fitted: Fitted
    score: float
    names: Mapping[str, str]

    @property
    def delays(self) -> dict[str, float]:
        """The delays, the shortest first."""
        lengths = self.search.exact.delays_of(self.fitted)
        return dict(zip(self.names.values(), lengths.tolist()))

    @property
    def terms(self) -> dict[str, tuple[str, ...]]:
        """The terms of each state."""
        found = self.search.library.term_texts(self.fitted.structure)
        return {
            state: tuple(renamed(text, self.names) for text in own)
            for state, own in found.items()
        }

    @property
    def text(self) -> str:
        """The equations."""
        return renamed(self.search.library.text(self.fitted.structure), self.names)


def search_models(
    question: Question, delays: int, report: Report
) -> tuple[list[Model], list[tuple[int, int, float]], bool]:
    """Search with up to this many `delays`; after Ctrl-C return the best so far.

    Return all models, the chosen one first and the others by score; the path of the
    search, as (number of delays, number of terms, score); and whether it was
    interrupted."""
    begun: dict[int, Search] = {}

    def remember(search: Search) -> None:
        # The stage without a delay comes first, and shares the number of the next one.
        key = 0 if search.phase == ORDINARY else search.library.delays
        before = begun.get(key)
        if before is None or search.best.score < before.best.score:
            begun[key] = search
        report(search)

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
        for search, *_ in stages
        for fit in search.path
        for model in [_model(search, fit)]
    ]
    return models, path, interrupted


# The stages.


def _stages(question: Question, delays: int, report: Report) -> Iterator[list[Search]]:
    """Yield the searches with no delay, with one and so on, the best of each first."""
    stages = [_search_ordinary(question, report)]
    yield stages
    for count in range(1, delays + 1):
        stages = _search_delayed(question, count, stages[0], report)
        yield stages


def make_search(
    question: Question, delays: int, history: str, phase: str, report: Report
) -> Search:
    exact = make_exact(question, delays, history)
    terms, states = exact.library.terms, range(len(question.states))
    if phase == ORDINARY:
        scan = [()]
    elif delays == 1:
        scan = [(float(tau),) for tau in question.scan(_MOST_DELAYS)]
    else:
        scan = list(combinations(question.scan(_MOST_IN_PAIRS).tolist(), delays))
    offered = [j for j, t in enumerate(terms) if phase != ORDINARY or not t.delays]
    candidates = tuple((i, j) for i in states for j in offered)
    return Search(exact, scan, candidates, phase, report)


def _search_ordinary(question: Question, report: Report) -> Search:
    """Search without a delay. The library is that of one delay, so that both stages
    share a compiled program."""
    search = make_search(question, 1, "constant", ORDINARY, report)
    exact, fits = search.exact, search.try_proposals(_proposals(search, range(-2, 4)))
    nothing = exact.start(np.zeros(0), exact.inner.typical, ())
    search.add([exact.fit((), nothing[None])])
    for fit in _best_of_each(fits, lambda _: 0, _CLIMBS_OF_ONE):
        search.climb(fit)
    _reweight(search)
    return search


def _search_delayed(
    question: Question, delays: int, before: Search, report: Report
) -> list[Search]:
    """Search with this number of `delays` and return a search for each kind of history,
    the best first. `before` is the best search with one delay less. Histories that are
    not constant are searched in full if a short search comes near the best score."""
    phase = "one delay" if delays == 1 else f"{delays} delays"
    others = ["affine", "spline"]
    if len(parts_of(question.data)) > 1:
        others.remove("spline")
    if delays > 1:
        others = list({before.exact.history} - {"constant"})
    best = make_search(question, delays, "constant", phase, report)
    has_several = len(question.states) > 1
    proposals = _proposals(best, (0, 2) if has_several else (-1, 0, 1, 2))
    found = [best]
    _search_delays(best, before, proposals)
    for kind in others:
        whole_phase = f"{phase}, {kind} history"
        other = make_search(question, delays, kind, whole_phase, report)
        _carry_over(best, other)
        # Equations with fewer delays have the same score with histories of all kinds.
        lowest = min(best.lowest(delays), before.lowest(delays - 1))
        if other.lowest(delays) < lowest + _NEAR:
            _search_delays(other, before, proposals)
        if other.lowest(delays) < best.lowest(delays):
            best = other
        found.append(other)
    return sorted(found, key=lambda each: each is not best)


def _proposals(search: Search, offsets: Sequence[int]) -> list[Proposal]:
    """Return the proposals that leave spare slots and use the delays in order."""
    exact, library = search.exact, search.library
    records, most = exact.question.records, exact.slots - SPARE
    return [
        each
        for each in propose(library, records, exact.inner, search.scan, offsets)
        if len(each.structure) <= most and library.is_valid(each.structure)
    ]


def _search_delays(
    search: Search, before: Search, proposals: Sequence[Proposal]
) -> None:
    """Search with delays: from proposals, from the stage before, and at all delays of
    the scan for the structure that is best."""
    pattern = {each.structure: each.pattern for each in proposals}
    fits = search.try_proposals(proposals)
    count = _CLIMBS if len(search.library.states) > 1 else _CLIMBS_OF_ONE
    for fit in _best_of_each(fits, lambda each: pattern[each.structure], count):
        search.climb(fit)
    for fit in fits[:_FURTHER_CLIMBS]:
        if search.exact.is_near(search.best):
            break
        search.climb(fit)
    _extend(search, before)
    if not search.visited:
        return
    for _ in range(3):
        best = search.best
        search.rescan(best)
        if search.best.score > best.score - 0.5:
            break
        search.climb(search.best)
    _reweight(search)


def _extend(search: Search, before: Search) -> None:
    """Begin at the best equation with a delay less, and give it one more delay."""
    exact = search.exact
    for best in before.with_exactly(search.library.delays - 1)[:1]:
        structure = _translated(before, search, best.structure)
        if structure is None:
            return
        fit = exact.fit(structure, exact.start_from(before.exact, best)[None])
        search.add([fit])
        if np.isfinite(fit.score):
            search.extend(fit, exact.question.scan(_TRIED_DELAYS).tolist())


def _translated(
    before: Search, search: Search, structure: Structure
) -> Structure | None:
    """Return a structure of one search in the numbers of another one. `tau` becomes
    `tau_1`; other names stay."""
    texts = {term.text: j for j, term in enumerate(search.library.terms)}
    first = delay_names(search.library.delays)[0]
    names, found = {"tau": first}, []
    for state, term in structure:
        text = renamed(before.library.terms[term].text, names)
        if text not in texts:
            return None
        found.append((state, texts[text]))
    # The coefficients keep their order.
    return tuple(found) if found == sorted(found) else None


def _carry_over(search: Search, other: Search) -> None:
    """Climb from the best structures of one search with another kind of history."""
    if best := search.ranked[:4]:
        starts = [other.exact.start_from(search.exact, fit)[None] for fit in best]
        fits = other.exact.fit_all([fit.structure for fit in best], starts)
        other.add(fits)
        other.climb(min(fits, key=lambda each: each.score))


def _best_of_each(
    fits: Sequence[Fitted], kind: Callable[[Fitted], Any], count: int
) -> list[Fitted]:
    """Return the best few fits of each kind, each with another structure."""
    found: dict[Any, list[Fitted]] = {}
    chosen: set[Structure] = set()
    for fit in fits:
        same = found.setdefault(kind(fit), [])
        is_new = fit.structure not in chosen
        if len(same) < count and is_new and np.isfinite(fit.score):
            same.append(fit)
            chosen.add(fit.structure)
    return [fit for same in found.values() for fit in same]


def _reweight(search: Search) -> None:
    """Weigh the quantities by the noise that the best fit shows, and climb from
    there."""
    exact = search.exact
    if not search.visited or exact.setup.data.x.shape[1] < 2:
        return
    noise = exact.noise_of(search.best)
    if np.max(np.abs(np.log(noise / exact.noise))) < 0.15:
        return
    search.exact = replace(exact, noise=noise)
    search.climbed.clear()
    search.climb(search.best)


def _refine(search: Search) -> None:
    """Fit the best structures of a search again, with steps of half the length."""
    ranked = search.ranked
    close = [each for each in ranked if each.score < ranked[0].score + _WORST][:_FINAL]
    starts = [each.theta[None] for each in close]
    for fit in search.exact.fit_all([f.structure for f in close], starts, finer=2):
        if np.isfinite(fit.bic):
            search.visited[fit.structure] = fit


# The models.


def _models(searches: Sequence[Search]) -> list[Model]:
    """Return the models of all searches, each once."""
    found: dict[frozenset, Model] = {}
    for search in searches:
        for fit in search.visited.values():
            model = _model(search, fit)
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


def _model(search: Search, fit: Fitted) -> Model:
    """Return a model whose delays are numbered by their lengths, so that models that
    differ only in the numbers of their delays are the same."""
    fit, exact = _in_order(search, fit), search.exact
    count = len(search.library.delays_in(fit.structure))
    charge = 0.0 if exact.question.has_fixed_delays else DELAY_CHARGE * count
    names = dict(zip(delay_names(search.library.delays), delay_names(count)))
    return Model(search, fit, fit.score + charge, names)


def _in_order(search: Search, fit: Fitted) -> Fitted:
    """Return the same fit, with the shortest delay as the first one."""
    library, exact = search.library, search.exact
    lengths = exact.delays_of(fit)
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
