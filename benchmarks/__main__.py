"""`python -m benchmarks [section ...]`: measure, and print one table."""

import argparse
import time

from . import (
    fits,
    least_squares,
    neural,
    scaling,
    several_delays,
    startup,
    structured,
    text,
    torch,
    xla_flag,
)
from ._report import HEADER

SECTIONS = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        *(structured, text, fits, least_squares, neural),
        *(several_delays, torch, scaling, startup, xla_flag),
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}")
    chosen = parser.parse_args().sections or list(SECTIONS)
    for name in chosen:
        if name not in SECTIONS:
            parser.error(f"no section {name!r}; choose from {', '.join(SECTIONS)}")
    start = time.perf_counter()
    print(HEADER)
    for name in chosen:
        print(f"{SECTIONS[name].TITLE} [{name}]", flush=True)
        for row in SECTIONS[name].rows():
            print(row, flush=True)
    print(f"{time.perf_counter() - start:.0f} s in all")


main()
