"""Value and gradient of the paper's models as text, over the modules by hand."""

import time
from collections.abc import Iterator

import numpy as np

import ddefind as dd
from ddefind.paper import EXPERIMENTS

from . import _cases
from ._loops import gradient_loop
from ._report import Row, microseconds
from ._timing import in_turn, ratio

TITLE = "Text equations, 100 RK2 steps, one fit; figure: times the module"
_EPOCHS = 1000
_TEXTS = {
    "Exponential": "x' = theta_0 * x + theta_1 * x(t - tau)",
    "Logistic": "x' = theta_0 * x * (1 - theta_1 * x(t - tau))",
    "ENSO": "x' = theta_0 * x - theta_1 * x^3 - theta_2 * x(t - tau)",
    "Cheyne": "f = x(t - tau)^8; x' = p - V_0 * x * f / (alpha + f)",
    "HIV": """
        T' = k * T_0 * I(t - tau) * exp(-m * tau) - delta * T
        I' = (1 - n_p) * N * delta * T - c * I
        H' = n_p * N * delta * T - c * H
    """,
}


def _as_text(case: _cases.Case) -> _cases.Case:
    model = dd.equation(_TEXTS[case.name], history=case.problem.history)
    values = dd.parameter_values(case.problem)
    problem = model.problem({name: values[name] for name in model.required})
    return _cases.Case(case.name, problem, case.data)


def _row(case: _cases.Case) -> Row:
    loss = dd.SumOfSquares()
    jobs = {
        "text": gradient_loop(_as_text(case), loss, _EPOCHS),
        "module": gradient_loop(case, loss, _EPOCHS),
    }
    seconds = in_turn(jobs, clock=time.process_time)
    measured, module = (
        microseconds(np.median(seconds[name]) / _EPOCHS) for name in jobs
    )
    times = ratio(seconds["text"], seconds["module"])
    return Row(case.name, measured, times, 1.05, f"module {module}")


def rows() -> Iterator[Row]:
    for model in EXPERIMENTS:
        yield _row(_cases.paper(model))
