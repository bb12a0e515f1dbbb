"""Measure what the paper argues or leaves open, and write `paper-studies.json`.

`python docs/make_paper_studies.py [STUDY ...]` runs all studies (some minutes) or those
named, and keeps the others' results. `make_paper_page.py` writes the page from them.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ddefind._util.text_files import write_whole
from paper_studies.estimates import (
    constants,
    converged,
    epochs,
    random_starts,
    seeds,
    undetermined,
)
from paper_studies.gradients import routes, steps_per_delay

FILE = Path(__file__).with_name("paper-studies.json")


def timing() -> dict:
    """Seconds of `ddefind paper`, all 300 fits, in a fresh process. Other work
    on the machine only adds to them: the shortest counts."""
    seconds = []
    for _ in range(8):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            command = [sys.executable, "-m", "ddefind", "paper", "--out", f"{folder}/o"]
            subprocess.run(command, check=True, capture_output=True)
            seconds.append(round(time.perf_counter() - began, 2))
    return {"seconds": seconds, "cores": os.cpu_count()}


STUDIES = {
    study.__name__: study
    for study in (
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
    chosen = sys.argv[1:] or list(STUDIES)
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in chosen:
        began = time.perf_counter()
        results[name] = STUDIES[name]()
        text = json.dumps(results, indent=1, sort_keys=True)
        write_whole(FILE, text + "\n")
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
