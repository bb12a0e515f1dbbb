"""Tables as pandas data frames. pandas is optional, and imported when it is needed."""

from collections.abc import Mapping, Sequence
from typing import Any


def data_frame(columns: Mapping[str, Any], index: str | None = None) -> Any:
    """A data frame of these columns, one of which may be its `index`.

    >>> data_frame({"name": ["r", "K"], "estimate": [2.5, 10.0]}, "name").loc["K"]
    estimate    10.0
    Name: K, dtype: float64
    """
    try:
        import pandas
    except ImportError:
        raise ImportError(
            "`to_frame` needs pandas, which is not installed: pip install pandas."
        ) from None
    frame = pandas.DataFrame(dict(columns))
    return frame if index is None else frame.set_index(index)


def frame_of_rows(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A data frame of rows with the same keys; `name` is its index, and NaN stands
    where there is no number."""
    keys = list(rows[0]) if rows else ["name"]
    columns = {key: [row[key] for row in rows] for key in keys}
    for key, values in columns.items():
        if all(value is None or isinstance(value, float) for value in values):
            columns[key] = [float("nan") if v is None else v for v in values]
    return data_frame(columns, "name")
