"""The interval of each parameter, as it is reported: cut at the bounds that the
user gave, which count as known, and marked there."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._util.shown import decimals, format_interval, format_number

if TYPE_CHECKING:
    from .._inference.profile import Profile
    from .estimate import Estimate

# What marks an end that is a bound.
_MARK = "*"
EXPLANATION = f"{_MARK} is a bound that was given: the data set no limit before it."


class Limits(NamedTuple):
    """The ends of an interval, infinite where nothing limits the parameter and NaN
    where nothing is known; and whether they are bounds that were given."""

    low: float
    high: float
    low_is_bound: bool
    high_is_bound: bool

    @property
    def has_mark(self) -> bool:
        """Whether a bound is printed, and marked. A bound alone is not: it says nothing
        about a parameter without any other limit."""
        has_bound = self.high_is_bound or self.low_is_bound
        return has_bound and bool(np.isfinite(self.low + self.high))

    def text(self, digits: int | None) -> str:
        """The interval in a table, with bounds marked.

        >>> Limits(0.5, 1.0, False, True).text(2)
        '[0.50, 1*]'
        >>> Limits(float("-inf"), 3.4, False, False).text(1)
        '< 3.4'
        """
        if not self.has_mark:
            low = -np.inf if self.low_is_bound else self.low
            high = np.inf if self.high_is_bound else self.high
            return format_interval(low, high, digits)
        ends = zip((self.low, self.high), (self.low_is_bound, self.high_is_bound))
        texts = [
            f"{end:.5g}{_MARK}" if is_bound else format_number(end, digits)
            for end, is_bound in ends
        ]
        return f"[{', '.join(texts)}]"


def limits(fit: "Estimate") -> list[Limits]:
    """The limits of each free parameter of a fit that has intervals."""
    assert fit.assessment is not None
    return [limits_of(fit, profile) for profile in fit.assessment.profiles]


def limits_of(fit: "Estimate", profile: "Profile") -> Limits:
    """The limits of the parameter whose profile this is."""
    setup, j = fit.setup, fit.names.index(profile.name)
    low, high = profile.interval
    low_is_bound = bool(low < setup.lower[j] or np.isneginf(low))
    low_is_bound &= bool(setup.is_given[0, j])
    high_is_bound = bool(high > setup.upper[j] or np.isposinf(high))
    high_is_bound &= bool(setup.is_given[1, j])
    low = float(setup.lower[j]) if low_is_bound else low
    high = float(setup.upper[j]) if high_is_bound else high
    return Limits(low, high, low_is_bound, high_is_bound)


def interval_in_words(fit: "Estimate", profile: "Profile", level: float) -> str:
    """The interval of a parameter in a sentence, from its profile at this `level`."""
    ends, name = limits_of(fit, profile), f"`{profile.name}`"
    digits = decimals(profile.estimate, fit.standard_errors[profile.name])
    value, low, high = (
        format_number(each, digits) for each in (profile.estimate, ends.low, ends.high)
    )
    share = f"with {100 * level:g}% confidence"
    below = f" (its bound is {ends.low:.5g})" if ends.low_is_bound else ""
    above = f" (its bound is {ends.high:.5g})" if ends.high_is_bound else ""
    match profile.closed[0] and not below, profile.closed[1] and not above:
        case _ if np.isnan(ends.low):
            return f"{name} is {value}. Its profile was not followed."
        case True, True:
            return f"{name} is {value}, and {share} between {low} and {high}."
        case True, False:
            said = f"{share} above {low}; the data set no upper limit{above}"
        case False, True:
            said = f"{share} below {high}; the data set no lower limit{below}"
        case _:
            said = f"the data set no lower limit{below} and no upper limit{above}"
    return f"{name} is {value}, and {said}."
