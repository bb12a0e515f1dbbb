"""Records that begin in mid-cycle: how precise are fits with `history="auto"`?

`python -m studies.mid_cycle [REPEATS [SYSTEM ...]]` fits records of five systems that
begin at random times of their cycles, with noise of 5 and 10% of the spread, and
compares the errors with the Cramér-Rao bound of the model whose history is a spline
with six knots. It writes `results/mid_cycle.json` and the table of
`docs/explanation/fitting.md`.
"""

import json
import sys

import numpy as np

import ddefind as dd
from ddefind._problem.history import USUAL_CURVES, Smooth, spline_basis
from ddefind._search.batches import refine
from ddefind._search.make_setup import make_setup
from ddefind._search.other_history import free_values

from .mid_cycle_systems import SYSTEMS, Record, System, record
from .page_tables import DOCS, RESULTS, write_table

FILE = RESULTS / "mid_cycle.json"
PAGE, NAME = DOCS / "explanation" / "fitting.md", "mid-cycle"
NOISE = (0.05, 0.1)
REPEATS = 50
SEED = 17


def bounds(system: System, past: Record, noise: float) -> dict[str, float]:
    """The Cramér-Rao bounds of the parameters, with a history of six knots and without
    a penalty."""
    model = dd.equation(system.text, history="spline")
    known = _through_knots(past)
    values = {name: np.asarray(getattr(known, name)) for name in "abc"}
    problem = model.problem({**system.true, **values})
    sd = noise * np.std(past.x, axis=0)
    data = dd.Data(past.t, past.x, names=model.states, sd=sd)
    setup, filled = make_setup(problem, data, model.settings, dd.RK4(), 10)
    theta = free_values(setup, filled)[None]
    gram = refine(setup, theta, setup.points(), np.array([60]), limit=1).gram[0, 1:, 1:]
    norms = np.sqrt(np.diagonal(gram))
    variance = np.diagonal(np.linalg.inv(gram / norms[:, None] / norms)) / norms**2
    names = setup.model.free.names
    return {name: float(np.sqrt(variance[names.index(name)])) for name in system.true}


def _through_knots(past: Record) -> Smooth:
    """The spline through the true past at six knots."""
    tau, basis = past.system.true["tau"], spline_basis(USUAL_CURVES)
    t = tau * basis.knots
    x = past.past(t)
    slope = (x[-1] - x[0]) / tau
    powers = np.maximum(basis.knots[:, None] - basis.knots, 0.0) ** 3
    curves = basis.constant + np.outer(basis.knots, basis.linear)
    curves = curves + powers @ basis.cubic.T
    bend = x - x[-1] - np.outer(t, slope)
    c = np.linalg.solve(curves[1:-1], bend[1:-1])
    return Smooth(slope, x[-1], c, tau)


def measure(name: str, noise: float, repeats: int) -> dict:
    """The root mean square error of each parameter, in units of its bound."""
    system = SYSTEMS[name]
    path = system.solution()
    models = {
        kind: dd.equation(system.text, history=kind) for kind in ("constant", "auto")
    }
    errors: dict[str, list] = {kind: [] for kind in models}
    chosen: list[str] = []
    for repeat in range(repeats):
        random = np.random.default_rng([repeat, SEED])
        past = record(system, path, random)
        data = past.data(noise, random)
        bound = bounds(system, past, noise)
        for kind, model in models.items():
            fit = dd.fit(model, data, intervals=False, progress=False, solver=dd.RK4())
            off = [(fit.values[n] - system.true[n]) / bound[n] for n in system.true]
            errors[kind].append(off)
            if kind == "auto":
                chosen.append(fit.histories[0][0])
    return {
        "model": name,
        "noise": noise,
        "repeats": repeats,
        "chosen": {kind: chosen.count(kind) for kind in sorted(set(chosen))},
        "rms": {
            kind: dict(zip(system.true, _rms(rows))) for kind, rows in errors.items()
        },
    }


def _rms(errors: list) -> list[float]:
    return np.sqrt(np.mean(np.array(errors) ** 2, axis=0)).round(3).tolist()


def table(results: list[dict]) -> str:
    lines = ["| system | noise | auto: largest error | of | constant: largest error |"]
    lines[0] = lines[0] + " chosen |"
    lines.append("|---|---:|---:|---|---:|---|")
    for each in results:
        auto, constant = each["rms"]["auto"], each["rms"]["constant"]
        worst = max(auto, key=lambda name: auto[name])
        chosen = ", ".join(f"{kind} {n}" for kind, n in each["chosen"].items())
        lines.append(
            f"| {each['model']} | {each['noise']} | {auto[worst]:.2f} | `{worst}` "
            f"| {max(constant.values()):.2g} | {chosen} |"
        )
    return "\n".join(lines)


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS
    names = sys.argv[2:] or list(SYSTEMS)
    kept = json.loads(FILE.read_text("utf-8")) if FILE.exists() else []
    for name in names:
        for noise in NOISE:
            found = measure(name, noise, repeats)
            print(json.dumps(found), flush=True)
            place = name, noise
            kept = [each for each in kept if (each["model"], each["noise"]) != place]
            kept.append(found)
            kept.sort(key=lambda e: (list(SYSTEMS).index(e["model"]), e["noise"]))
            FILE.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    write_table(PAGE, NAME, table(kept))


if __name__ == "__main__":
    main()
