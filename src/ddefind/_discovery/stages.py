"""The stages of a discovery: equations without a delay, with one delay, with several.

Each stage proposes structures by the weak form, fits them, and climbs from the best of
each pattern. A stage with several delays also begins at the best equation of the stage
before, and gives it a term that reads one more delay."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, final

import jax.numpy as jnp
import numpy as np

import ddefind as dd

from .._data.smoothing import rough_noise
from .._data.study_data import Records, parts_of
from .._equation.expression import Expression
from .._search.make_setup import make_setup, make_study_setup
from .._search.symmetries import rate_of
from .climb import Search
from .exact import SPARE, Exact, Fitted
from .inner_parameters import InnerParameters, inner_parameters
from .library import Candidates, Library, Structure, make_library
from .proposals import Proposal, propose
from .terms import delay_names, read_terms
from .weak_form import WeakRecord

# The phase of the first stage.
ORDINARY = "without a delay"
# The number of curves of a smooth history.
_CURVES = 4
# Slots: those that are always there, and those for each state.
_SLOTS, _SLOTS_OF_STATE = 3, 5
_MOST_TERMS_OF_STATE = 7
# The most delays of a scan: of one delay, of each of several, and for a further delay.
_MOST_DELAYS, _MOST_IN_PAIRS, _TRIED_DELAYS = 90, 26, 14
# The number of fits of each pattern from which to climb; one state has one pattern.
_CLIMBS, _CLIMBS_OF_ONE = 1, 3
# The number of fits from which to climb where nothing is near the data.
_FURTHER_CLIMBS = 8
# Another kind of history is searched in full if a short search comes as near as this.
_NEAR = 3.0


@final
@dataclass(frozen=True)
class Question:
    """The arguments of `discover`: the data with their test functions, the candidate
    terms, the known parts of equations, the settings of parameters, the range of the
    delays, and the charge for each term."""

    states: tuple[str, ...]
    data: Records
    records: Sequence[WeakRecord]
    terms: Any
    known: Mapping[str, Expression]
    settings: Mapping[str, Any]
    bounds: tuple[float, float]
    term_charge: float

    @property
    def rate(self) -> float:
        """How fast the states change."""
        measured = np.ones(len(self.states), bool)
        curves = [(each.curve, float(each.t[-1])) for each in self.records]
        return max(rate_of(curve, T, measured) for curve, T in curves)

    def scan(self, most: int) -> np.ndarray:
        """Return at most `most` delays, as far apart as measurements if possible."""
        low, high = self.bounds
        if low == high:
            return np.array([low])
        steps = [np.diff(np.unique(part.t)) for part in parts_of(self.data)]
        spacing = float(np.median(np.concatenate(steps)))
        count = int(np.clip((high - low) / spacing, 6, most))
        even = np.linspace(low, high, count)
        # Between the first ones, which are far apart relative to their size.
        between = np.sqrt(even[:3] * even[1:4])
        return np.unique(np.concatenate([even, between]))


@final
@dataclass(frozen=True)
class Stage:
    """The search with this number of `delays`."""

    question: Question
    delays: int
    search: Search

    @property
    def library(self) -> Library:
        return self.search.exact.library

    def delays_of(self, fit: Fitted) -> np.ndarray:
        """Return the delays that a fit reads."""
        used = self.library.delays_in(fit.structure)
        return fit.theta[self.search.exact.delays][list(used)]

    def lowest(self, count: int) -> float:
        """Return the lowest score with this number of delays."""
        return min((fit.score for fit in self.with_exactly(count)), default=np.inf)

    def with_exactly(self, count: int) -> list[Fitted]:
        """Return the fits with this number of delays."""
        visited = self.search.visited.values()
        delays_in = self.library.delays_in
        return [each for each in visited if len(delays_in(each.structure)) == count]


Report = Callable[[str, Stage], None]


def ordinary_stage(question: Question, report: Report) -> Stage:
    """Search without a delay. The library is that of one delay, so that both stages
    share a compiled program."""
    stage = make_stage(question, 1, "constant", ORDINARY, report)
    search, library = stage.search, stage.library
    plain = [pair for pair in _pairs(library) if not library.terms[pair[1]].delays]
    proposals = propose(
        library,
        question.records,
        search.exact.inner,
        [()],
        _MOST_TERMS_OF_STATE,
        range(-2, 4),
    )
    fits = search.try_proposals([p for p in proposals if _fits(search, p.structure)])
    nothing = search.exact.start(np.zeros(0), search.exact.inner.typical, ())
    search.add([search.exact.fit((), nothing[None])])
    for fit in _best_of_each(fits, lambda _: 0, _CLIMBS_OF_ONE):
        search.climb(fit, plain)
    _reweight(search, plain)
    return stage


def delayed_stages(
    question: Question, delays: int, before: Stage, report: Report
) -> list[Stage]:
    """Search with this number of `delays` and return a stage for each kind of history,
    the best first. `before` is the best stage with one delay less. Histories that are
    not constant are searched in full if a short search comes near the best score."""
    phase = "one delay" if delays == 1 else f"{delays} delays"
    others = ["affine", "spline"]
    if len(parts_of(question.data)) > 1:
        others.remove("spline")
    if delays > 1:
        others = list({before.search.exact.history} - {"constant"})
    best = make_stage(question, delays, "constant", phase, report)
    found, proposals = [best], _proposals(best)
    _search_delays(best, before, proposals)
    for kind in others:
        other = make_stage(question, delays, kind, f"{phase}, {kind} history", report)
        _carry_over(best, other)
        # Equations with fewer delays have the same score with histories of all kinds.
        lowest = min(best.lowest(delays), before.lowest(delays - 1))
        if other.lowest(delays) < lowest + _NEAR:
            _search_delays(other, before, proposals)
        if other.lowest(delays) < best.lowest(delays):
            best = other
        found.append(other)
    return sorted(found, key=lambda each: each is not best)


def make_stage(
    question: Question, delays: int, history: str, phase: str, report: Report
) -> Stage:
    terms = read_terms(question.terms, question.states, delays)
    library = make_library(question.states, terms, delays, question.known)
    inner = inner_parameters(library, question.data.x, question.rate, question.settings)
    exact = _make_exact(library, inner, question, history)
    if delays == 1:
        scan = [(float(tau),) for tau in question.scan(_MOST_DELAYS)]
    else:
        few = question.scan(_MOST_IN_PAIRS).tolist()
        scan = list(combinations(few, delays))
    search = Search(exact, question.records, scan)
    stage = Stage(question, delays, search)
    search.report = lambda: report(phase, stage)
    return stage


def _make_exact(
    library: Library, inner: InnerParameters, question: Question, history: str
) -> Exact:
    """Return the fits of a library to the data with one kind of `history`."""
    data, (low, high), d = question.data, question.bounds, len(library.states)
    slots, zeros = _SLOTS + SPARE + _SLOTS_OF_STATE * d, np.zeros(d)
    if history == "constant":
        past: Any = dd.Constant(zeros)
    elif isinstance(data, dd.Data):
        # A straight line is a smooth curve that is not bent, by the same program.
        past = dd.Smooth(zeros, zeros, np.zeros((_CURVES, d)), data.T / 3)
    else:
        past = dd.Affine(zeros, zeros)
    rhs = Candidates(
        library.module,
        jnp.zeros(slots),
        jnp.zeros((slots, len(library.terms)), int),
        jnp.zeros((slots, d), int),
        library.fragile,
    )
    several = delay_names(library.delays) if library.delays > 1 else ()
    tau = dict.fromkeys(several, 1.0) if several else 1.0
    problem = dd.Problem(rhs, past, tau)
    settings = {
        f"rhs.library.{name}": dd.Parameter(lower=lower, upper=upper)
        for name, lower, upper in zip(inner.names, inner.lower, inner.upper)
    }
    paths = [f"tau.{name}" for name in several] or ["tau"]
    has_fixed_delays = low == high
    if has_fixed_delays:
        low, high = 0.999 * low, 1.001 * high
    settings |= {path: dd.Parameter(lower=low, upper=high) for path in paths}
    how = dd.RK4(), 10, 0, 1
    if isinstance(data, dd.Data):
        setup, _ = make_setup(problem, data, settings, *how)
    else:
        problems = [problem] * len(data.parts)
        known = [{} for _ in data.parts]
        setup, _ = make_study_setup(problems, data, settings, known, *how)
    noise = rough_noise(data)
    points = setup.points(noise)
    settled = has_fixed_delays, question.term_charge
    return Exact(library, inner, setup, points, history, slots, noise, *settled)


def _proposals(stage: Stage) -> list[Proposal]:
    search, several = stage.search, len(stage.library.states) > 1
    proposals = propose(
        stage.library,
        search.records,
        search.exact.inner,
        search.delays,
        _MOST_TERMS_OF_STATE,
        (0, 2) if several else (-1, 0, 1, 2),
    )
    return [each for each in proposals if _fits(search, each.structure)]


def _search_delays(stage: Stage, before: Stage, proposals: Sequence[Proposal]) -> None:
    """Search with delays: from proposals, from the stage before, and at all delays of
    the scan for the structure that is best."""
    search, candidates = stage.search, _pairs(stage.library)
    pattern = {each.structure: each.pattern for each in proposals}
    fits = search.try_proposals(proposals)
    count = _CLIMBS if len(stage.library.states) > 1 else _CLIMBS_OF_ONE
    for fit in _best_of_each(fits, lambda each: pattern[each.structure], count):
        search.climb(fit, candidates)
    for fit in fits[:_FURTHER_CLIMBS]:
        if search.exact.is_near(search.best):
            break
        search.climb(fit, candidates)
    _extend(stage, before, candidates)
    if not search.visited:
        return
    for _ in range(3):
        best = search.best
        search.rescan(best)
        if search.best.score > best.score - 0.5:
            break
        search.climb(search.best, candidates)
    _reweight(search, candidates)


def _extend(stage: Stage, before: Stage, candidates: Sequence[tuple[int, int]]) -> None:
    """Begin at the best equation with a delay less, and give it one more delay."""
    exact = stage.search.exact
    fits = before.with_exactly(stage.delays - 1)
    if not fits:
        return
    best = min(fits, key=lambda each: each.score)
    structure = _translated(before, stage, best.structure)
    if structure is None:
        return
    old = before.search.exact
    known = dict(zip(old.library.parameters, best.theta[old.inner_places]))
    pairs = zip(exact.library.parameters, exact.inner.typical)
    start = exact.start(
        best.theta[old.coefficients[: len(structure)]],
        np.array([known.get(name, typical) for name, typical in pairs]),
        best.theta[old.delays][: stage.delays - 1].tolist(),
    )
    fit = exact.fit(structure, start[None])
    stage.search.add([fit])
    delays = stage.question.scan(_TRIED_DELAYS).tolist()
    if np.isfinite(fit.score):
        stage.search.extend(fit, candidates, stage.delays - 1, delays)


def _translated(before: Stage, stage: Stage, structure: Structure) -> Structure | None:
    """Return a structure of one stage in the numbers of another one. `tau` becomes
    `tau_1`; other names stay."""
    texts = {term.text: j for j, term in enumerate(stage.library.terms)}
    found = []
    for state, term in structure:
        text = before.library.terms[term].text
        if before.delays == 1 and stage.delays > 1:
            text = text.replace("(t - tau)", f"(t - {delay_names(stage.delays)[0]})")
        if text not in texts:
            return None
        found.append((state, texts[text]))
    # The coefficients keep their order.
    return tuple(found) if found == sorted(found) else None


def _carry_over(stage: Stage, other: Stage) -> None:
    """Climb from the best structures of one stage with another kind of history."""
    exact, old = other.search.exact, stage.search.exact
    best = sorted(stage.search.visited.values(), key=lambda each: each.score)[:4]
    if not best:
        return
    starts = []
    for each in best:
        size = len(each.structure)
        count = len(old.library.delays_in(each.structure))
        start = exact.start(
            each.theta[old.coefficients[:size]],
            each.theta[old.inner_places],
            each.theta[old.delays][:count].tolist(),
        )
        starts.append(start[None])
    fits = exact.fit_all([each.structure for each in best], starts)
    other.search.add(fits)
    found = min(fits, key=lambda each: each.score)
    other.search.climb(found, _pairs(other.library))


def _pairs(library: Library) -> list[tuple[int, int]]:
    return [
        (i, j) for i in range(len(library.states)) for j in range(len(library.terms))
    ]


def _fits(search: Search, structure: Structure) -> bool:
    """Whether a structure leaves spare slots, and uses the delays in their order."""
    exact = search.exact
    is_small = len(structure) + SPARE <= exact.slots
    return is_small and exact.library.is_valid(structure)


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


def _reweight(search: Search, candidates: Sequence[tuple[int, int]]) -> None:
    """Weigh the quantities by the noise that the best fit shows, and climb from
    there."""
    exact = search.exact
    if not search.visited or exact.setup.data.x.shape[1] < 2:
        return
    noise = exact.noise_of(search.best)
    if np.max(np.abs(np.log(noise / exact.noise))) < 0.15:
        return
    search.exact = exact.with_noise(noise)
    search.climbed.clear()
    search.climb(search.best, candidates)
