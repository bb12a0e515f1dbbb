"""The tables of `docs/explanation/discovery.md`, from the kept results."""

import itertools
from collections.abc import Sequence
from typing import Any

from ..page_tables import DOCS, write_table
from .systems import DELAYED, LACKING, ORDINARY

PAGE = DOCS / "explanation" / "discovery.md"
LEVELS = (0.01, 0.05, 0.1)
# Groups of probabilities.
_EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.01)

Results = Sequence[dict[str, Any]]


def write_tables(results: Results, baseline: Results) -> None:
    """Write all tables of the page."""
    for name, table in tables(results, baseline).items():
        write_table(PAGE, name, table)


def tables(results: Results, baseline: Results) -> dict[str, str]:
    """The tables by name, from the results here and those of pysindy."""
    return {
        "discovery": _success(results),
        "ordinary": _ordinary(results),
        "calibration": _calibration(results),
        "missing": _missing(results),
        "discovery-pysindy": _beside_pysindy(results, baseline),
    }


def _beside_pysindy(results: Results, baseline: Results) -> str:
    """How often the true terms were found here, and by pysindy, in the data sets that
    all were given."""
    lines = [
        "| system | noise | `dd.discover` | pysindy: tuned grid | true delays |",
        "|---" * 5 + "|",
    ]
    grid = [each for each in baseline if each["grid"]]
    given = [each for each in baseline if not each["grid"]]
    for name in (each.name for each in DELAYED):
        for level in LEVELS:
            kinds = [_of(each, name, level) for each in (results, grid, given)]
            seeds = set.intersection(*({r["seed"] for r in own} for own in kinds))
            kinds = [[r for r in own if r["seed"] in seeds] for own in kinds]
            cells = [f"{sum(r['success'] for r in k)} of {len(k)}" for k in kinds]
            lines.append(f"| {name} | {level:.0%} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _of(results: Results, name: str, level: float) -> Results:
    return [r for r in results if (r["system"], r["level"]) == (name, level)]


def _success(results: Results) -> str:
    """For each system and level, how often exactly the true terms were found: of all
    data sets, and of those where the truth has the lowest BIC."""
    lines = _head("system")
    names = [each.name for each in DELAYED]
    for name in names:
        cells = [_share(_of(results, name, level)) for level in LEVELS]
        if any(cell != "-" for cell in cells):
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    pooled = [
        [r for r in results if r["system"] in names and r["level"] == level]
        for level in LEVELS
    ]
    lines.append("| together | " + " | ".join(map(_share, pooled)) + " |")
    errors = [
        abs(found - true) / error
        for r in results
        if r["success"] and r["errors"]
        for found, true, error in zip(
            sorted(r["delays"]), sorted(r["true_delays"]), _in_order(r)
        )
    ]
    near = sum(error < 3 for error in errors)
    lines += [
        "",
        "In each cell: successes of all data sets; in parentheses, of those in which "
        "no model that is listed has a lower BIC than the truth. Of "
        f"{len(errors)} delays in successes, {near} are within three standard errors "
        "of the truth.",
    ]
    return "\n".join(lines)


def _missing(results: Results) -> str:
    """How often it was said that something is missing."""
    lines = _head("candidates")
    offered = [each.name for each in (*DELAYED, *ORDINARY)]
    groups = [("the truth among them", offered)]
    groups += [(f"{each.name} alone", [each.name]) for each in LACKING]
    for label, names in groups:
        cells = []
        for level in LEVELS:
            own = [r for name in names for r in _of(results, name, level)]
            said = sum(r["rejected"] for r in own)
            cells.append(f"{said} of {len(own)}")
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _head(first: str) -> list[str]:
    """The head of a table with a column for each level."""
    levels = " | ".join(f"{level:.0%} noise" for level in LEVELS)
    return [f"| {first} | {levels} |", "|---" * (1 + len(LEVELS)) + "|"]


def _in_order(result: dict[str, Any]) -> list[float]:
    """The standard errors in the order of the delays."""
    pairs = sorted(zip(result["delays"], result["errors"]))
    return [error for _, error in pairs]


def _share(results: Results) -> str:
    if not results:
        return "-"
    success = sum(r["success"] for r in results)
    best = [r for r in results if r["truth_is_best"]]
    among = sum(r["success"] for r in best)
    return f"{success} of {len(results)} ({among} of {len(best)})"


def _ordinary(results: Results) -> str:
    lines = ["| system | data sets | a delay was claimed | exactly the true terms |"]
    lines.append("|---|---|---|---|")
    for name in (each.name for each in ORDINARY):
        own = [r for r in results if r["system"] == name]
        if own:
            claimed = sum(bool(r["delays"]) for r in own)
            success = sum(r["success"] for r in own)
            lines.append(f"| {name} | {len(own)} | {claimed} | {success} |")
    return "\n".join(lines)


def _calibration(results: Results) -> str:
    """What share of candidates is true, of those whose probability is in a range."""
    pairs = [pair for r in results for pair in r["probabilities"]]
    lines = ["| probability | candidates | mean probability | true |", "|---" * 4 + "|"]
    for low, high in itertools.pairwise(_EDGES):
        own = [pair for pair in pairs if low <= pair[0] < high]
        if own:
            mean, true = (sum(column) / len(own) for column in zip(*own))
            label = f"{low:.0%} to {min(high, 1.0):.0%}"
            lines.append(f"| {label} | {len(own)} | {mean:.1%} | {true:.1%} |")
    return "\n".join(lines)
