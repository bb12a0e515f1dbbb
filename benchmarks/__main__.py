"""`python -m benchmarks [section ...]`: measure, and print one table.

Sections that take many minutes run only if they are named; `neural_laplace.spiral` is
one part of such a section."""

import argparse
import time

from . import (
    adaptive,
    fits,
    gpu,
    least_squares,
    many,
    neural,
    neural_fits,
    neural_laplace,
    scaling,
    several_delays,
    startup,
    structured,
    text,
    torch,
    torchdde,
    xla_flag,
)
from ._report import HEADER

SECTIONS = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        *(structured, text, fits, least_squares, neural),
        *(several_delays, adaptive, torch, scaling, startup, xla_flag),
        *(many, gpu, neural_laplace, neural_fits, torchdde),
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}")
    usual = [n for n, module in SECTIONS.items() if not hasattr(module, "IS_LONG")]
    chosen = [
        name.partition(".")[::2] for name in parser.parse_args().sections or usual
    ]
    for name, _ in chosen:
        if name not in SECTIONS:
            parser.error(f"no section {name!r}; choose from {', '.join(SECTIONS)}")
    start = time.perf_counter()
    print(HEADER)
    for name, part in chosen:
        print(f"{SECTIONS[name].TITLE} [{name}]", flush=True)
        for row in SECTIONS[name].rows(*[part] * bool(part)):
            print(row, flush=True)
    print(f"{time.perf_counter() - start:.0f} s in all")


main()
