"""What a fit should make its user doubt: plain sentences, none for a good fit."""

from typing import TYPE_CHECKING

import numpy as np

from ._checks import CHI, NORMAL, OUTLIER, WHITE, Check
from ._smooth import rough_noise

if TYPE_CHECKING:
    from ._estimate import Estimate

# Steps matter that move the estimates by more than this share of their joint standard
# error.
_STEP_ERROR = 0.1
# How much smaller than its expectation a chi-square of given noise may be: by chance,
# in one of so many fits.
_TOO_SMALL = 0.005


def cautions(fit: "Estimate") -> list[str]:
    """Sentences about the data, the minimum and the residuals."""
    found = [_few_values(fit), _step_error(fit), *_bounds(fit), _tie(fit)]
    found += [_noise_floor(fit), _small_chi_square(fit)]
    found += [_sentence(fit, check) for check in fit.failed_checks]
    return [sentence for sentence in found if sentence]


def _few_values(fit: "Estimate") -> str:
    count, p = fit.setting.count, len(fit.names)
    if count > p:
        return ""
    return (
        f"There are no more values ({count}) than parameters ({p}): the fit cannot be "
        "judged. Fix some of them, or measure more."
    )


def _step_error(fit: "Estimate") -> str:
    error = fit.searched.step_error
    if error <= _STEP_ERROR or fit.searched.interrupted:
        return ""
    if not np.isfinite(error):
        return "The solver's steps could not be checked: finer ones failed."
    return (
        f"The solver's steps matter: with half of them the estimates moved by "
        f"{error:.2g} standard errors. Give a larger `steps_per_delay`."
    )


def _bounds(fit: "Estimate") -> list[str]:
    sentences = []
    for j in np.flatnonzero(fit.uncertainty.at_bound & ~fit.uncertainty.flat):
        low, value = fit.setting.lower[j], fit.best[j]
        side = "lower" if abs(value - low) < 1e-6 * (1 + abs(low)) else "upper"
        sentences.append(
            f"`{fit.names[j]}` is on its {side} bound, {value:.4g}: the best fit may "
            "lie beyond it."
        )
    return sentences


def _tie(fit: "Estimate") -> str:
    ties = fit.uncertainty.ties
    if not ties:
        return ""
    r, z = min(ties, key=lambda tie: tie[0])
    errors = fit.uncertainty.standard_errors
    away = np.abs(z - fit.best) / np.where(np.isfinite(errors), errors, np.inf)
    places = [
        f"{fit.names[j]} = {z[j]:.4g} (not {fit.best[j]:.4g})"
        for j in np.argsort(-away, kind="stable")[:3]
        if away[j] > 1
    ]
    return (
        f"Another minimum fits the data as well, with {r**2:.2g} more chi-square: "
        f"{', '.join(places) or 'near this one'}. The intervals hold both."
    )


def _noise_floor(fit: "Estimate") -> str:
    """The residuals against the scatter of neighbouring points."""
    if fit.data.sd is not None:
        return ""
    rough = rough_noise(fit.data)
    count = np.isfinite(fit.data.x).sum(axis=0)
    for name, found, floor, n in zip(fit.data.names, fit.searched.noise, rough, count):
        # Both are estimates; the ratio of good ones stays within this.
        if n >= 12 and found / floor > 1.2 + 4 / np.sqrt(n):
            return (
                f"The residuals of `{name}` are {found / floor:.2g} times as large as "
                "the scatter of neighbouring values: the model misses something, or "
                "this is not the best minimum."
            )
    return ""


def _small_chi_square(fit: "Estimate") -> str:
    for check in fit.checks:
        if check.test == CHI and 1 - check.p < _TOO_SMALL:
            return (
                f"Chi-square is only {check.statistic:.4g} for {fit.freedom} degrees "
                "of freedom: the given noise is too large."
            )
    return ""


def _sentence(fit: "Estimate", check: Check) -> str:
    p = "p < 0.001" if check.p < 1e-3 else f"p = {check.p:.2g}"
    if check.test == CHI:
        return (
            f"Chi-square is {check.statistic:.4g} for {fit.freedom} degrees of freedom "
            f"({p}): the model is rejected, or the given noise is too small."
        )
    if check.test == WHITE:
        return (
            f"Neighbouring residuals of `{check.quantity}` are alike (Ljung-Box, {p}): "
            "the model is rejected, and intervals cannot be trusted."
        )
    if check.test == NORMAL:
        return (
            f"The residuals of `{check.quantity}` are not Gaussian (Anderson-Darling, "
            f"{p}): intervals are approximate."
        )
    assert check.test == OUTLIER
    column = fit.data.names.index(check.quantity)
    row = int(np.nanargmax(np.abs(fit.residuals[:, column])))
    return (
        f"`{check.quantity}` at t = {fit.data.t[row]:.4g} is {check.statistic:.2g} "
        f"standard deviations off ({p}): look at it, or fit with "
        "`dd.LeastSquares(huber=1.345)`."
    )
