"""What the data can tell and what not, in words.

A parameter is *determined* if its profile closes on both sides at 95%; *weakly
determined* if it does, but far from where its standard error says, along a ridge or
over several minima; and *not determined* if the profile stays open on a side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from .covariance import Uncertainty
from .profile_likelihood import Profile

DETERMINED, WEAK, NOT = "determined", "weakly determined", "not determined"

# An interval so many times as wide as the standard error's is far from quadratic.
_WIDE = 2.0
# How near a number must be to a simple one to be taken for it.
_SIMPLE = 2e-3
# No formula has a power or an exponential of more than this.
_LARGEST = 100.0


@final
@dataclass(frozen=True)
class Verdict:
    """What the data say of one parameter, and why: `pattern` has `{}` for its name."""

    name: str
    verdict: str
    pattern: str = ""

    @property
    def reason(self) -> str:
        return self.pattern.replace("{}", f"`{self.name}`")


def reasons(found: Sequence[Verdict]) -> list[str]:
    """The reasons of several verdicts, those that are the same in one sentence."""
    names: dict[str, list[str]] = {}
    for each in found:
        if each.pattern:
            names.setdefault(each.pattern, []).append(f"`{each.name}`")
    return [pattern.replace("{}", ", ".join(those)) for pattern, those in names.items()]


def verdicts(uncertainty: Uncertainty, profiles: list[Profile]) -> list[Verdict]:
    """A verdict on each free value."""
    combinations = _combinations(uncertainty)
    return [
        _verdict(uncertainty, profile, j, combinations.get(j))
        for j, profile in enumerate(profiles)
    ]


def _verdict(
    uncertainty: Uncertainty, profile: Profile, j: int, combination
) -> Verdict:
    name = profile.name
    if not np.isfinite(uncertainty.search_result.best.loss[0]):
        return Verdict(name, NOT, "There is no fit.")
    if uncertainty.scale[j] == 0:
        return Verdict(name, NOT, "The data do not depend on {}.")
    if uncertainty.noise_unknown:
        return Verdict(
            name,
            NOT,
            "No value is left over to tell the noise by, and so nothing of the errors "
            "of {}.",
        )
    if combination is not None:
        return Verdict(name, NOT, combination)
    low, high = profile.closed
    if low and high:
        usual = 2 * profile.quantile * uncertainty.standard_errors[j]
        width = profile.interval[1] - profile.interval[0]
        if width > _WIDE * usual:
            return Verdict(
                name,
                WEAK,
                f"The interval of {{}} is {width / usual:.1f} times as wide as its "
                "standard error promises: its profile is far from a parabola.",
            )
        return Verdict(name, DETERMINED)
    if low:
        where = f"above {profile.interval[0]:.4g}"
    elif high:
        where = f"below {profile.interval[1]:.4g}"
    else:
        where = "on both sides"
    return Verdict(name, NOT, f"The profile of {{}} stays open {where}.")


def _combinations(uncertainty: Uncertainty) -> dict[int, str]:
    """For each value that is part of an undetermined direction, what of it is
    determined."""
    null = uncertainty.undetermined
    if null.shape[1] == 0:
        return {}
    reasons: dict[int, str] = {}
    for group in _groups(null):
        names = [uncertainty.setup.model.free.names[j] for j in group]
        normals = _normals(null[group]) * uncertainty.scale[group][:, None]
        count, formula = normals.shape[1], None
        if count == 1:
            formula = _formula(uncertainty, group, normals[:, 0])
        if formula is not None:
            text = f"Only `{formula}` is determined, not its parts."
        else:
            what = ", ".join(f"`{name}`" for name in names)
            number = {0: "no combination is", 1: "only one combination is"}
            counted = number.get(count, f"only {count} combinations are")
            text = f"Of {what} {counted} determined."
        reasons.update(dict.fromkeys(group, text))
    return reasons


def _groups(share: np.ndarray) -> list[list[int]]:
    """Values that undetermined directions tie together."""
    projector = share @ np.linalg.pinv(share)
    linked = np.abs(projector) > 1e-3
    left = [j for j in range(len(share)) if linked[j, j]]
    groups = []
    while left:
        group, grown = {left[0]}, set()
        while group != grown:
            grown = set(group)
            group |= {int(k) for j in grown for k in np.flatnonzero(linked[j])}
        groups.append(sorted(group))
        left = [j for j in left if j not in group]
    return groups


def _normals(null: np.ndarray) -> np.ndarray:
    """What is orthogonal to the undetermined directions: gradients of what is
    determined."""
    left, singular, _ = np.linalg.svd(null, full_matrices=True)
    rank = int(np.sum(singular > 1e-6 * singular[0]))
    return left[:, rank:]


def _formula(
    uncertainty: Uncertainty, group: list[int], gradient: np.ndarray
) -> str | None:
    """A product of powers and exponentials with this logarithmic gradient; None where
    exponents are so large that it cannot be one.

    d log c = e_1 dv_1 / v_1 + ... for powers v^e, and g dv for exp(g v)."""
    names = uncertainty.setup.model.free.names
    values = uncertainty.theta
    exponents = gradient * values[group]
    gradient = gradient / exponents[int(np.argmax(_simple(exponents)))]
    exponents = gradient * values[group]
    powers, exponentials = [], []
    for j, slope, exponent in zip(group, gradient, exponents):
        whole = round(exponent)
        if abs(exponent) > _LARGEST:
            return None
        if whole != 0 and abs(exponent - whole) < _SIMPLE:
            powers.append(names[j] if whole == 1 else f"{names[j]}^{whole}")
        else:
            sign, size = _coefficient(slope, names, values, j)
            exponentials.append(f"exp({sign}{names[j]} * {size})")
    return " * ".join(powers + exponentials)


def _simple(exponents: np.ndarray) -> np.ndarray:
    """How many of the exponents become whole numbers, with each of them as the one."""
    ratios = exponents[None, :] / np.where(exponents != 0, exponents, 1.0)[:, None]
    near = np.abs(ratios - np.round(ratios)) < _SIMPLE
    return np.sum(near & (np.round(ratios) != 0), axis=1)


def _coefficient(slope: float, names, values: np.ndarray, own: int) -> tuple[str, str]:
    """Its sign, and its size: a number, or the parameter that it is."""
    sign = "-" if slope < 0 else ""
    for j, (name, value) in enumerate(zip(names, values)):
        if j != own and value and abs(abs(slope / value) - 1) < _SIMPLE:
            return sign, name
    return sign, f"{abs(slope):.4g}"
