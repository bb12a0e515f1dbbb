"""What ddefind costs: `make bench`, or `python -m benchmarks [section ...]`.

A section is a module with a `TITLE` and a function `rows()` that yields the lines of
its table; `__main__` lists them. Machines are shared and clocks vary: a section times
what it compares in turn and reports medians of ratios.
"""
