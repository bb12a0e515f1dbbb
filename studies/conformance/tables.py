"""The tables of `docs/explanation/conformance.md`, from the kept results."""

import numpy as np
from tests.support.delay_problems import ALL, NEUTRAL, OTHERS, RETARDED, STIFF

from ..page_tables import DOCS, RESULTS
from .solutions import TOLERANCES

PAGE, FILE = DOCS / "explanation" / "conformance.md", RESULTS / "conformance.json"
GROUPS = {"retarded": RETARDED, "neutral": NEUTRAL, "RADAR5": STIFF, "others": OTHERS}
# Why a problem misses its goal at the smallest tolerance, or is not solved at another.
REASONS: dict[str, str] = {}
_HEADER = """\
| problem | delay | solver | error at 1e-4 | at 1e-6 | at 1e-8 | goal | steps | \
tries | time |
|---|---|---|---:|---:|---:|---:|---:|---:|---:|
"""


def tables(results: dict) -> dict[str, str]:
    """Each table under its name."""
    rows = {row["name"]: row for row in results["solutions"]}
    found = {
        name: _HEADER + "\n".join(solution_line(rows[known]) for known in group)
        for name, group in GROUPS.items()
    }
    found["misses"] = misses(results["solutions"])
    found["derivatives"] = derivative_table(results["derivatives"])
    if "jitcdde" in results:
        found["jitcdde"] = jitcdde_table(results["jitcdde"])
    return found


def solution_line(row: dict) -> str:
    known = ALL[row["name"]]
    errors = [
        f"{each['error']:.0e}" if "error" in each else "none" for each in row["results"]
    ]
    last = row["results"][-1]
    solver = type(known.solver(1e-8)).__name__
    spent = _time(last["microseconds"]) if "error" in last else ""
    work = [str(last.get("steps", "")), str(last.get("tries", "")), spent]
    cells = [row["name"], known.kind, f"`{solver}`", *errors, f"{known.goal:.0e}"]
    return "| " + " | ".join([*cells, *work]) + " |"


def _time(microseconds: float) -> str:
    if microseconds < 1000:
        return f"{microseconds:.0f} us"
    return f"{microseconds / 1000:.1f} ms"


def missed(rows: list[dict]) -> list[str]:
    """The problems that miss their goal at the smallest tolerance, and those that are
    not solved at one of the tolerances."""
    return [
        row["name"]
        for row in rows
        if any("error" not in each for each in row["results"])
        or row["results"][-1]["error"] > ALL[row["name"]].goal
    ]


def misses(rows: list[dict]) -> str:
    """A sentence for each problem that misses its goal."""
    names = missed(rows)
    if not names:
        return f"All {len(rows)} problems reach their goals at {TOLERANCES[-1]:g}."
    return "\n".join(f"- {name}: {REASONS[name]}" for name in names)


def derivative_table(rows: list[dict]) -> str:
    lines = [
        "| delays | problems | forward against reverse | against differences: largest "
        "| median | of the largest derivative | states |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        names = ("reverse", "derivatives", "typical", "overall", "states")
        numbers = [f"{row[name]:.0e}" for name in names]
        lines.append(
            "| " + " | ".join([row["kind"], str(row["problems"]), *numbers]) + " |"
        )
    return "\n".join(lines)


def jitcdde_table(found: dict) -> str:
    """For each error of JiTCDDE the time of both; ours is read between the errors that
    were measured, on logarithmic scales."""
    errors = np.log([each["error"] for each in found["ours"]])[::-1]
    times = np.log([each["microseconds"] for each in found["ours"]])[::-1]
    lines = [
        f"| error | JiTCDDE {found['version']} | `Tsit5` at the same error | ratio |",
        "|---:|---:|---:|---:|",
    ]
    for each in found["theirs"]:
        if errors[0] <= np.log(each["error"]) <= errors[-1]:
            own = float(np.exp(np.interp(np.log(each["error"]), errors, times)))
            ratio = each["microseconds"] / own
            cells = [_time(each["microseconds"]), _time(own), f"{ratio:.0f}"]
            lines.append(f"| {each['error']:.0e} | " + " | ".join(cells) + " |")
    lines += [
        "",
        f"Compilation took {found['compilation']} s (JiTCDDE) and "
        f"{found['own_compilation']} s.",
    ]
    return "\n".join(lines)
