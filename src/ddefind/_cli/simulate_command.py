"""`ddefind simulate` and `ddefind check`."""

import typer

from . import options as opt
from .messages import CODES, DOUBTFUL, Talk, print_json, refusals
from .parse_options import assignments, history as read_history
from .startup import quick_start

SIMULATE_EXAMPLES = f"""\
\b
Example:
  ddefind simulate -e "x' = r * x * (1 - x(t - tau) / K)" --set r=1.8 --set K=2.5 \\
    --set tau=0.8 --history 0.5 --T 20 --points 120 --noise 0.05 --out data.csv

\b
A history has parameters, too: b of a constant one, a and b of an affine one (a t + b),
A, omega and b of a periodic one. `--history affine --set a=0.1 --set b=2` gives them.

{CODES}
"""
CHECK_EXAMPLES = f"""\
\b
Examples:
  ddefind check -e "x' = r * x * (1 - x(t - tau) / K)"
  ddefind check data.csv --model model.py:problem --set tau=1.5

\b
Prints the derivative of the sum of squares for each parameter: by central differences,
which know nothing of any theory, and by each of the library's ways. Where they differ,
the model's derivatives are wrong: it jumps, has a kink, or says so itself.

{CODES}
"""


# The exact gradients are as near as this to the differences, whose own error it is
# where data stand on a node of the solver.
_RIGHT = 1e-4
_AGREE = """\
Discrete and Forward agree with the differences to {:.1e}. (Adjoint, the equation of the
theory, agrees to the error of its steps.)"""
_DIFFER = """\
Discrete and Forward are {:.1e} off the differences: the model's derivatives are wrong
here. Look for `stop_gradient`, rules of your own, and jumps or kinks (where, min, max,
abs); or choose other values by `--set`."""


def simulate(
    equation: opt.Equation = None,
    model: opt.Model = None,
    history: opt.History = None,
    observe: opt.Observe = None,
    known: opt.Known = None,
    T: opt.LastTime = 10.0,
    points: opt.Points = 101,
    noise: opt.Noise = 0.0,
    seed: opt.Seed = 0,
    out: opt.File = None,
    quiet: opt.Quiet = False,
) -> None:
    """Solve an equation and write noisy data, as a test for a fit."""
    with refusals():
        given = assignments("--set", known or ())
        before = read_history(history or ())
        with quick_start():
            from .model_file import observed_names, problem_at, read_model
            from .simulated_data import simulated

            found = read_model(equation, model, before, observe)
            problem = problem_at(found, given, {})
            names = observed_names(found)
            data = simulated(problem, T, points, noise, seed, names)
        if out is None:
            typer.echo(data.csv(), nl=False)
        else:
            data.to_csv(out)
        Talk(quiet).say(f"{out or 'Standard output'}: {data}")


def check(
    data: opt.DataFile = None,
    equation: opt.Equation = None,
    model: opt.Model = None,
    history: opt.History = None,
    observe: opt.Observe = None,
    known: opt.Known = None,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Compare the gradients of a model with finite differences."""
    with refusals():
        given = assignments("--set", known or ())
        before = read_history(history or ())
        with quick_start():
            from .model_file import read_model
            from .simulated_data import gradients_at

            found = read_model(equation, model, before, observe)
            compared = gradients_at(found, data, given, seed)
    worst = max(float(compared.errors(r).max()) for r in ("Discrete", "Forward"))
    right = worst < _RIGHT
    if as_json:
        print_json(
            {
                "names": list(compared.names),
                "differences": compared.differences.tolist(),
                **{name: found.tolist() for name, found in compared.routes.items()},
                "worst": worst,
                "right": right,
            }
        )
    else:
        sentence = (_AGREE if right else _DIFFER).format(worst)
        typer.echo(f"{compared}\n\n{sentence}")
    raise typer.Exit(0 if right else DOUBTFUL)
