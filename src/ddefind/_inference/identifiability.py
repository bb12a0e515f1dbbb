"""Identifiability: which parameters the data determine, and why not the others.

A parameter is *determined* if its 95% profile interval is closed on both sides, and
*not determined* if the profile stays open on a side. It is *weakly determined* if the
interval is closed, but much wider than its standard error suggests: because of a ridge,
or of several minima.

If only a combination of parameters is determined, such as a product or a ratio, the
verdict names it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from .covariance import Uncertainty
from .profile_likelihood import Profile

DETERMINED, WEAKLY_DETERMINED, NOT_DETERMINED = (
    "determined",
    "weakly determined",
    "not determined",
)

# A parameter is weakly determined if its interval is wider than the standard error
# suggests by more than this factor.
_WIDE = 2.0
# A number this close to a whole number or to the value of a parameter is taken for it.
_ROUNDING_TOLERANCE = 2e-3
# The largest exponent in a formula of determined combinations.
_LARGEST_EXPONENT = 100.0


@final
@dataclass(frozen=True)
class Verdict:
    """The verdict on one parameter. `pattern` is a sentence that gives the reason, with
    `{}` in the place of the name, so that parameters with the same reason can share
    it."""

    name: str
    verdict: str
    pattern: str = ""

    @property
    def reason(self) -> str:
        """The reason in a sentence; empty for a determined parameter."""
        return self.pattern.replace("{}", f"`{self.name}`")


def reasons(verdicts: Sequence[Verdict]) -> list[str]:
    """The reasons of all verdicts. Parameters with the same reason share a sentence."""
    names_by_pattern: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.pattern:
            names = names_by_pattern.setdefault(verdict.pattern, [])
            names.append(f"`{verdict.name}`")
    return [
        pattern.replace("{}", ", ".join(names))
        for pattern, names in names_by_pattern.items()
    ]


def verdicts(uncertainty: Uncertainty, profiles: list[Profile]) -> list[Verdict]:
    """The verdict on each free value, from the profiles of all."""
    combinations = _determined_combinations(uncertainty)
    return [
        _verdict(uncertainty, profile, j, combinations.get(j))
        for j, profile in enumerate(profiles)
    ]


def _verdict(
    uncertainty: Uncertainty, profile: Profile, j: int, combination: str | None
) -> Verdict:
    """The verdict on free value j; `combination` is the sentence on the combination of
    parameters that is determined instead, if there is one."""
    name = profile.name
    if not np.isfinite(uncertainty.search_result.best.loss[0]):
        return Verdict(name, NOT_DETERMINED, "There is no fit.")
    if uncertainty.sensitivity_norms[j] == 0:
        return Verdict(name, NOT_DETERMINED, "The data do not depend on {}.")
    if uncertainty.noise_unknown:
        return Verdict(
            name,
            NOT_DETERMINED,
            "No degrees of freedom are left to estimate the noise, so that the errors "
            "of {} are unknown.",
        )
    if combination is not None:
        return Verdict(name, NOT_DETERMINED, combination)
    low, high = profile.closed
    if low and high:
        expected = 2 * profile.quantile * uncertainty.standard_errors[j]
        width = profile.interval[1] - profile.interval[0]
        if width > _WIDE * expected:
            return Verdict(
                name,
                WEAKLY_DETERMINED,
                f"The interval of {{}} is {width / expected:.1f} times as wide as its "
                "standard error promises: its profile is far from a parabola.",
            )
        return Verdict(name, DETERMINED)
    if low:
        where = f"above {profile.interval[0]:.4g}"
    elif high:
        where = f"below {profile.interval[1]:.4g}"
    else:
        where = "on both sides"
    return Verdict(name, NOT_DETERMINED, f"The profile of {{}} stays open {where}.")


def _determined_combinations(uncertainty: Uncertainty) -> dict[int, str]:
    """For each free value that is part of an undetermined direction, a sentence on what
    is determined instead."""
    undetermined = uncertainty.undetermined
    if undetermined.shape[1] == 0:
        return {}
    sentences: dict[int, str] = {}
    for group in _groups(undetermined):
        names = [uncertainty.setup.model.free.names[j] for j in group]
        gradients = _orthogonal_complement(undetermined[group])
        gradients = gradients * uncertainty.sensitivity_norms[group][:, None]
        count, formula = gradients.shape[1], None
        if count == 1:
            formula = _formula(uncertainty, group, gradients[:, 0])
        if formula is not None:
            sentence = f"Only `{formula}` is determined, not its parts."
        else:
            listed = ", ".join(f"`{name}`" for name in names)
            few = {0: "no combination is", 1: "only one combination is"}
            counted = few.get(count, f"only {count} combinations are")
            sentence = f"Of {listed} {counted} determined."
        sentences.update(dict.fromkeys(group, sentence))
    return sentences


def _groups(undetermined: np.ndarray) -> list[list[int]]:
    """The indices of free values that the undetermined directions (columns) connect:
    the connected components of the graph in which two values are linked if the
    projector on these directions couples them."""
    projector = undetermined @ np.linalg.pinv(undetermined)
    linked = np.abs(projector) > 1e-3
    remaining = [j for j in range(len(undetermined)) if linked[j, j]]
    groups = []
    while remaining:
        group, before = {remaining[0]}, set()
        while group != before:
            before = set(group)
            group |= {int(k) for j in before for k in np.flatnonzero(linked[j])}
        groups.append(sorted(group))
        remaining = [j for j in remaining if j not in group]
    return groups


def _orthogonal_complement(directions: np.ndarray) -> np.ndarray:
    """An orthonormal basis, as columns, of what is orthogonal to the directions. For
    undetermined directions these are gradients of the determined combinations."""
    left, singular, _ = np.linalg.svd(directions, full_matrices=True)
    rank = int(np.sum(singular > 1e-6 * singular[0]))
    return left[:, rank:]


def _formula(
    uncertainty: Uncertainty, group: list[int], gradient: np.ndarray
) -> str | None:
    """A formula for the combination c of the parameters in `group` whose logarithm has
    the given `gradient`, up to a factor: a product of powers and exponentials.

    A power v^e contributes e dv / v to d log c, an exponential exp(g v) contributes
    g dv. The factor is chosen such that most exponents become whole numbers. None if an
    exponent is too large for a sensible formula."""
    names = uncertainty.setup.model.free.names
    values = uncertainty.theta
    exponents = gradient * values[group]
    gradient = gradient / exponents[int(np.argmax(_count_whole(exponents)))]
    exponents = gradient * values[group]
    powers, exponentials = [], []
    for j, slope, exponent in zip(group, gradient, exponents):
        whole = round(exponent)
        if abs(exponent) > _LARGEST_EXPONENT:
            return None
        if whole != 0 and abs(exponent - whole) < _ROUNDING_TOLERANCE:
            powers.append(names[j] if whole == 1 else f"{names[j]}^{whole}")
        else:
            sign, size = _coefficient(slope, names, values, j)
            exponentials.append(f"exp({sign}{names[j]} * {size})")
    return " * ".join(powers + exponentials)


def _count_whole(exponents: np.ndarray) -> np.ndarray:
    """For each exponent, how many of them become whole numbers (other than zero) if all
    are divided by it."""
    ratios = exponents[None, :] / np.where(exponents != 0, exponents, 1.0)[:, None]
    is_close = np.abs(ratios - np.round(ratios)) < _ROUNDING_TOLERANCE
    return np.sum(is_close & (np.round(ratios) != 0), axis=1)


def _coefficient(
    slope: float, names: Sequence[str], values: np.ndarray, own: int
) -> tuple[str, str]:
    """The sign and the size of a coefficient: as the name of another parameter that has
    this value, or as a number. `own` is the index of the parameter it multiplies."""
    sign = "-" if slope < 0 else ""
    for j, (name, value) in enumerate(zip(names, values)):
        if j != own and value and abs(abs(slope / value) - 1) < _ROUNDING_TOLERANCE:
            return sign, name
    return sign, f"{abs(slope):.4g}"
