"""The result of `discover`: the equation, its fit, and the probabilities of terms."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

import ddefind as dd

from .._figures.panels import figure_of, given_axes, new_figure, show_once
from .._inference.identifiability import NOT_DETERMINED
from .._inference.residual_tests import CHI, WHITE
from .._util import wording
from .._util.shown import AbstractShown, Cells, Shown, listed
from .search import DELAY_CHARGE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Models whose score is within this distance of the best tie with it.
_TIE = 2.0
_MOST_SHOWN = 6
_NAMES_OF_COUNTS = ("no delay", "one delay", "two delays", "three delays")
# The least probability of a term in the printed table, and of a likely term.
_LEAST_SHOWN, _UNLIKELY = 0.02, 0.495
# A delay within this share of its range from an end is at this end.
_AT_END = 0.01
# Delays are the same up to three standard errors or, without these, up to the first
# share; the second one is for rounding.
_OTHER, _ROUNDING = 0.02, 1e-3


@final
@dataclass(frozen=True)
class FoundModel:
    """A model that `discover` found: its equations with coefficients c_1, c_2, ..., the
    terms of each state, its delays, the number of parameters, its BIC (up to a number
    that all models of these data share), its score (the BIC with charges for terms and
    delays), and its weight among all models."""

    text: str
    terms: Mapping[str, tuple[str, ...]]
    delays: Mapping[str, float]
    parameters: int
    bic: float
    score: float
    weight: float

    @property
    def label(self) -> str:
        """The equations without coefficients, in one line."""
        return "; ".join(
            f"{state}' ~ {' + '.join(terms) or '0'}"
            for state, terms in self.terms.items()
        )


@final
@dataclass(frozen=True)
class Discovery(AbstractShown):
    """What `discover` found. Print it, or look at its parts:

    - `equation`: the equation with the best score (or the one with the fewest
      parameters, of those that are within 1 of it), with coefficients c_1, c_2, ...
    - `parameters`: starts and bounds of its parameters, with which it was fitted.
    - `data`: the data as they were searched, with times from zero in every experiment.
    - `fit`: the fit to the data, as by `dd.fit(found.equation, found.data,
      parameters=found.parameters)`: values, error bars, verdicts, report. None if the
      search was interrupted before, or if this fit failed.
    - `models`: the models that were found, with their weights, the chosen one first and
      the others by their scores.
    - `inclusion`: for each state, the probability of each term: the sum of the weights
      of the models that have it.
    - `delay_probability`: the sum of the weights of the models with a delay.
    - `without_delay`: the best model without a delay.
    - `delay_bounds`: the range in which delays were searched; if a delay was given,
      both ends are this delay.
    - `term_charge`: the charge for each term in the scores.
    - `path`: the best models in the order in which the search came to them, each as
      (number of delays, number of terms, score).
    - `interrupted`: whether Ctrl-C ended the search, or the fit after it.
    - `seconds`: how long it took."""

    equation: dd.Equation
    parameters: Mapping[str, dd.Parameter | dd.Fixed]
    data: dd.Data | tuple[dd.Experiment, ...]
    fit: dd.Estimate | None
    models: tuple[FoundModel, ...]
    inclusion: Mapping[str, Mapping[str, float]]
    delay_probability: float
    without_delay: FoundModel | None
    delay_bounds: tuple[float, float]
    term_charge: float
    path: tuple[tuple[int, int, float], ...]
    interrupted: bool
    seconds: float

    @property
    def best(self) -> FoundModel:
        """The model that was chosen."""
        return self.models[0]

    @property
    def terms(self) -> Mapping[str, tuple[str, ...]]:
        """The terms of each state in the best model."""
        return self.best.terms

    @property
    def undecided(self) -> tuple[FoundModel, ...]:
        """The best model and those that tie with it, between which the data cannot
        decide. Empty if no other is near."""
        near = [m for m in self.models if m.score < self.best.score + _TIE]
        return tuple(near) if len(near) > 1 else ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The conclusions, in sentences, with advice first."""
        if self.interrupted:
            found = [
                "Interrupted: this is the best so far, and the probabilities compare "
                "only the models that were tried."
            ]
        else:
            found = [self._about_noise(), self._about_candidates()]
            found += [about_convergence(self.fit), self._about_delays()]
            delays = self._fitted_delays().values()
            found += [self._about_other_delays(), about_history(self.fit, delays)]
        if self.undecided:
            shown = [f"({each.label})" for each in self.undecided[:_MOST_SHOWN]]
            more = len(self.undecided) - len(shown)
            shown += [f"{more} more"] if more else []
            found.append(
                f"These data cannot decide between {listed(shown)}: their scores "
                f"differ by less than {_TIE:g}."
            )
        unsure = [
            f"{term} in {state}' ({self.inclusion[state].get(term, 0.0):.0%})"
            for state, terms in self.terms.items()
            for term in terms
            if self.inclusion[state].get(term, 0.0) < _UNLIKELY
        ]
        if unsure:
            found.append(f"Less likely than not: {listed(unsure)}.")
        return tuple(filter(None, found))

    @property
    def is_inadequate(self) -> bool:
        """Whether even the best equation cannot be fitted, or leaves residuals that are
        not like noise, so that the truth is not among the candidates. False if the
        search was interrupted."""
        return not self.interrupted and (self.fit is None or self.fit.rejected)

    def _about_noise(self) -> str:
        """Return a sentence on residuals that are like noise, but larger than the
        standard deviations of the data; else nothing."""
        if self.fit is None or self.interrupted:
            return ""
        wrong = {check.test: check for check in self.fit.failed_checks}
        if CHI not in wrong or WHITE in wrong:
            return ""
        factor = np.sqrt(wrong[CHI].statistic / self.fit.freedom)
        if factor < 1:
            return ""
        return (
            "Check the standard deviations of the data, or leave them out: the "
            f"residuals are like noise that is {factor:.2g} times as large. If they "
            "are right, something is missing: offer other terms."
        )

    def _about_candidates(self) -> str:
        if not self.is_inadequate or self._about_noise():
            return ""
        if self.fit is None:
            return (
                "The residuals were not tested: the last fit of the best of these "
                "equations failed, since its solution grows without bounds or is not "
                "defined. Offer other terms, or bound the parameters inside of terms."
            )
        others = ["a state that was not measured", "a disturbance of the system"]
        if self.fit.data.sd is not None:
            others.append("standard deviations that are too small")
        return (
            "Offer other terms, such as hill, exponential, saturation, higher powers "
            "or a formula of your own, or more delays: the residuals of the best of "
            "these equations are not like noise, so that something is missing. That "
            f"can also be {listed(others, 'or')}."
        )

    def _about_delays(self) -> str:
        plain = self.without_delay
        delayed = [model for model in self.models if model.delays]
        if plain is None or not delayed:
            return ""
        difference = plain.score - delayed[0].score
        low, high = self.delay_bounds
        if low == high:
            return _about_given_delay(low, difference)
        if abs(difference) < _TIE:
            return (
                "These data cannot decide whether there is a delay: the best scores "
                f"with and without one differ by {abs(difference):.1f}."
            )
        if difference < 0:
            return (
                "No delay is claimed: with one, the best score is higher by "
                f"{-difference:.1f}."
            )
        found = f"without one, the best score is higher by {difference:.1f}."
        if at_end := self._at_an_end():
            return f"{at_end} ({found[0].upper()}{found[1:-1]}.)"
        if self.is_inadequate or (self.fit is not None and not self.fit.status.ok):
            return (
                "The best of these equations has a delay, which may stand for a "
                f"missing term: {found}"
            )
        return (
            f"A delay is claimed: {found} It belongs to these candidates: with other "
            "terms, or with a state that was not measured, it may be another one."
        )

    def _at_an_end(self) -> str:
        """Return a sentence on a delay at an end of the searched range, or on one that
        the data do not determine; else nothing."""
        low, high = self.delay_bounds
        for name, value in self._fitted_delays().items():
            searched = f"of those that were searched, {low:.4g} to {high:.4g}"
            if value < low + _AT_END * min(high - low, low):
                return (
                    f"No delay is claimed: {name} = {value:.4g} is the shortest "
                    f"{searched}. With a very short one, x(t - tau) only stands for "
                    "the slope, or for a state that was not measured. Where shorter "
                    f"delays are possible, bound tau {wording.BOUNDS}."
                )
            if value > high - _AT_END * (high - low):
                return (
                    f"No delay is claimed: {name} = {value:.4g} is the longest "
                    f"{searched}. Search longer ones: bound tau {wording.BOUNDS}."
                )
            verdicts = {}
            if self.fit is not None and self.fit.assessment is not None:
                verdicts = self.fit.verdicts
            if verdicts.get(name) == NOT_DETERMINED:
                return (
                    f"A delay makes the fit better, but these data do not determine "
                    f"how long {name} is."
                )
        return ""

    def _fitted_delays(self) -> dict[str, float]:
        """Return the delays of the last fit; of the search, if there is none."""
        values = {} if self.fit is None else self.fit.values
        return {n: float(values.get(n, own)) for n, own in self.best.delays.items()}

    def _about_other_delays(self) -> str:
        """Return a sentence on delays that the last fit moved; else nothing."""
        if self.fit is None:
            return ""
        other = []
        for name, value in self._fitted_delays().items():
            searched = self.best.delays[name]
            error = self.fit.standard_errors.get(name, np.nan)
            limit = 3 * error if np.isfinite(error) else _OTHER * searched
            if abs(value - searched) > max(limit, _ROUNDING * searched):
                other.append(f"{name} = {value:.4g} instead of {searched:.4g}")
        if not other:
            return ""
        return (
            f"The last fit ended at {listed(other)}, elsewhere than the search: scores "
            "and probabilities belong to the search."
        )

    # Tables and text.

    def _models_shown(self) -> Cells:
        rows = [
            (
                each.label,
                ", ".join(f"{value:.4g}" for value in each.delays.values()) or "-",
                str(each.parameters),
                f"{each.score - self.best.score:.2f}",
                f"{each.weight:.3f}",
            )
            for each in self.models[:_MOST_SHOWN]
        ]
        return Cells(("model", "delays", "k", "score - best", "weight"), rows)

    def _terms_shown(self) -> Cells:
        rows = []
        for state, terms in self.inclusion.items():
            chosen = self.terms[state]
            for term in sorted(terms, key=lambda name: -terms[name]):
                if terms[term] >= _LEAST_SHOWN or term in chosen:
                    mark = "yes" if term in chosen else ""
                    rows.append((f"{state}'", term, f"{terms[term]:.3f}", mark))
        header = "equation", "term", "probability", "chosen"
        return Cells(header, rows, left=(0, 1, 3))

    def shown(self) -> Shown:
        """Return the equation, its fit, the tables of terms and models, and the
        sentences."""
        fit = [] if self.fit is None else [*self.fit.shown().parts, ""]
        low, high = self.delay_bounds
        delays = "" if low == high else f" and {DELAY_CHARGE:g} more for each delay"
        scores = (
            f"Score: the BIC with {self.term_charge:.2f} more for each term{delays}; "
            "k: the number of parameters."
        )
        tables = [self._terms_shown(), "", self._models_shown(), scores, ""]
        return Shown([str(self.equation), "", *fit, *tables, *self.sentences])

    def __repr__(self) -> str:
        return f"Discovery: {self.best.label}"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain numbers, texts and lists, for files."""
        return {
            "equation": str(self.equation),
            "values": None if self.fit is None else dict(self.fit.values),
            "terms": {state: list(own) for state, own in self.terms.items()},
            "delays": dict(self.best.delays),
            "inclusion": {s: dict(own) for s, own in self.inclusion.items()},
            "delay_probability": self.delay_probability,
            "models": [
                {
                    "terms": {s: list(own) for s, own in each.terms.items()},
                    "delays": dict(each.delays),
                    "parameters": each.parameters,
                    "bic": each.bic,
                    "score": each.score,
                    "weight": each.weight,
                }
                for each in self.models
            ],
            "inadequate": self.is_inadequate,
            "sentences": list(self.sentences),
            "interrupted": self.interrupted,
            "seconds": self.seconds,
        }

    def plot(self, ax: Any = None) -> "Figure":
        """Draw the path of the search, scores above the lowest one against numbers of
        terms, and the probabilities of terms.

        `ax` are two axes to draw on."""
        if ax is None:
            height = max(3.2, 0.28 * len(self._terms_shown().rows) + 1.2)
            axes = list(new_figure(9, height).subplots(1, 2, width_ratios=[1, 1.2]))
        else:
            axes = given_axes(ax, 2)
        self._draw_path(axes[0])
        self._draw_terms(axes[1])
        if ax is None:
            show_once(figure_of(axes))
        return figure_of(axes)

    def _draw_path(self, panel: Any) -> None:
        lowest = min(self.best.score, *(score for _, _, score in self.path))
        for delays in sorted({delays for delays, _, _ in self.path}):
            pairs = [(k, score) for each, k, score in self.path if each == delays]
            sizes, scores = np.array(pairs).T
            label, style = _NAMES_OF_COUNTS[delays], "os^D"[delays] + "-"
            panel.plot(sizes, 1 + scores - lowest, style, lw=0.8, ms=4, label=label)
        panel.set_yscale("log")
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.set(xlabel="terms", ylabel="1 + score above the lowest")
        panel.legend(frameon=False, fontsize="small")

    def _draw_terms(self, panel: Any) -> None:
        rows = self._terms_shown().rows[::-1]
        names = [f"{state}  {term}" for state, term, _, _ in rows]
        values = [float(value) for _, _, value, _ in rows]
        colours = ["C0" if chosen else "0.75" for *_, chosen in rows]
        panel.barh(range(len(rows)), values, color=colours)
        panel.set_yticks(range(len(rows)), names, fontsize="small")
        panel.set(xlabel="probability", xlim=(0, 1))


def about_convergence(fit: dd.Estimate | None) -> str:
    """Return a sentence on a fit that has not converged; else nothing."""
    if fit is None or fit.status.ok:
        return ""
    return (
        "The last fit did not converge: rely neither on this equation nor on the "
        "probabilities. Offer fewer terms, or other ones."
    )


def about_history(fit: dd.Estimate | None, delays: Collection[float]) -> str:
    """Return a sentence on a history that is farther from all data than these are from
    each other, somewhere within the longest delay before time zero; else nothing."""
    if fit is None or not delays:
        return ""
    delay, far = max(delays), []
    for one in fit.experiments.values() if fit.experiments else [fit]:
        past = [np.asarray(one.problem.history(-u * delay)) for u in (0.5, 1.0)]
        for state, values in zip(one.data.names, np.transpose(past)):
            x = one.data.x[:, one.data.names.index(state)]
            low, high = np.nanmin(x), np.nanmax(x)
            away = np.maximum(low - values, values - high)
            if np.max(away) > high - low:
                value = values[int(np.argmax(away))]
                far.append(f"{state} = {value:.3g} (data: {low:.3g} to {high:.3g})")
    if not far:
        return ""
    return (
        f"Before time zero the fit has {' and '.join(far)}: such a past may stand for "
        "a term that is missing. Fit the equation with a constant history, too, and "
        "compare."
    )


def _about_given_delay(tau: float, difference: float) -> str:
    """Return a sentence on a delay that the user gave. The best score without it is
    higher by the `difference`."""
    verdict = "helps" if difference > 0 else "does not help"
    change = "higher" if difference > 0 else "lower"
    if abs(difference) < _TIE:
        verdict = "may help or not"
    return (
        f"The delay of {tau:.4g} that was given {verdict}: without it, the best score "
        f"is {change} by {abs(difference):.1f}."
    )
