"""How often does `dd.discover` find exactly the true terms?

`python -m studies.discovery [SEEDS [SYSTEM ...]] [--first SEED] [--seconds LIMIT]
[--processes N] [--out FILE]`
makes data sets of 200 points of six delayed systems and three ordinary ones, with noise
of 1, 5 and 10% of the spread, and asks `dd.discover` for their equations; and of three
systems with candidates among which the truth is not. Delays and start values differ
from seed to seed. The data are by an integrator of the study's own.

Results go to `results/discovery.jsonl`, a line for each data set, and those that are
there are not computed again. At the end the tables of `docs/explanation/discovery.md`
are written. With `--out` they go to another file, whose lines can be added to that one.
"""

import argparse
from pathlib import Path

from ..page_tables import RESULTS
from .run import Case, read, run
from .systems import DELAYED, LACKING, ORDINARY
from .tables import LEVELS, write_tables

FILE = RESULTS / "discovery.jsonl"
PYSINDY = RESULTS / "discovery_pysindy.jsonl"


def cases(seeds: range, systems: list[str]) -> list[Case]:
    """Seed by seed, all systems: those with a delay with all levels of noise, ordinary
    ones with one level for each seed."""
    found: list[Case] = []
    for seed in seeds:
        levels = [LEVELS[seed % len(LEVELS)]]
        delayed = (*DELAYED, *LACKING)
        found += [(s.name, level, seed) for s in delayed for level in LEVELS]
        found += [(s.name, level, seed) for s in ORDINARY for level in levels]
    return [case for case in found if not systems or case[0] in systems]


def main() -> None:
    """Run the cases that are asked for."""
    names = [each.name for each in (*DELAYED, *ORDINARY, *LACKING)]
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", nargs="?", type=int, default=20)
    parser.add_argument("systems", nargs="*", help=f"of {', '.join(names)}")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FILE)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    run(cases(seeds, given.systems), given.out, given.processes, given.seconds)
    if given.out == FILE:
        write_tables(read(FILE), read(PYSINDY))


if __name__ == "__main__":
    main()
