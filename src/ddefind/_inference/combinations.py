r"""Combinations of parameters that are determined although their parts are not.

An undetermined direction connects the parameters of a group. If one combination c of
them is determined, its gradient is orthogonal to these directions. Its formula is
sought among products of powers and exponentials of the parameters, or of sums of them,

$$c = \prod_k S_k^{e_k} \prod_l \exp(g_l S_l), \qquad S = \sum_j m_j v_j,$$

with whole numbers e and m: `k * T_0 * exp(-m * tau)`, `tau_1 + 2 * tau_2`, or `k * (a +
b)`. Several formulas can have the same gradient at the estimate. So each is tested: the
parameters are changed by half of their values such that the formula keeps its value.
The formula whose sum of squares stays the same is the right one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._least_squares.setup import FitSetup
from .covariance import Uncertainty

# A number this close to a whole number or to the value of a parameter is taken for it.
_ROUNDING_TOLERANCE = 2e-3
# The largest exponent in a formula, and the largest factor in a sum.
_LARGEST_EXPONENT, _LARGEST_FACTOR = 100.0, 6
# The parameters are changed by this share of their values; by less where bounds are
# near, but not by less than the second number.
_CHANGE, _SMALLEST_CHANGE = 0.5, 0.05
# The largest increase of chi-square of a right formula: the steps of the solver change
# together with a delay, and chi-square a little with them.
_SAME_CHI_SQUARE = 0.02
# The same away from the minimum, as a share of the sum of squares.
_SAME_LOSS = 1e-6


class _Term(NamedTuple):
    """A factor of a formula: a power or an exponential of the sum of the free values
    `members`, each multiplied by its whole number in `factors`.

    `slope` is the exponent of a power, or what an exponential multiplies the sum by. If
    `like` is not None, that is plus or minus the free value of this index."""

    members: tuple[int, ...]
    factors: tuple[int, ...]
    is_power: bool
    slope: float
    like: int | None

    def total(self, theta: np.ndarray) -> float:
        """The sum of the members."""
        return float(np.dot(self.factors, theta[list(self.members)]))

    def rate(self, theta: np.ndarray) -> float:
        """`slope`, as it is at the free values `theta`."""
        if self.like is None:
            return self.slope
        return float(np.copysign(theta[self.like], self.slope))

    def logarithm(self, theta: np.ndarray) -> float:
        """The logarithm of the factor, without its sign."""
        total = self.total(theta)
        size = np.log(abs(total)) if self.is_power and total else total
        return self.rate(theta) * size

    def text(self, names: Sequence[str], is_alone: bool) -> str:
        """The factor in a formula; `is_alone` if there is no other."""
        parts = [
            f"{' - ' if factor < 0 else ' + '}"
            f"{'' if abs(factor) == 1 else f'{abs(factor)} * '}{names[j]}"
            for j, factor in zip(self.members, self.factors)
        ]
        inner = "".join(parts).removeprefix(" + ")
        is_sum = len(self.members) > 1
        if self.is_power:
            power = round(self.slope)
            inner = f"({inner})" if is_sum and not (is_alone and power == 1) else inner
            return inner if power == 1 else f"{inner}^{power}"
        size = f"{abs(self.slope):.4g}" if self.like is None else names[self.like]
        sign = "-" if self.slope < 0 else ""
        return f"exp({sign}{f'({inner})' if is_sum else inner} * {size})"


_Formula = tuple[_Term, ...]


def groups(uncertainty: Uncertainty) -> list[list[int]]:
    """The indices of free values that the undetermined directions connect: the
    connected components of the graph in which two values are linked if the projector on
    these directions couples them."""
    undetermined = uncertainty.undetermined
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


def determined_combinations(
    uncertainty: Uncertainty, coincident: frozenset[int]
) -> dict[int, str]:
    """For each free value that is part of an undetermined direction, a sentence on what
    is determined instead. There is none for those `coincident` values that are no part
    of a formula: they may be determined after all.

    All formulas are tested in one batch. Without undetermined directions nothing is
    computed."""
    names = uncertainty.setup.model.free.names
    found, counts = groups(uncertainty), []
    candidates: list[list[_Formula]] = []
    for group in found:
        gradients = _orthogonal_complement(uncertainty.undetermined[group])
        gradients = gradients * uncertainty.sensitivity_norms[group][:, None]
        counts.append(gradients.shape[1])
        is_one = gradients.shape[1] == 1
        candidates.append(
            _candidates(uncertainty.theta, group, gradients[:, 0]) if is_one else []
        )
    sentences: dict[int, str] = {}
    for group, count, right in zip(found, counts, _tested(uncertainty, candidates)):
        if right is not None:
            formula = " * ".join(term.text(names, len(right) == 1) for term in right)
            sentence = f"Only `{formula}` is determined, not its parts."
        elif coincident.issuperset(group):
            continue
        else:
            listed = ", ".join(f"`{names[j]}`" for j in group)
            few = {0: "no combination is", 1: "only one combination is"}
            counted = few.get(count, f"only {count} combinations are")
            sentence = f"Of {listed} {counted} determined."
        sentences.update(dict.fromkeys(group, sentence))
    return sentences


def _orthogonal_complement(directions: np.ndarray) -> np.ndarray:
    """An orthonormal basis, as columns, of what is orthogonal to the directions. For
    undetermined directions these are gradients of the determined combinations."""
    left, singular, _ = np.linalg.svd(directions, full_matrices=True)
    rank = int(np.sum(singular > 1e-6 * singular[0]))
    return left[:, rank:]


# Formulas that have a given gradient.


def _candidates(
    values: np.ndarray, group: list[int], gradient: np.ndarray
) -> list[_Formula]:
    """The formulas for a combination of the free values in `group` whose gradient is
    `gradient`, up to a factor: a product of all, of sums of those with equal
    derivatives, or a sum of all."""
    apart = [((j,), (1,), float(slope)) for j, slope in zip(group, gradient)]
    equal: list[tuple[tuple[int, ...], tuple[int, ...], float]] = []
    for members, factors, slope in apart:
        for place, (others, signs, first) in enumerate(equal):
            if abs(abs(slope / first) - 1) < _ROUNDING_TOLERANCE:
                sign = 1 if slope / first > 0 else -1
                equal[place] = (others + members, (*signs, sign), first)
                break
        else:
            equal.append((members, factors, slope))
    sums = [apart, equal]
    if (whole := _whole_factors(gradient)) is not None:
        sums.append([(tuple(group), whole, float(gradient[0] / whole[0]))])
    found = [
        _formula(values, each, is_named) for each in sums for is_named in (True, False)
    ]
    return list(dict.fromkeys(each for each in found if each is not None))


def _whole_factors(gradient: np.ndarray) -> tuple[int, ...] | None:
    """Small whole numbers in the ratios of the gradient, the first of them positive;
    None if there are none."""
    for divisor in (1, 2, 3):
        ratios = gradient / np.min(np.abs(gradient)) * divisor * np.sign(gradient[0])
        whole = np.round(ratios)
        is_whole = np.abs(ratios / np.where(whole, whole, 1) - 1) < _ROUNDING_TOLERANCE
        if np.all(is_whole) and np.max(np.abs(whole)) <= _LARGEST_FACTOR:
            return tuple(int(each) for each in whole)
    return None


def _formula(
    values: np.ndarray,
    sums: list[tuple[tuple[int, ...], tuple[int, ...], float]],
    is_named: bool,
) -> _Formula | None:
    """A product of powers and exponentials of the given sums, each given by its
    members, their factors and the derivative of log c for it, up to a factor.

    A power S^e contributes e dS / S to d log c, an exponential exp(g S) contributes
    g dS. The factor is chosen such that most exponents become whole numbers. If
    `is_named`, a coefficient that equals another free value is taken for it. None if
    an exponent is too large for a sensible formula."""
    totals = np.array([np.dot(factors, values[list(m)]) for m, factors, _ in sums])
    slopes = np.array([slope for _, _, slope in sums])
    exponents = slopes * totals
    if not np.all(exponents):
        return None
    unit = exponents[int(np.argmax(_count_whole(exponents)))]
    slopes, exponents = slopes / unit, exponents / unit
    powers, exponentials = [], []
    for (members, factors, _), slope, exponent in zip(sums, slopes, exponents):
        whole = round(exponent)
        if abs(exponent) > _LARGEST_EXPONENT:
            return None
        if whole != 0 and abs(exponent - whole) < _ROUNDING_TOLERANCE:
            powers.append(_Term(members, factors, True, float(whole), None))
        else:
            like = _equal_value(values, members, slope) if is_named else None
            exponentials.append(_Term(members, factors, False, float(slope), like))
    return (*powers, *exponentials)


def _count_whole(exponents: np.ndarray) -> np.ndarray:
    """For each exponent, how many of them become whole numbers (other than zero) if all
    are divided by it."""
    ratios = exponents[None, :] / exponents[:, None]
    is_close = np.abs(ratios - np.round(ratios)) < _ROUNDING_TOLERANCE
    return np.sum(is_close & (np.round(ratios) != 0), axis=1)


def _equal_value(
    values: np.ndarray, members: tuple[int, ...], slope: float
) -> int | None:
    """The index of a free value, other than the `members`, that has the size of a
    coefficient."""
    for j, value in enumerate(values):
        is_other = j not in members and value != 0
        if is_other and abs(abs(slope / value) - 1) < _ROUNDING_TOLERANCE:
            return j
    return None


# The test of formulas.


def _tested(
    uncertainty: Uncertainty, candidates: list[list[_Formula]]
) -> list[_Formula | None]:
    """For each group the formula along whose level set the sum of squares changes
    least; None if it changes too much along all of them."""
    moves = [
        (place, formula, pair)
        for place, formulas in enumerate(candidates)
        for formula in formulas
        for pair in _moves(uncertainty, formula)
    ]
    if not moves:
        return [None] * len(candidates)
    theta = np.concatenate([pair for _, _, pair in moves])
    before, after = uncertainty.losses(theta).reshape(-1, 2).T
    unit = _SAME_CHI_SQUARE * uncertainty.residual_variance
    shares = np.abs(after - before) / np.maximum(unit, _SAME_LOSS * before)
    # Changes far below the limit are accidents: then the first formula is taken.
    shares = np.where(np.isfinite(shares), np.maximum(shares, 1e-4), np.inf)
    worst: list[dict[_Formula, float]] = [{} for _ in candidates]
    for (place, formula, _), share in zip(moves, shares.tolist()):
        worst[place][formula] = max(share, worst[place].get(formula, 0.0))
    best = [min(each, key=each.__getitem__, default=None) for each in worst]
    return [
        formula if formula is not None and each[formula] < 1 else None
        for formula, each in zip(best, worst)
    ]


def _moves(uncertainty: Uncertainty, formula: _Formula) -> list[np.ndarray]:
    """Pairs of free values between which the formula does not change: in each, one
    member is changed, and the first one such that the formula keeps its value. None if
    the bounds leave no room for one of them.

    The pairs begin at the estimate and, if a coefficient is taken for another free
    value, where that value is changed."""
    setup, estimate = uncertainty.setup, uncertainty.theta
    bases = [estimate]
    for like in {term.like for term in formula if term.like is not None}:
        changed = estimate.copy()
        room = setup.upper[like] - estimate[like], estimate[like] - setup.lower[like]
        step = min(0.1 * abs(estimate[like]), 0.5 * max(room))
        changed[like] += step if room[0] >= room[1] else -step
        bases.append(changed)
    pivot = formula[0].members[0]
    members = [j for term in formula for j in term.members if j != pivot]
    pairs = []
    for base in bases:
        for j in members:
            share, moved = _CHANGE, None
            while moved is None and share >= _SMALLEST_CHANGE:
                tried = (_moved(formula, base, j, sign * share) for sign in (1, -1))
                inside = (theta for theta in tried if _is_inside(setup, theta))
                moved, share = next(inside, None), 0.5 * share
            if moved is None:
                return []
            pairs.append(np.stack([base, moved]))
    return pairs


def _moved(formula: _Formula, base: np.ndarray, j: int, share: float) -> np.ndarray:
    """The free values `base` with member j changed by a share of the smallest value in
    its sum, and the first member such that the formula keeps its value; NaN where that
    is not possible."""
    first, others = formula[0], formula[1:]
    (own,) = (term for term in formula if j in term.members)
    theta = base.copy()
    theta[j] += share * np.min(np.abs(base[list(own.members)]))
    gained = sum(term.logarithm(theta) - term.logarithm(base) for term in others)
    total, rate = first.total(base), first.rate(theta)
    with np.errstate(over="ignore"):
        wanted = total * np.exp(-gained / rate)
    if not first.is_power:
        wanted = (first.logarithm(base) - gained) / rate
    pivot, factor = first.members[0], first.factors[0]
    theta[pivot] += (wanted - first.total(theta)) / factor
    keeps_signs = all(
        term.total(theta) * term.total(base) > 0 for term in formula if term.is_power
    )
    return theta if keeps_signs else np.full_like(theta, np.nan)


def _is_inside(setup: FitSetup, theta: np.ndarray) -> bool:
    """Whether all free values are finite and within their bounds."""
    is_between = (setup.lower <= theta) & (theta <= setup.upper)
    return bool(np.all(is_between & np.isfinite(theta)))
