"""What the default of `dd.fit` reaches on the same experiments."""

import numpy as np

from ddefind.paper import EXPERIMENTS, NOISE, LevelResults

from .numbers import Numbers, claim, number, prose, table, title


def our_default(numbers: Numbers) -> str:
    return "\n\n".join(
        [
            prose("""
            ## Our default, without start values

            `ddefind paper --protocol best` fits the same experiments as `dd.fit` does
            by default: least squares from many starts that it draws itself. The
            parameters of the equation are bounded within a factor of ten of the truth,
            those of the history within ten times their size, and the delay between two
            sampling intervals and 0.9 of the length of the data. The data come from the
            exact solution instead of the paper's RK2, so that the true values are the
            ones that a correct method should find. The Cramér-Rao sd is that of such
            data.
            """),
            prose(_accuracy(numbers)),
            table(*_ratios(numbers)),
            prose(_duration(numbers)),
        ]
    )


def _accuracy(numbers: Numbers) -> str:
    levels = [numbers.results("best", model, 0.1) for model in EXPERIMENTS]
    away = np.concatenate(
        [(r.mean - r.true) / r.cramer_rao * np.sqrt(r.repeats) for r in levels]
    )
    away = away[np.isfinite(away)]
    return claim(
        bool(np.median(np.abs(away)) < 1.0),
        f"""Over all determined parameters the means are off the truth by
        {np.median(np.abs(away)):.2f} of their standard errors in the median. What the
        data do not determine (–) is left where the search happened to put it, and
        `print(fit)` says so in words. The table shows typical errors: median absolute
        errors over 0.6745, which is the standard deviation for a Gaussian, in units of
        the Cramér-Rao sd, which is the limit that they can reach at low noise. At high
        noise other minima, with another delay or a faster history, fit some data sets
        better than the truth does; the median is hardly influenced by them.""",
    )


def _ratios(numbers: Numbers) -> tuple[list[str], list[list[str]]]:
    rows = []
    for model, experiment in EXPERIMENTS.items():
        ratios = [_typical(numbers.results("best", model, n)) for n in NOISE]
        for k, name in enumerate(experiment.parameters):
            if np.isfinite(ratios[0][k]):
                cells = [number(ratio[k], ".2f") for ratio in ratios]
                rows.append([f"{title(model)}: {name}", *cells])
    return ["typical error / Cramér-Rao sd", *(f"noise {n:g}" for n in NOISE)], rows


def _typical(results: LevelResults) -> np.ndarray:
    error = np.median(np.abs(results.estimates - results.true), axis=0) / 0.6745
    return error / results.cramer_rao


def _duration(numbers: Numbers) -> str:
    levels = [numbers.results("best", m, n) for m in EXPERIMENTS for n in NOISE]
    fits = sum(results.repeats for results in levels)
    seconds = sum(results.seconds for results in levels)
    return f"""The {fits} fits took {seconds / 2:.0f} s on two cores, two models at a
    time. [How the best fit is found](fitting.md) has the same study with 400 data sets
    for each model and noise level."""
