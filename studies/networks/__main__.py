"""`python -m studies.networks [SEEDS [SYSTEM ...]]` fits every system, in every case,
to 20 data sets, and writes the table of the page. `--seconds` ends the run after so
much time. Results go to `results/networks.jsonl`, a line for each fit, and those that
are there are not computed again."""

import argparse
import os
from pathlib import Path

from ..page_tables import DOCS, RESULTS, write_table
from .one_fit import Case
from .run import read, run
from .systems import SYSTEMS
from .table import table

FILE = RESULTS / "networks.jsonl"
PAGE, NAME = DOCS / "explanation" / "networks-against-the-field.md", "networks"


def cases(systems: list[str]) -> list[Case]:
    """All cases of the systems."""
    found = []
    for system in systems or list(SYSTEMS):
        found += [Case(system), Case(system, width=32, depth=2)]
        found += [Case(system, noise=0.01), Case(system, noise=0.3)]
        found += [Case(system, kept=0.5)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", nargs="?", type=int, default=20)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=", ".join(SYSTEMS))
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    given = parser.parse_args()
    chosen = [case for case in cases(given.systems) if given.only in str(case)]
    tasks = [(case, seed) for case in chosen for seed in range(given.seeds)]
    run(tasks, given.file, given.processes, given.seconds)
    measured = table(read(given.file))
    if given.file == FILE:
        write_table(PAGE, NAME, measured)
    print(measured)


if __name__ == "__main__":
    main()
