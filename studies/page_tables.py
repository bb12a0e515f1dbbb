"""What the studies share: kept results, and tables between two comments of a page."""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ddefind._util.files import write_whole
from ddefind.paper import EXPERIMENTS, Experiment

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = Path(__file__).parent / "results"


def _marks(name: str) -> tuple[str, str]:
    """The two comments of a page between which the table `name` stands."""
    return f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"


def read_table(page: Path, name: str) -> str:
    """The table that a page shows at present."""
    begin, end = _marks(name)
    return page.read_text("utf-8").split(begin)[1].split(end)[0].strip()


def write_table(page: Path, name: str, table: str) -> None:
    """Replace the table of a page, and leave the rest of the page as it is."""
    begin, end = _marks(name)
    before, rest = page.read_text("utf-8").split(begin)
    write_whole(page, before + begin + table + "\n" + end + rest.split(end)[1])


def read_results(file: Path, empty: Any) -> Any:
    """The results that an earlier run has kept, or `empty` where there are none."""
    return json.loads(file.read_text("utf-8")) if file.exists() else empty


def measure_models(
    file: Path,
    measure: Callable[[Experiment, float, int], dict],
    noise_levels: Sequence[float],
) -> list[dict]:
    """Run `measure(experiment, noise, repeats)` for each model and noise level.

    The command line gives the number of data sets (400 by default) and the models (all
    by default). Results of other models are kept. The file is written after each noise
    level, so that an interrupted run loses at most one of them.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("repeats", nargs="?", type=int, default=400)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(EXPERIMENTS)}")
    given = parser.parse_args()
    order = list(EXPERIMENTS)
    results = {(r["model"], r["noise"]): r for r in read_results(file, [])}
    for model in given.models or order:
        for noise in noise_levels:
            results[model, noise] = measure(EXPERIMENTS[model], noise, given.repeats)
            results = dict(
                sorted(results.items(), key=lambda r: (order.index(r[0][0]), r[0][1]))
            )
            write_whole(file, json.dumps(list(results.values()), indent=1) + "\n")
            print(json.dumps(results[model, noise]), flush=True)
    return list(results.values())
