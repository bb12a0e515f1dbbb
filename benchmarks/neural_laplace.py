"""Neural Laplace's three sets of delay equations: how well unseen trajectories go on.

One equation with a network is learned from a few of the trajectories to learn from.
Then the first half of each test trajectory is seen, and its second half predicted: its
history alone is fitted to what was seen, with `continue_from`. The past of Mackey-Glass
is the half that is seen, since its delay is twice as long as what is to be predicted:
it is a known input there, and nothing is left to fit.

`python -m benchmarks neural_laplace.spiral` runs one set. torchlaplace learns from all
of the trajectories, by far the longest part of the run."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np

import ddefind as dd

from . import _baselines
from ._laplace_sets import SEEN, SETS, TrajectorySet, trajectory_set
from ._report import Row

TITLE = "Neural Laplace's sets, RMSE of unseen halves; figure: over torchlaplace's"
IS_LONG = True


@final
@dataclass(frozen=True)
class Form:
    """An equation with a network for a set, in standardised or in its own units; the
    search sees `few` trajectories, and the fit that begins at its result `many`."""

    what: str
    model: Any
    few: int
    many: int
    steps: int
    is_standardised: bool = True


def _general(width: int) -> dd.Problem:
    return dd.Problem(dd.Network(width=width), dd.Constant([0.0, 0.0]), tau=1.0)


_FORMS = {
    "spiral": [Form("F(x, x(t - tau)) unknown", _general(16), 3, 8, 10)],
    "lotka_volterra": [
        Form("F(x, x(t - tau)) unknown", _general(16), 3, 12, 3),
        Form(
            "x' = x NN(y(t - tau)), y' = y NN(x(t - tau))",
            dd.equation(
                "x' = x * NN_x(y(t - tau)); y' = y * NN_y(x(t - tau))",
                networks={n: dd.Network(width=8) for n in ("NN_x", "NN_y")},
            ),
            *(3, 6, 3),
            is_standardised=False,
        ),
    ],
    "mackey_glass": [
        Form(
            "x' = NN(x, x(t - tau))",
            dd.equation(
                "x' = NN(x, u(t - tau))",
                inputs=("u",),
                networks={"NN": dd.Network(width=8)},
            ),
            *(6, 6, 10),
        ),
        Form(
            "x' = NN(x(t - tau)) - g x",
            dd.equation(
                "x' = NN(u(t - tau)) - g * x",
                inputs=("u",),
                networks={"NN": dd.Network(width=8)},
            ),
            *(6, 6, 10),
            is_standardised=False,
        ),
    ],
}


def _continued(given: TrajectorySet, form: Form, x: np.ndarray) -> np.ndarray:
    """The second halves of the test trajectories, by an equation that is learned from
    the first trajectories to learn from."""
    names = ["x", "y"]
    steps: Any = dict(steps_per_delay=form.steps, progress=False)

    def study(count: int) -> list[dd.Experiment]:
        return [
            dd.Experiment(dd.Data(given.t, x[i], names=names), label=str(k))
            for k, i in enumerate(given.learn[:count])
        ]

    search, nearest = dd.LeastSquares(starts=12), dd.LeastSquares(starts=1)
    first = dd.fit(
        form.model, study(form.few), optimizer=search, intervals=False, **steps
    )
    begin = {
        f"b[{c}]@{k}": float(x[i, 0, c])
        for k, i in enumerate(given.learn[: form.many])
        for c in range(2)
    }
    fit: Any = dd.fit(
        first.problem,
        study(form.many),
        optimizer=nearest,
        parameters=begin,
        intervals=False,
        **steps,
    )
    seen = [dd.Data(given.t[:SEEN], x[i, :SEEN], names=names) for i in given.test]
    found = dd.continue_from(fit, seen, **steps)
    return np.stack(
        [
            np.asarray(dd.solve(each.problem, given.t[-1], steps_per_delay=20)(given.t))
            for each in found
        ]
    )[:, SEEN:]


def _with_known_past(given: TrajectorySet, form: Form, x: np.ndarray) -> np.ndarray:
    """The same where the seen halves are the pasts. Before them the past is held. The
    delay is such that no more than what is seen is needed."""
    t, model = given.t - 100.0, form.model

    def past(i: int) -> dict[str, dd.Input]:
        values = np.concatenate([x[i, :1, 0], x[i, :SEEN, 0]])
        return {"u": dd.Input(np.concatenate([[-121.0], t[:SEEN]]), values)}

    study = [
        dd.Experiment(
            dd.Data(t[SEEN:], x[i, SEEN:], names=["x"]), inputs=past(i), label=str(k)
        )
        for k, i in enumerate(given.learn[: form.many])
    ]
    parameters = {
        "b": dd.Parameter(per_experiment=False),
        "tau": dd.Parameter(lower=50.5, upper=120.0),
    }
    fit = dd.fit(
        model,
        study,
        optimizer=dd.LeastSquares(starts=4),
        parameters=parameters,
        intervals=False,
        progress=False,
    )
    network = fit.problem.rhs.NN
    named = {name: value for name, value in fit.values.items() if "[" not in name}
    predicted = []
    for i in given.test:
        problem = model.problem(named, inputs=past(i), networks={"NN": network})
        predicted.append(np.asarray(dd.solve(problem, t[-1])(t[SEEN:])))
    return np.stack(predicted)


def _error(given: TrajectorySet, form: Form, predict: Callable) -> float:
    x = given.x if form.is_standardised else given.mean + given.spread * given.x
    predicted = predict(given, form, x)
    if not form.is_standardised:
        predicted = (predicted - given.mean) / given.spread
    truth = given.x[given.test][:, SEEN:]
    return float(np.sqrt(np.mean((predicted - truth) ** 2)))


def rows(part: str | None = None) -> Iterator[Row]:
    for name in [part] if part else SETS:
        given = trajectory_set(name)
        arrays = {key: getattr(given, key) for key in ("x", "t", *_PARTS)}
        theirs = _baselines.run(
            "run_torchlaplace.py", {**arrays, "seen": SEEN}, _baselines.EPOCHS, 0
        )
        if theirs is None:
            yield Row(f"{name}, torchlaplace", "", note=_baselines.INSTALL)
        else:
            note = f"{theirs['seconds']:.0f} s, {_baselines.EPOCHS} epochs"
            yield Row(f"{name}, torchlaplace", f"{theirs['rmse']:.3g}", note=note)
        predict = _with_known_past if name == "mackey_glass" else _continued
        for form in _FORMS[name]:
            start = time.perf_counter()
            ours = _error(given, form, predict)
            note = f"{time.perf_counter() - start:.0f} s, {form.many} trajectories"
            figure = None if theirs is None else ours / theirs["rmse"]
            yield Row(f"{name}, {form.what}"[:46], f"{ours:.3g}", figure, 1, note)


_PARTS = ("learn", "choose", "test")
