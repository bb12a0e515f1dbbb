"""How often does `dd.discover` find exactly the true terms?

`python -m studies.discovery [SEEDS [SYSTEM ...]] [--first SEED] [--seconds LIMIT]
[--processes N]`
makes data sets of 200 points of six delayed systems and three ordinary ones, with noise
of 1, 5 and 10% of the spread, and asks `dd.discover` for their equations. It writes
`results/discovery.json` and the tables of `docs/explanation/discovery.md`. Delays and
start values differ from seed to seed. The data are by an integrator of the study's own.
"""

import argparse
import json
import multiprocessing
import time
from typing import Any

from ddefind._util.text_files import write_whole

from ..page_tables import RESULTS, read_results
from .cases import run_until
from .systems import DELAYED, ORDINARY
from .tables import LEVELS, write_tables

FILE = RESULTS / "discovery.json"


def main() -> None:
    """Run the cases that are asked for, and keep the results of others."""
    names = [each.name for each in (*DELAYED, *ORDINARY)]
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", nargs="?", type=int, default=20)
    parser.add_argument("systems", nargs="*", help=f"of {', '.join(names)}")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    chosen = given.systems or names
    cases = [
        (name, level, seed)
        for seed in range(given.first, given.first + given.seeds)
        for name in chosen
        for level in LEVELS
    ]
    results = {_key(each): each for each in read_results(FILE, [])}
    ends = time.time() + given.seconds
    context = multiprocessing.get_context("spawn")
    with context.Pool(given.processes) as pool:
        for result in pool.imap_unordered(run_until, [(*c, ends) for c in cases]):
            if result is None:
                continue
            results[_key(result)] = result
            ordered = [results[key] for key in sorted(results)]
            lines = ",\n".join(json.dumps(each) for each in ordered)
            write_whole(FILE, f"[\n{lines}\n]\n")
            shown = ("system", "level", "seed", "success", "truth_is_best", "seconds")
            write_tables(ordered)
            print({key: result[key] for key in shown}, flush=True)


def _key(result: dict[str, Any]) -> tuple[str, float, int]:
    return result["system"], result["level"], result["seed"]


if __name__ == "__main__":
    main()
