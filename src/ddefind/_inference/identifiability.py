"""Identifiability: which parameters the data determine, and why not the others.

A parameter is *determined* if its 95% profile interval is closed on both sides, and
*not determined* if the profile stays open on a side. It is *weakly determined* if the
interval is closed, but much wider than its standard error suggests, because of a ridge
or of several minima; or if only a combination with others is determined, such as a
product or a sum, which the verdict names. It is *not judged* where the fit itself is in
doubt.

Combinations are looked for where the information matrix is singular: the data may leave
a direction free; or it is singular at the estimate only, as where two rates coincide.
Finite moves decide: the suspected values are changed by about a half, all are fitted
again, and the places where the model fits as well as at the estimate make up the *flat
set*. If the direction is free, they lie on a curve or a surface that goes far away from
the estimate. What stays constant on the flat set is determined. If `formulas.py` finds
formulas for it, the verdict names them. They hold as far as the parameters were moved,
by about a half."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from .._search.batches import RefinedFits, refine
from .._util.shown import listed
from .covariance import Uncertainty
from .formulas import Formula, constant_formulas, varying
from .profile import EXPLODES, LOST, STEPS_MATTER, Profile

# Combinations of parameters that are determined although their parts are not

# The number of moves that are tried, and the evaluations for the fit after each.
_MOVES, _MAX_EVALUATIONS = 32, 200
# Values are multiplied or divided by up to the exponential of this; those that are
# small in comparison with their natural size are changed by a share of that.
_CHANGE, _SMALL = 0.7, 0.1
# The sum of squares is the same if chi-square rises by less than this, or the sum by
# less than this share.
_FLAT_CHI_SQUARE, _FLAT_LOSS = 1e-3, 1e-7
# A value that moves by less than this share of its natural size hardly moves.
_TINY = 1e-3
# A set of fewer places than this says nothing.
_FEWEST = 8
# A coefficient is taken for a parameter only if the sum of squares stays the same when
# that is changed, too: up to this share, or this chi-square.
_SAME_LOSS, _SAME_CHI_SQUARE = 1e-6, 0.02
# By how much it is changed, as shares: the parameter and the part that it multiplies.
_CHANGE_OF_PARAMETER, _CHANGE_OF_PART = 0.1, 0.3
# Formulas are sought in groups of up to this many values.
_LARGEST_GROUP = 8
# How much gradients must differ to count as independent.
_INDEPENDENT = 1e-3


class _FlatSet(NamedTuple):
    """`places` [places, p] of the flat set, the estimate first; `typical`, the
    uncertainty at a place with the most common number of undetermined directions; and
    the natural `sizes` [p] of the values."""

    places: np.ndarray
    typical: Uncertainty
    sizes: np.ndarray

    def varying(self, group: Sequence[int]) -> list[int]:
        """Return the members of a group that vary over the places by a noticeable share
        of their value, and not only in a corner where they are tiny."""
        spread = np.ptp(self.places, axis=0)
        moved = varying(self.places, group)
        return [j for j in moved if spread[j] > _TINY * self.sizes[j]]


def _flat_set(uncertainty: Uncertainty) -> _FlatSet | None:
    """Find the flat set; None if the estimate is an isolated minimum.

    Without undetermined directions nothing is computed."""
    suspected = np.any(np.abs(uncertainty.undetermined) > 1e-4, axis=1)
    if not np.any(suspected) or uncertainty.noise_unknown:
        return None
    fits = _fitted_again(uncertainty, suspected)
    best = uncertainty.search_result.best
    allowed = _FLAT_CHI_SQUARE * uncertainty.residual_variance
    allowed = max(allowed, _FLAT_LOSS * best.loss[0]) + best.rounding[0]
    fits = fits.take(np.abs(fits.loss - best.loss[0]) < allowed)
    if len(fits.loss) < _FEWEST:
        return None
    result = uncertainty.search_result
    there = [
        replace(uncertainty, search_result=replace(result, best=fits.take([row])))
        for row in range(len(fits.loss))
    ]
    counts = [each.undetermined.shape[1] for each in there]
    most_common = int(np.argmax(np.bincount(counts)))
    if most_common == 0:
        return None
    places = np.concatenate([uncertainty.theta[None], fits.theta])
    sizes = uncertainty.setup.natural_sizes
    return _FlatSet(places, there[counts.index(most_common)], sizes)


def _fitted_again(uncertainty: Uncertainty, suspected: np.ndarray) -> RefinedFits:
    """Fit again from places where the suspected values were changed at random."""
    setup, theta = uncertainty.setup, uncertainty.theta
    random = np.random.default_rng(0)
    sizes = setup.natural_sizes
    changes = random.uniform(-_CHANGE, _CHANGE, (_MOVES, len(theta)))
    is_small = np.abs(theta) < _SMALL * sizes
    moved = np.where(is_small, theta + sizes * changes, theta * np.exp(changes))
    starts = np.clip(np.where(suspected, moved, theta), setup.lower, setup.upper)
    n = setup.steps_near(starts, theta, int(uncertainty.search_result.best.n[0]))
    points = uncertainty.search_result.points
    return refine(setup, starts, points, n, _MAX_EVALUATIONS)


class Combination(NamedTuple):
    """Group of free values, by index, of which only `count` combinations are
    determined, and the formulas that are known for these."""

    group: tuple[int, ...]
    count: int
    formulas: tuple[Formula, ...]

    @property
    def is_known(self) -> bool:
        """Whether there are formulas for all that is determined of the group."""
        return len(self.formulas) == self.count > 0

    def sentence(self, names: Sequence[str]) -> str:
        """Say what is determined instead of the values."""
        known = [f"`{formula.text(names)}`" for formula in self.formulas]
        if len(known) == 1 == self.count:
            return f"Only {known[0]} is determined, not its parts."
        if self.is_known:
            return f"Only {listed(known)} are determined, not their parts."
        of = ", ".join(f"`{names[j]}`" for j in self.group)
        few = {0: "no combination is", 1: "only one combination is"}
        counted = few.get(self.count, f"only {self.count} combinations are")
        among = f", among them {listed(known)}" if known else ""
        return f"Of {of} {counted} determined{among}."


def determined_combinations(uncertainty: Uncertainty) -> list[Combination]:
    """Find what is determined of each group of free values that can move together."""
    flat, found = _flat_set(uncertainty), []
    if flat is None:
        return []
    undetermined = flat.typical.undetermined
    for group in _groups(undetermined):
        # Where nothing moves, the direction was free at the estimate only.
        if flat.varying(group):
            count = len(group) - int(np.linalg.matrix_rank(undetermined[group], 1e-6))
            formulas = _formulas(uncertainty, flat, group, count)
            found.append(Combination(tuple(group), count, formulas))
    return found


def _formulas(
    uncertainty: Uncertainty, found: _FlatSet, group: list[int], count: int
) -> tuple[Formula, ...]:
    """Find the simplest independent formulas of the group, at most `count`.

    There are none if some values hardly moved, because of bounds, or if the group is as
    large as the weights of a network."""
    if len(group) > _LARGEST_GROUP or len(found.varying(group)) < len(group):
        return ()
    known: list[Formula] = []
    gradients = np.zeros((0, len(group)))
    for formula in constant_formulas(found.places, group):
        if len(known) == count:
            break
        gradient = _gradient(formula, found.typical.theta, group)
        more = np.vstack([gradients, gradient])
        singular = np.linalg.svd(more, compute_uv=False)
        is_new = len(more) <= len(group) and singular[-1] > _INDEPENDENT * singular[0]
        if is_new and _is_named_rightly(uncertainty, formula):
            known.append(formula)
            gradients = more
    return tuple(known)


def _gradient(formula: Formula, theta: np.ndarray, group: list[int]) -> np.ndarray:
    """Return the unit gradient of a formula for relative changes of the group."""
    steps = 1e-6 * np.abs(theta[group])
    moved = np.tile(theta, (len(group), 1))
    moved[np.arange(len(group)), group] += steps
    gradient = formula.value(moved) - formula.value(theta)
    return gradient / np.linalg.norm(gradient)


def _is_named_rightly(uncertainty: Uncertainty, formula: Formula) -> bool:
    """Whether parameters in exponentials that do not vary on the flat set belong there:
    at another value of theirs, too, the sum of squares does not change along the
    formula."""
    setup, pairs = uncertainty.setup, []
    parts = [part for part, *_ in (*formula.powers, *formula.exponentials)]
    moving = {j for part in parts for j in part.members}
    for part, _, like in formula.exponentials:
        if like is None or like in moving:
            continue
        base = uncertainty.theta.copy()
        room = setup.upper[like] - base[like], base[like] - setup.lower[like]
        step = min(_CHANGE_OF_PARAMETER * abs(base[like]), 0.5 * max(room))
        base[like] += step if room[0] >= room[1] else -step
        moved = base.copy()
        moved[part.members[0]] *= 1 + _CHANGE_OF_PART
        power, exponent = formula.powers[0]
        gained = formula.value(moved) - formula.value(base)
        total = power.value(base) * np.exp(-gained / exponent)
        pivot = power.members[0]
        moved[pivot] += (total - power.value(moved)) / power.factors[0]
        pairs += [base, moved]
    if not pairs:
        return True
    before, after = uncertainty.losses(np.array(pairs)).reshape(-1, 2).T
    allowed = _SAME_CHI_SQUARE * uncertainty.residual_variance
    allowed = np.maximum(allowed, _SAME_LOSS * before)
    return bool(np.all(np.abs(after - before) < allowed))


def _groups(undetermined: np.ndarray) -> list[list[int]]:
    """Group the indices of free values that the undetermined directions connect: the
    connected components of the graph in which two values are linked if the projector on
    these directions couples them."""
    projector = undetermined @ np.linalg.pinv(undetermined)
    linked = np.abs(projector) > 1e-3
    remaining = [j for j in range(len(undetermined)) if linked[j, j]]
    found = []
    while remaining:
        group, before = {remaining[0]}, set()
        while group != before:
            before = set(group)
            group |= {int(k) for j in before for k in np.flatnonzero(linked[j])}
        found.append(sorted(group))
        remaining = [j for j in remaining if j not in group]
    return found


# Verdicts

VERDICTS = "determined", "weakly determined", "not determined", "not judged"
DETERMINED, WEAKLY_DETERMINED, NOT_DETERMINED, NOT_JUDGED = VERDICTS

# A parameter is weakly determined if its interval is wider than the standard error
# suggests by more than this factor; a factor above the second number is not printed.
_WIDE, _VERY_WIDE = 2.0, 100.0
# The data do not depend on a value if r stays below this, however far it is moved.
_FLAT = 0.1
_BY_NETWORK = (
    "A network can compensate for a change of {}: what is known of it comes from the "
    "prior of the weights, which prefers smooth functions."
)


@final
@dataclass(frozen=True, eq=False)
class Verdict:
    """Verdict on one parameter; it equals its word, as "determined". `pattern` is the
    reason in a sentence, with `{}` in place of the name, so that parameters can share
    it. `note` is a further sentence, on delays that can be exchanged or on the interval
    of a part of a combination; mostly empty."""

    name: str
    verdict: str
    pattern: str = ""
    note: str = ""

    @property
    def reason(self) -> str:
        """The reason and the note; empty for a determined parameter without a note."""
        return f"{self.pattern.replace('{}', f'`{self.name}`')} {self.note}".strip()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Verdict):
            return vars(self) == vars(other)
        return self.verdict == other

    def __hash__(self) -> int:
        return hash(self.verdict)

    def __str__(self) -> str:
        return f"{self.verdict}. {self.reason}" if self.reason else self.verdict

    def __repr__(self) -> str:
        return f"<{self}>"


def reasons(verdicts: Collection[Verdict]) -> list[str]:
    """Return the reasons of all verdicts, then their notes, each sentence once."""
    names: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.pattern:
            names.setdefault(verdict.pattern, []).append(f"`{verdict.name}`")
    notes = dict.fromkeys(verdict.note for verdict in verdicts if verdict.note)
    return [*(text.replace("{}", ", ".join(names[text])) for text in names), *notes]


def verdicts(
    uncertainty: Uncertainty,
    profiles: Sequence[Profile],
    combinations: Sequence[Combination],
    notes: Mapping[int, str],
) -> list[Verdict]:
    """Judge each free value; `combinations` are the determined ones."""
    names = [profile.name for profile in profiles]
    sentences = {
        j: combination.sentence(names)
        for combination in combinations
        for j in combination.group
    }
    judged = [
        _verdict(uncertainty, profile, j, sentences.get(j))
        for j, profile in enumerate(profiles)
    ]
    # Parts of a combination have more freedom than to be exchanged.
    return [
        each if j in sentences else replace(each, note=notes.get(j, ""))
        for j, each in enumerate(judged)
    ]


def weaken_by_network(
    verdicts: Sequence[Verdict], rests_on_prior: np.ndarray
) -> list[Verdict]:
    """Make values at most weakly determined if a network can compensate for them."""
    return [
        replace(verdict, verdict=WEAKLY_DETERMINED, pattern=_BY_NETWORK)
        if rests and verdict.verdict == DETERMINED
        else verdict
        for verdict, rests in zip(verdicts, rests_on_prior)
    ]


def _verdict(
    uncertainty: Uncertainty, profile: Profile, j: int, combination: str | None
) -> Verdict:
    """Judge free value j; `combination` is the sentence on the combination of
    parameters that is determined instead, if there is one."""
    name, (low, high) = profile.name, profile.closed
    if not np.isfinite(uncertainty.search_result.best.loss[0]):
        return Verdict(name, NOT_DETERMINED, "There is no fit.")
    if uncertainty.noise_unknown:
        return Verdict(
            name,
            NOT_DETERMINED,
            "No degrees of freedom are left to estimate the noise, so that the errors "
            "of {} are unknown.",
        )
    if np.isnan(profile.interval[0]):
        return Verdict(name, NOT_JUDGED)
    if combination is not None:
        if low and high:
            note = (
                "Within this interval other parameters can compensate for a change of "
                f"`{name}`."
            )
            return Verdict(name, WEAKLY_DETERMINED, combination, note)
        return Verdict(name, NOT_DETERMINED, combination)
    if low and high:
        return _closed_verdict(profile, float(uncertainty.standard_errors[j]))
    is_flat = uncertainty.sensitivity_norms[j] == 0 and np.max(profile.r) < _FLAT
    if is_flat and not (low or high or any(profile.breakdown)):
        return Verdict(
            name, NOT_DETERMINED, "At the best fit the data do not depend on {}."
        )
    return Verdict(name, NOT_DETERMINED, _open_ends(profile))


def _closed_verdict(profile: Profile, standard_error: float) -> Verdict:
    """Judge a value whose interval is closed."""
    expected = 2 * profile.quantile * standard_error
    ratio = (profile.interval[1] - profile.interval[0]) / expected
    if not np.isfinite(expected) or ratio <= _WIDE:
        return Verdict(profile.name, DETERMINED)
    times = f"{ratio:.1f}" if ratio < _VERY_WIDE else f"more than {_VERY_WIDE:.0f}"
    return Verdict(
        profile.name,
        WEAKLY_DETERMINED,
        f"The interval of {{}} is {times} times as wide as its standard error "
        "predicts: its profile is far from a parabola.",
    )


def _open_ends(profile: Profile) -> str:
    """Return sentences on the sides on which a profile is open."""
    if not any(profile.closed) and not any(profile.breakdown):
        return "The data do not bound {}."
    sides = zip(profile.closed, profile.reached, profile.breakdown, ("below", "above"))
    return " ".join(
        f"No limit to {{}} is known {side} {reached:.4g}, where {_BREAKDOWNS[why]}."
        if why
        else f"The data do not bound {{}} from {side}."
        for is_closed, reached, why, side in sides
        if not is_closed
    )


_BREAKDOWNS = {
    EXPLODES: "the solutions explode",
    LOST: "no fit was found",
    STEPS_MATTER: "the solver's steps matter",
}
