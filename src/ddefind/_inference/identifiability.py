"""Identifiability: which parameters the data determine, and why not the others.

A parameter is *determined* if its 95% profile interval is closed on both sides, and
*not determined* if the profile stays open on a side. It is *weakly determined* if the
interval is closed, but much wider than its standard error suggests: because of a ridge,
or of several minima.

If only a combination of parameters is determined, such as a product or a sum, the
verdict names it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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


@final
@dataclass(frozen=True, eq=False)
class Verdict:
    """The verdict on one parameter; it equals its word, as "determined". `pattern` is a
    sentence that gives the reason, with `{}` in the place of the name, so that
    parameters with the same reason can share it. `note` is a sentence on delays that
    can be exchanged, empty for most parameters."""

    name: str
    verdict: str
    pattern: str = ""
    note: str = ""

    @property
    def reason(self) -> str:
        """The reason in a sentence, followed by the note; empty for a determined
        parameter without a note."""
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


def reasons(verdicts: Sequence[Verdict]) -> list[str]:
    """The reasons of all verdicts, and their notes. Parameters with the same reason
    share a sentence, and so do those with the same note."""
    names_by_pattern: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.pattern:
            names = names_by_pattern.setdefault(verdict.pattern, [])
            names.append(f"`{verdict.name}`")
    own = [
        pattern.replace("{}", ", ".join(names))
        for pattern, names in names_by_pattern.items()
    ]
    notes = dict.fromkeys(verdict.note for verdict in verdicts if verdict.note)
    return [*own, *notes]


def verdicts(
    uncertainty: Uncertainty,
    profiles: Sequence[Profile],
    combinations: Mapping[int, str],
    notes: Mapping[int, str],
) -> list[Verdict]:
    """The verdict on each free value, from the profiles of all, the sentences on
    `determined_combinations` and the `exchange_notes`."""
    judged = [
        _verdict(uncertainty, profile, j, combinations.get(j))
        for j, profile in enumerate(profiles)
    ]
    return [replace(each, note=notes.get(j, "")) for j, each in enumerate(judged)]


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
