"""The table of what was measured."""

from collections import defaultdict
from typing import Any

import numpy as np


def _share(values: Any) -> str:
    values = np.asarray(values, float)
    return f"{100 * values.mean():.0f}%" if len(values) else "-"


def table(results: list[dict[str, Any]]) -> str:
    """A line for each case: how many fits reach the data, how good the delay, the
    trajectory and the functions are, and how often intervals and bands hold."""
    lines = [
        "| case | fits | residuals 0.8 to 1.1 | tau: rms error, largest | holds | "
        "others hold | band holds | beyond: error at most | band holds | function: "
        "error at most | band holds | seconds |",
        "|" + "---|" * 12,
    ]
    by_case = defaultdict(list)
    for each in results:
        by_case[each["case"]].append(each)
    for case, rows in by_case.items():
        good = [r for r in rows if "failed" not in r]
        if not good:
            lines.append(f"| {case} | {len(rows)} | all failed |" + " |" * 9)
            continue
        near = sum(0.8 <= r["residual"] <= 1.1 for r in good)
        taus = np.array([r["values"]["tau"] for r in good])
        error = taus[:, 0] - taus[:, 3]
        others = [v for r in good for n, v in r["values"].items() if n != "tau"]
        functions = [f for r in good for f in r["functions"].values()]
        beyond = np.quantile([r["beyond"]["error"] for r in good], 0.95)
        largest = (
            f"{np.quantile([f['error'] for f in functions], 0.95):.3f}"
            if functions
            else "-"
        )
        cells = [
            case,
            str(len(rows)),
            f"{near} of {len(rows)}",
            f"{np.sqrt(np.mean(error**2)):.4f}, {np.max(np.abs(error)):.4f}",
            _share([_holds(v) for v in taus]),
            _share([_holds(v) for v in others]),
            _share([r["inside"]["holds"] for r in good]),
            f"{beyond:.2f}",
            _share([r["beyond"]["holds"] for r in good]),
            largest,
            _share([f["holds"] for f in functions]),
            f"{np.median([r['seconds'] for r in good]):.1f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _holds(value: Any) -> bool:
    _, low, high, true = value
    return bool(low <= true <= high)
