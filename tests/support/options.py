"""Options that tests pass on to `dd.fit` and the like."""

from typing import Any, TypedDict

import ddefind as dd

# Options of different types in one dictionary.
Options = dict[str, Any]


class Near(TypedDict):
    optimizer: dd.LeastSquares


# A search from the start values alone, for fits that begin near the best one.
NEAR: Near = {"optimizer": dd.LeastSquares(starts=1)}
