"""Identifiability: which parameters the data determine, and why not the others.

A parameter is *determined* if its 95% profile interval is closed on both sides, and
*not determined* if the profile stays open on a side. It is *weakly determined* if the
interval is closed, but much wider than its standard error suggests, because of a ridge
or of several minima; or if only a combination with others is determined, such as a
product or a sum, which the verdict names. It is *not judged* where the fit itself is in
doubt."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from .combinations import Combination
from .covariance import Uncertainty
from .profile import EXPLODES, LOST, STEPS_MATTER, Profile

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
