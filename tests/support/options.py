"""Options that tests pass on to `dd.fit` and the like."""

from typing import Any, TypedDict

# Options of different types in one dictionary.
Options = dict[str, Any]


class Quiet(TypedDict):
    progress: bool


# No progress bar.
QUIET: Quiet = {"progress": False}
