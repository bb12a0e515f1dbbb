"""A least-squares fit on one screen: a table, plain sentences below it, and warnings of
what may be wrong, none for a good fit.

No fit is run and nothing is compiled here: a fit without intervals is printed without
them, and says so. An interval is cut at the bounds that the user gave, which count as
known, and marked there."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._data.study_data import parts_of
from .._inference.identifiability import DETERMINED, NOT_DETERMINED, NOT_JUDGED, reasons
from .._inference.residual_tests import (
    CHI,
    NORMAL,
    OUTLIER,
    SPREAD,
    WHITE,
    ResidualTest,
    failed,
    has_no_noise,
)
from .._problem.delays import constant_delays
from .._problem.history import Constant
from .._problem.network_weights import named_indices, without_weights
from .._search.bounds import possible_delays
from .._util import wording
from .._util.files import nonfinite_as_none
from .._util.shown import Cells, decimals, format_interval, format_number, listed
from .status import Status

if TYPE_CHECKING:
    from .._inference.assessment import Assessment, LargeResiduals
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


# The warnings

# A warning is printed if halving the step moves the estimates by more than this share
# of their joint standard error.
_STEP_ERROR = 0.1
# Estimates and priors contradict each other if they differ by more than this number of
# the prior's standard deviations.
_CONTRADICTED = 3.0
# A computed delay below this share of the record is at its limit, zero.
_SHORT_DELAY = 1e-5
# The given noise is too large if chance makes chi-square so small with less than this
# probability.
_TOO_SMALL = 0.005
# The share of the variance that a model explains is printed if it is below this.
_WELL_EXPLAINED = 0.9
# A smooth curve through noise alone does not explain this share of the variance.
_SMOOTH = 0.5
_CHANCE = (
    "That is no more than chance: noise around a constant would be fitted as well. "
    "Estimates and intervals mean something only if the model is known to be right."
)
_MISSED = (
    "A constant would do about as well: the model, or this fit of it, misses what the "
    "data show."
)
# The sentences about a parameter of the noise at its natural limit.
_NATURAL = {
    "lower": "The data show no `{}`: it is as small as it can be.",
    "upper": "`{}` is at its largest value, {:.4g}: such noise is Gaussian.",
}


def cautions(fit: "Estimate", assessment: "Assessment") -> list[str]:
    """Return sentences about the data, the minimum and the residuals; none for a good
    fit."""
    large = fit.system.large_residuals(fit.uncertainty)
    sentences = [_few_values(fit), _few_of_a_quantity(fit), _step_error(fit)]
    sentences += [*_explained(fit, assessment), *_bounds(fit), *_short_delays(fit)]
    sentences += [*_long_delays(fit), *_priors(fit), _tie(fit, assessment)]
    sentences += [_no_noise(fit, assessment), _large_residuals(large)]
    sentences += [_small_chi_square(fit, assessment)]
    # Where the search may have failed, it is not the model that is to blame.
    what = "the model" if large is None else "this fit"
    failures = failed(list(assessment.checks))
    sentences += [_failed_test(fit, test, what) for test in failures]
    if any(test.test == WHITE for test in failures):
        sentences.append(fit.system.about_correlation())
    sentences.append(_other_history(fit, assessment))
    return [sentence for sentence in sentences if sentence]


def _named(fit: "Estimate") -> list[int]:
    """Return the indices of the parameters that are not weights of a network."""
    return named_indices(len(fit.names), fit.networks)


def _few_values(fit: "Estimate") -> str:
    count, p = fit.setup.count, int(np.sum(~fit.setup.is_weight))
    if count > p:
        return ""
    return (
        f"There are no more values ({count}) than parameters ({p}): the fit cannot be "
        "judged. Fix some of them, or measure more."
    )


def _explained(fit: "Estimate", assessment: "Assessment") -> list[str]:
    """Say how much the model explains, if that is little, and whether it is chance."""
    found = assessment.explained
    if found is None:
        return []
    quantities = [
        (f"{_share(model)} of the variance of `{name}`", _share(curve))
        for name, model, curve in zip(fit.data.names, found.model, found.curve)
        if not np.isnan(model) and (model < _WELL_EXPLAINED or found.by_chance)
    ]
    sentences = []
    if quantities:
        curves = [share for _, share in quantities if share]
        smooth = f" (a smooth curve: {', '.join(curves)})" if curves else ""
        shares = " and ".join(share for share, _ in quantities)
        sentences = [f"The model explains {shares}{smooth}."]
    if found.by_chance:
        curve, model = (np.array(shares) for shares in (found.curve, found.model))
        # A smooth curve shows that there is more than noise.
        is_missed = np.any((curve > _SMOOTH) & (curve - np.maximum(model, 0) > _SMOOTH))
        sentences.append(_MISSED if is_missed else _CHANCE)
    return sentences


def _share(share: float) -> str:
    """Return a share in percent; empty if it is not known."""
    return "" if np.isnan(share) else f"{100 * max(share, 0.0):.0f}%"


def _step_error(fit: "Estimate") -> str:
    error = fit.search_result.step_error
    if error <= _STEP_ERROR or fit.search_result.interrupted:
        return ""
    if not np.isfinite(error):
        why = fit.system.why_unchecked
        return f"The solver's steps could not be checked: {why}."
    return (
        f"The solver's steps matter: with half of them the estimates moved by "
        f"{error:.2g} standard errors. {fit.system.about_steps(fit.solver)}"
    )


def _bounds(fit: "Estimate") -> list[str]:
    """Name the estimates on a bound: one that was given, or the natural limit of a
    parameter of the noise."""
    sentences, others = [], len(fit.names) - fit.setup.model.free.noise_count
    held = fit.uncertainty.at_bound & ~fit.uncertainty.without_influence
    for j in filter(held.__getitem__, _named(fit)):
        low, high, value = fit.setup.lower[j], fit.setup.upper[j], fit.best[j]
        side = "lower" if value - low < high - value else "upper"
        is_given = fit.setup.is_given[0 if side == "lower" else 1, j]
        if j >= others and not is_given:
            sentences.append(_NATURAL[side].format(fit.names[j], value))
            continue
        text = f"`{fit.names[j]}` is on its {side} bound, {value:.4g}"
        if j in fit.setup.model.free.delays and value in possible_delays(fit.data):
            remedy = wording.bound(fit.names[j], side)
            text += f", the limit of delays by default ({remedy})"
        sentences.append(f"{text}: the best fit may lie beyond it.")
    return sentences


def _short_delays(fit: "Estimate") -> list[str]:
    """Name delays that are computed from parameters, and would become negative."""
    delays = fit.setup.delays(fit.best[None])[0]
    return [
        f"The delay `{name}` is {delays[q]:.2g}. It cannot be negative, and the best "
        "fit may lie beyond this limit."
        for name, q in fit.setup.computed_delays.items()
        if delays[q] < _SHORT_DELAY * fit.data.T
    ]


def _long_delays(fit: "Estimate") -> list[str]:
    """Name the delays beyond the record, in which no solved state comes back."""
    record, end = fit.setup.data.T, "."
    if isinstance(fit.problem.history, Constant):
        end = ", and any other delay beyond the record would do as well."
    return [
        f"The delay `{name}` is {delay:.4g}, longer than the record, {record:.4g}: in "
        "all of it the delayed state is the history. The data say at most what that "
        f"was{end}"
        for name, delay in constant_delays(fit.problem.tau).items()
        if delay >= record and (fit.model is None or fit.model.delayed)
    ]


def _priors(fit: "Estimate") -> list[str]:
    """Name the estimates that lie far from their priors."""
    priors = fit.setup.model.priors
    if priors is None:
        return []
    value = np.where(priors.log, np.log(np.where(priors.log, fit.best, 1.0)), fit.best)
    away = np.abs(value - priors.mean) * np.sqrt(priors.weight)
    return [
        f"`{fit.names[j]}` is {away[j]:.1f} standard deviations off its prior: the two "
        "contradict each other."
        for j in _named(fit)
        if away[j] > _CONTRADICTED
    ]


def _few_of_a_quantity(fit: "Estimate") -> str:
    few = [n for n, is_few in zip(fit.data.names, fit.setup.has_few_values) if is_few]
    if fit.setup.misfit.knows_variance(fit.setup) or not few:
        return ""
    listed = ", ".join(f"`{name}`" for name in few)
    return (
        f"{listed}: too few values to estimate the noise. It is assumed to be the same "
        "fraction of the spread as that of the other quantities. Give "
        f"{wording.standard_deviations(few)} if you know it."
    )


def _tie(fit: "Estimate", assessment: "Assessment") -> str:
    """Describe the nearest other minimum that the data cannot tell from the best."""
    if not assessment.ties:
        return ""
    rise, theta = min(assessment.ties, key=lambda tie: tie[0])
    errors = fit.uncertainty.standard_errors
    away = np.abs(theta - fit.best) / np.where(np.isfinite(errors), errors, np.inf)
    places = [
        f"{fit.names[j]} = {theta[j]:.4g} (not {fit.best[j]:.4g})"
        for j in sorted(_named(fit), key=lambda j: -away[j])[:3]
        if away[j] > 1 and assessment.verdicts[j].verdict != NOT_DETERMINED
    ]
    if not places:
        return ""
    more = f"{abs(rise):.2g} {'more' if rise >= 0 else 'less'}"
    reason = ""
    if rise < 0:
        reason = " The one with the shorter delay or the slower history is reported."
    return (
        f"Another minimum fits about as well, with {more} chi-square: "
        f"{', '.join(places)}.{reason} The intervals contain both."
    )


def _large_residuals(large: "LargeResiduals | None") -> str:
    if large is None:
        return ""
    return (
        f"The residuals of `{large.quantity}` are {large.factor:.2g} times as large "
        "as the scatter of neighbouring values: the search may have missed the best "
        "minimum, or the model misses something. Give bounds or start values "
        f"{wording.BOUNDS_OR_START_VALUES}, more starts, as {wording.starts(200)}, or "
        f"another history, as {wording.history('auto')}."
    )


def _no_noise(fit: "Estimate", assessment: "Assessment") -> str:
    """Name the quantities that were computed and not measured."""
    pairs = zip(fit.data.names, fit.data.x.T, assessment.fitted.T)
    exact = [f"`{name}`" for name, x, fitted in pairs if has_no_noise(x, fitted)]
    if not exact or fit.status is Status.exact:
        return ""
    return (
        f"The model passes through {listed(exact)} more closely than measurements "
        "scatter: what is left is an error of computation. It is not tested, and "
        "intervals mean little."
    )


def _small_chi_square(fit: "Estimate", assessment: "Assessment") -> str:
    for check in assessment.checks:
        if check.test == CHI and 1 - check.p < _TOO_SMALL:
            why = fit.setup.misfit.chi_square_is_off(fit.setup, is_large=False)
            return (
                f"Chi-square is only {check.statistic:.4g} for {fit.freedom} degrees "
                f"of freedom: {why}."
            )
    return ""


def _other_history(fit: "Estimate", assessment: "Assessment") -> str:
    other = assessment.other_history
    if other is None:
        return ""
    p = f"p = {other.p:.2g}" if other.p > 0 else "p < 1e-300"
    passes = ", and the residuals pass all tests" if other.passes else ""
    return (
        f"With {wording.history(other.kind)} {fit.setup.misfit.minimised} falls from "
        f"{other.before:.4g} to {other.after:.4g} ({p}){passes}."
    )


def _failed_test(fit: "Estimate", check: ResidualTest, what: str) -> str:
    """Say what a failed test means; `what` is rejected by it."""
    p = "p < 0.001" if check.p < 1e-3 else f"p = {check.p:.2g}"
    misfit = fit.setup.misfit
    if check.test == CHI:
        scatters = misfit.chi_square_is_off(fit.setup, is_large=True)
        return (
            f"Chi-square is {check.statistic:.4g} for {fit.freedom} degrees of freedom "
            f"({p}): {what} is rejected, or {scatters}."
        )
    if check.test == WHITE:
        return (
            f"Successive residuals of `{check.quantity}` are correlated (Ljung-Box, "
            f"{p}): {what} is rejected, and intervals cannot be trusted."
        )
    if check.test == NORMAL:
        wrong = misfit.not_normal
        return (
            f"The residuals of `{check.quantity}` {wrong[0]} (Anderson-Darling, {p}): "
            f"{wrong[1]}."
        )
    if check.test == SPREAD:
        about, other = misfit.about_growth(fit.setup, check.quantity)
        other = fit.system.about_noise_models(other)
        return (
            f"The residuals of `{check.quantity}` grow with its level (Glejser, {p}): "
            f"{about}{other}."
        )
    assert check.test == OUTLIER
    column = fit.data.names.index(check.quantity)
    row = int(np.nanargmax(np.abs(fit.residuals[:, column])))
    remedy = misfit.about_outlier(fit.setup, check.quantity)
    remedy = fit.system.about_noise_models(remedy)
    return (
        f"`{check.quantity}` at t = {fit.data.t[row]:.4g} is {check.statistic:.2g} "
        f"standard deviations off ({p}): look at it{remedy}."
    )
