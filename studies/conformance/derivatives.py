"""The derivatives of random problems with delays of every kind."""

import numpy as np
from tests.support import general_problems
from tests.support.general_problems import KINDS, Structure

DIMENSIONS, EACH = (1, 2, 3), 24


def measure() -> list[dict]:
    """For each kind the largest errors over all random problems."""
    rows = []
    for kind in KINDS:
        found = [
            errors
            for d in DIMENSIONS
            for errors in general_problems.measure(Structure(kind, d), range(EACH))
        ]
        largest = {
            name: float(f"{max(getattr(errors, name) for errors in found):.2g}")
            for name in ("reverse", "derivatives", "overall", "states")
        }
        typical = np.median([errors.derivatives for errors in found])
        rows.append(
            {"kind": kind, "problems": len(found)}
            | largest
            | {"typical": float(f"{typical:.2g}")}
        )
        print(rows[-1], flush=True)
    return rows
