"""`python -m studies.search_quality PART`: measure, and keep the results."""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from ddefind._util.files import write_whole

from ..page_tables import DOCS, RESULTS, read_results, write_table
from . import delays, hidden, models

FILE = RESULTS / "search_quality.json"
PAGE, NAME = DOCS / "explanation" / "fitting.md", "search"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.search_quality")
    parser.add_argument("part", choices=["models", "hidden", "delays"])
    parser.add_argument("systems", nargs="*", help="of `hidden` or `delays`")
    parser.add_argument("--cases", type=int, default=300, help="of `models`")
    parser.add_argument("--first", type=int, default=0, help="case of `models`")
    parser.add_argument("--random-starts", type=int, default=0, help="of `models`")
    parser.add_argument("--sets", type=int, help="data sets of each system")
    given = parser.parse_args()
    if given.part == "models":
        numbers = range(given.first, given.first + given.cases)
        _measure_models(numbers, given.random_starts)
    else:
        part = hidden if given.part == "hidden" else delays
        _measure_systems(given.part, part, given.systems, given.sets)


def _measure_systems(
    name: str, part: Any, systems: Sequence[str], sets: int | None
) -> None:
    """The systems one after the other, each kept as soon as it is measured."""
    for system in systems or part.SYSTEMS:
        results = read_results(FILE, {})
        found = part.measure(system, sets or part.SETS)
        results.setdefault(name, {})[system] = found
        write_whole(FILE, json.dumps(results, indent=1) + "\n")
        print(json.dumps({system: found}), flush=True)
    print(part.summary(read_results(FILE, {})[name]))


def _measure_models(numbers: range, random_starts: int) -> None:
    """The cases one after the other, each kept as soon as it is measured."""
    mine, results = [], {}
    for number in numbers:
        results = read_results(FILE, {})
        kept = {each["case"]: each for each in results.get("models", [])}
        kept[number] = models.measure(number, random_starts)
        results["models"] = [kept[key] for key in sorted(kept)]
        write_whole(FILE, json.dumps(results, indent=1) + "\n")
        mine.append(kept[number])
        print(json.dumps(kept[number]), flush=True)
    write_table(PAGE, NAME, models.summary(results["models"]))
    print(models.summary(mine))
    print(models.failures(mine))


if __name__ == "__main__":
    main()
