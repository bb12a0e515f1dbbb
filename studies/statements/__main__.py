"""`python -m studies.statements`: measure, and keep the results."""

import argparse
import json
import time

import ddefind as dd
from ddefind._inference.identifiability import DETERMINED, NOT_DETERMINED
from ddefind._util.files import write_whole

from ..page_tables import RESULTS, read_results
from . import checks
from .redundant_models import redundant_case

FILE = RESULTS / "statements.json"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.statements")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    for number in range(given.first, given.first + given.cases):
        found = measure(number)
        kept = {each["case"]: each for each in read_results(FILE, [])}
        kept[number] = found
        results = [kept[key] for key in sorted(kept)]
        write_whole(FILE, json.dumps(results, indent=1) + "\n")
        print(json.dumps(found), flush=True)
    print(summary(read_results(FILE, [])))


def measure(number: int) -> dict:
    """What the fit of one case says, and whether it holds."""
    drawn = redundant_case(number)
    case = drawn.case
    began = time.perf_counter()
    fit = dd.fit(case.model, case.data, parameters=drawn.bounds, progress=False)
    seconds = time.perf_counter() - began
    sentences = checks.formulas_of(fit)
    room = checks.with_room(drawn)
    parameters = {}
    for name, (low, high) in fit.intervals.items():
        parameters[name] = {
            "verdict": fit.verdicts[name].verdict,
            "inside": bool(low <= case.truth[name] <= high),
            "room": name in room,
        }
    return {
        "case": number,
        "family": case.family,
        "kind": drawn.kind,
        "hidden": not all(case.measured),
        "bounds": drawn.bounds is not None,
        "formulas": sentences,
        "false": [each for each in sentences if checks.is_false(drawn, fit, each)],
        "named": None if drawn.kind is None else checks.is_named(drawn, fit),
        "ends_move": round(checks.largest_move_of_ends(drawn, fit), 4),
        "rejected": fit.rejected,
        "parameters": parameters,
        "seconds": round(seconds, 1),
    }


def summary(results: list[dict]) -> str:
    """The counts over all cases."""
    every = [p for each in results for p in each["parameters"].values()]
    determined = [p for p in every if p["verdict"] == DETERMINED]
    with_room = [p for p in every if p["room"]]
    called = [p for p in with_room if p["verdict"] != NOT_DETERMINED]
    known = [each for each in results if each["named"] is not None]
    inside = sum(p["inside"] for p in determined)
    printed = sum(len(each["formulas"]) for each in results)
    false = sum(len(each["false"]) for each in results)
    moving = [each["case"] for each in results if each["ends_move"] > 0.05]
    return "\n".join(
        [
            f"{len(results)} cases",
            f"combinations printed {printed}, false {false}",
            f"known combinations named: {sum(each['named'] for each in known)} "
            f"of {len(known)}",
            f"cases with an end that moves by more than 5%: {moving}",
            f"room on both sides: {len(with_room)}, determined "
            f"{sum(p['verdict'] == DETERMINED for p in with_room)}, "
            f"determined or weakly determined {len(called)}",
            f"determined: {len(determined)}, truth inside {inside} "
            f"({100 * inside / max(len(determined), 1):.1f}%)",
        ]
    )


if __name__ == "__main__":
    main()
