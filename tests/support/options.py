"""Options that tests pass on to `dd.fit` and the like."""

from typing import Any

# Options of different types in one dictionary.
Options = dict[str, Any]

# No progress bar.
QUIET: Options = {"progress": False}
