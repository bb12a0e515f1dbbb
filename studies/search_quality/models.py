"""Random models: how often a fit with defaults finds the best known minimum."""

import time

import ddefind as dd

from .best_known import TOLERANCE, Record, best_known, chi_square
from .random_models import Case, case

# A fit of so many seconds is not repeated: what it compiles hardly matters.
_LONG = 15.0


def measure(number: int, random_starts: int) -> dict:
    """The fit of one case, beside the best known one.

    The fit is repeated for its time, so that nothing needs to be compiled, unless it
    took long anyway. The best known fit is that of the record with times from zero: a
    late record should have as good a fit."""
    each = case(number)
    bounds = each.bounds or {}
    record = Record(each.model, each.data_from_zero, each.truth, bounds)
    best = best_known(record, random_starts, number)
    fit, seconds = _timed_fit(each)
    if seconds < _LONG:
        _, seconds = _timed_fit(each)
    above = chi_square(fit) - best
    return {
        "case": number,
        "family": each.family,
        "hidden": not all(each.measured),
        "bounds": each.bounds is not None,
        "late": each.start > 0,
        "states": len(each.model.states),
        "parameters": len(each.truth),
        "above_best": round(above, 3),
        "found": bool(above <= TOLERANCE),
        "seconds": round(seconds, 2),
    }


def _timed_fit(each: Case) -> tuple[dd.Estimate, float]:
    began = time.perf_counter()
    fit = dd.fit(
        each.model, each.data, parameters=each.bounds, intervals=False, progress=False
    )
    return fit, time.perf_counter() - began


def summary(results: list[dict]) -> str:
    """The rates of success, and the failures."""
    lines = ["| record | cases | best minimum found | median seconds | longest |"]
    lines.append("|---|---:|---:|---:|---:|")
    groups = {"fully measured": False, "one state not measured": True}
    for name, hidden in groups.items():
        mine = [each for each in results if each["hidden"] == hidden]
        if not mine:
            continue
        seconds = sorted(each["seconds"] for each in mine)
        rate = sum(each["found"] for each in mine) / len(mine)
        lines.append(
            f"| {name} | {len(mine)} | {100 * rate:.1f}% "
            f"| {seconds[len(seconds) // 2]:.1f} | {seconds[-1]:.1f} |"
        )
    return "\n".join(lines)


def failures(results: list[dict]) -> str:
    """One line for each case whose best minimum was missed."""
    return "\n".join(
        f"case {each['case']} ({each['family']}, {each['states']} states"
        f"{', hidden' * each['hidden']}{', bounds' * each['bounds']}"
        f"{', late' * each['late']}): {each['above_best']:g} above the best, "
        f"{each['seconds']:g} s"
        for each in results
        if not each["found"]
    )
