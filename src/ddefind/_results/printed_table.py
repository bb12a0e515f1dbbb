"""A least-squares fit on one screen: a table, and plain sentences below it.

No fit is run and nothing is compiled here: a fit without intervals is printed without
them, and says so. An interval is cut at the bounds that the user gave, which count as
known, and marked there."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._data.study_data import parts_of
from .._inference.identifiability import DETERMINED, NOT_DETERMINED, NOT_JUDGED, reasons
from .._problem.network_weights import named_indices, without_weights
from .._util import wording
from .._util.files import nonfinite_as_none
from .._util.shown import Cells, decimals, format_interval, format_number, listed

if TYPE_CHECKING:
    from .._inference.profile import Profile
    from .estimate import Estimate


# The mark of an end that is a bound.
_MARK = "*"
_EXPLANATION = (
    f"{_MARK} is a bound that was given: the data do not limit the value before it."
)


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
        """Return the interval in a table, with bounds marked.

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
    """Return the limits of each free parameter of a fit that has intervals."""
    assert fit.assessment is not None
    return [limits_of(fit, profile) for profile in fit.assessment.profiles]


def limits_of(fit: "Estimate", profile: "Profile") -> Limits:
    """Return the limits of the parameter whose profile this is."""
    setup, j = fit.setup, fit.names.index(profile.name)
    low, high = profile.interval
    has_low, has_high = setup.is_given[:, j].tolist()
    lowest, highest = float(setup.lower[j]), float(setup.upper[j])
    low_is_bound = has_low and (low < lowest or np.isneginf(low))
    high_is_bound = has_high and (high > highest or np.isposinf(high))
    return Limits(
        lowest if low_is_bound else low,
        highest if high_is_bound else high,
        bool(low_is_bound),
        bool(high_is_bound),
    )


def interval_in_words(fit: "Estimate", profile: "Profile", level: float) -> str:
    """Describe the interval of a parameter, from its profile at this `level`."""
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
            about = f"{share} above {low}; the data give no upper limit{above}"
        case False, True:
            about = f"{share} below {high}; the data give no lower limit{below}"
        case _:
            about = f"the data give no lower limit{below} and no upper limit{above}"
    return f"{name} is {value}, and {about}."


_ONE_OF_STUDY = (
    "This is one experiment of a study: estimates and errors are those of the study."
)
_WITHOUT_INTERVALS = "The intervals and the tests of the residuals were left out; {}."


def cells(fit: "Estimate") -> Cells:
    """Return the printed table, and the plain numbers and words behind it: a row for
    each parameter, without the weights of networks. None stands where there is no
    number. Without an assessment there are no intervals and verdicts."""
    has_fit, assessment = bool(np.isfinite(fit.loss)), fit.assessment
    errors = fit.standard_errors if has_fit else {}
    header: tuple[str, ...] = ("parameter", "estimate", "std. error")
    ends = [] if assessment is None else limits(fit)
    if assessment is not None:
        header += (f"{100 * assessment.level:g}% interval", "")
    rows, values = [], []
    for j in named_indices(len(fit.names), fit.networks):
        name, value = fit.names[j], float(fit.best[j])
        error = nonfinite_as_none(errors.get(name, np.inf))
        digits = decimals(value, error)
        row: tuple[str, ...] = (name, "-", "-")
        if has_fit and _has_estimate(fit, j):
            shown = "-" if error is None else f"{error:.2g}"
            row = (name, format_number(value, digits), shown)
        known = {"name": name, "estimate": value, "standard_error": error}
        if assessment is not None:
            verdict = assessment.verdicts[j]
            is_plain = verdict.verdict in (DETERMINED, NOT_JUDGED)
            row += (ends[j].text(digits), "" if is_plain else verdict.verdict)
            known |= nonfinite_as_none(ends[j]._asdict())
            known |= {"verdict": verdict.verdict, "reason": verdict.reason}
        rows.append(row)
        values.append(known)
    return Cells(header, rows, values, left=(0, 3, 4))


def _has_estimate(fit: "Estimate", j: int) -> bool:
    """Whether the estimate of free value j says anything: whether the profile beside it
    is not flat."""
    if fit.assessment is None:
        return not fit.uncertainty.without_influence[j]
    profile, verdict = fit.assessment.profiles[j], fit.assessment.verdicts[j]
    if verdict.verdict in (DETERMINED, NOT_JUDGED):
        return True
    if fit.uncertainty.without_influence[j]:
        return False
    rises = [
        np.any(profile.r[side * (profile.values - profile.estimate) > 0] >= 1)
        for side in (-1, 1)
    ]
    return all(rises) or verdict.verdict != NOT_DETERMINED


def sentences(fit: "Estimate") -> list[str]:
    """Return the sentences below the table, without the warnings."""
    if fit.is_part:
        return [_about_noise(fit), _ONE_OF_STUDY]
    how = fit.uncertainty, fit.state_names, fit.seconds
    lines = [_about_noise(fit), *_about_experiments(fit), *_about_histories(fit)]
    lines += [*fit.system.about_search(*how), fit.message]
    if fit.assessment is None:
        return [*lines, _WITHOUT_INTERVALS.format(wording.INTERVALS)]
    named = named_indices(len(fit.names), fit.networks)
    ends = limits(fit)
    if any(ends[j].has_mark for j in named):
        lines.append(_EXPLANATION)
    verdicts = reasons([fit.assessment.verdicts[j] for j in named])
    return [*lines, *(without_weights(v, fit.names, fit.networks) for v in verdicts)]


def _about_noise(fit: "Estimate") -> str:
    if fit.uncertainty.noise_unknown:
        return f"{fit.setup.count} values, no degrees of freedom; noise unknown."
    noise = ", ".join(f"{name} {sd:.3g}" for name, sd in fit.noise.items())
    degrees = "1 degree" if fit.freedom == 1 else f"{fit.freedom} degrees"
    chi = "" if fit.assessment is None else f", chi-square {fit.chi_square:.4g}"
    return fit.setup.misfit.about_noise(fit.setup, degrees, noise, chi)


def _about_experiments(fit: "Estimate") -> list[str]:
    """Name the experiments of a study, and the parameters that differ among them."""
    if not fit.experiments:
        return []
    counts = [int(np.isfinite(part.x).sum()) for part in parts_of(fit.data)]
    named = [f"{label} ({n})" for label, n in zip(fit.experiments, counts)]
    local = dict.fromkeys(name.split("@")[0] for name in fit.names if "@" in name)
    shared = [name for name in fit.names if "@" not in name]
    text = f"{len(named)} experiments (numbers of values): {listed(named)}."
    if local:
        text += f" Each has its own {listed([f'`{name}`' for name in local])}"
        text += "; all else is shared." if shared else "."
    return [text]


def _about_histories(fit: "Estimate") -> list[str]:
    """Say which history was chosen, and by how much; or which data are the past."""
    if fit.time_zero:
        return [
            f"The fit begins at t = {fit.time_zero:.4g}; the data before are its past."
        ]
    if not fit.histories:
        return []
    (chosen, _), *others = fit.histories
    higher = [f"{rise:.3g} with `{kind}`" for kind, rise in others if rise < np.inf]
    above = f"; BIC is higher by {', '.join(higher)}" if higher else ""
    return [f"History chosen by evidence: `{chosen}`{above}."]
