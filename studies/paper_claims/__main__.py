"""Measure what the paper claims or leaves open, into `results/paper_claims.json`.

`python -m studies.paper_claims [MEASUREMENT ...]` runs all measurements (some minutes)
or those named, and keeps the results of the others. `python -m studies.paper_page` then
writes the page from them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from ddefind._util.files import write_whole

from ..page_tables import RESULTS, read_results
from .estimates import (
    constants,
    converged,
    epochs,
    random_starts,
    seeds,
    undetermined,
)
from .gradients import routes, steps_per_delay

FILE = RESULTS / "paper_claims.json"


def timing() -> dict:
    """The seconds that `ddefind paper`, all 300 fits, takes in a fresh process, eight
    times. Other work on the machine only adds to them, so the shortest counts."""
    seconds = []
    for _ in range(8):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            command = [sys.executable, "-m", "ddefind", "paper", "--out", f"{folder}/o"]
            subprocess.run(command, check=True, capture_output=True)
            seconds.append(round(time.perf_counter() - began, 2))
    return {"seconds": seconds, "cores": os.cpu_count()}


MEASUREMENTS = {
    measurement.__name__: measurement
    for measurement in (
        steps_per_delay,
        routes,
        constants,
        undetermined,
        random_starts,
        converged,
        epochs,
        seeds,
        timing,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.paper_claims")
    parser.add_argument("measurements", nargs="*", help=f"of {', '.join(MEASUREMENTS)}")
    chosen = parser.parse_args().measurements or list(MEASUREMENTS)
    results = read_results(FILE, {})
    for name in chosen:
        began = time.perf_counter()
        results[name] = MEASUREMENTS[name]()
        write_whole(FILE, json.dumps(results, indent=1, sort_keys=True) + "\n")
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
