"""`python -m studies.conformance [part ...]`: measure, keep the results, and write the
tables."""

import argparse
import json

from ddefind._util.files import write_whole

from ..page_tables import read_results, write_table
from . import derivatives, jitcdde, solutions
from .tables import FILE, PAGE, tables

PARTS = {
    "solutions": solutions.measure,
    "derivatives": derivatives.measure,
    "jitcdde": jitcdde.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.conformance")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}")
    results = read_results(FILE, {})
    for part in parser.parse_args().parts or PARTS:
        found = PARTS[part]()
        if found is not None:
            results[part] = found
        write_whole(FILE, json.dumps(results, indent=1) + "\n")
    for name, table in tables(results).items():
        write_table(PAGE, name, table)


if __name__ == "__main__":
    main()
