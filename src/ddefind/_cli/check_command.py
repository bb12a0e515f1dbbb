"""`ddefind check`: compare the gradients of a model with finite differences."""

from typing import Any

import typer

from . import options as opt
from .messages import DOUBTFUL, EXIT_CODES, print_json, quick_start
from .parse_options import parse_whole

CHECK_EXAMPLES = f"""\
\b
Examples:
  ddefind check -e "x' = r * x * (1 - x(t - tau) / K)"
  ddefind check data.csv --model model.py:problem --set tau=1.5

\b
Prints the derivative of the sum of squares with respect to each parameter: by central
differences, and by each of the library's methods. Where they differ, the derivatives of
the model are wrong: it has a jump or a kink, or derivative rules that are not true.

{EXIT_CODES}
"""


# The largest relative error of a gradient that counts as right. Finite differences are
# as inexact as this if the data include a time on a node of the solver.
_TOLERANCE = 1e-4
_AGREE = "Discrete and Forward agree with the differences to {:.1e}."
_ABOUT_ADJOINT = """ (Adjoint solves an equation
for the gradient, and agrees up to the error of the solver's steps.)"""
_DIFFER = """\
Discrete and Forward are {:.1e} off the differences: the model's derivatives are wrong
here. Look for `stop_gradient`, derivative rules of your own, and jumps or kinks (where,
min, max, abs), or choose other values with `--set`."""


@opt.takes("equation", "model", "history", "observe", "set")
def check(
    given: dict[str, Any],
    data: opt.DataFile = None,
    seed: opt.Seed = "0",
    as_json: opt.Json = False,
) -> None:
    """Compare the gradients of a model with finite differences."""
    whole_seed = parse_whole("--seed", seed)
    with quick_start():
        from .model_file import read_model
        from .simulated_data import gradients_at

        model = read_model(given)
        compared = gradients_at(model, data, given["set"], whole_seed)
    largest_error = max(
        float(compared.errors(route).max()) for route in ("Discrete", "Forward")
    )
    is_right = largest_error < _TOLERANCE
    if as_json:
        print_json(
            {
                "names": list(compared.names),
                "differences": compared.differences,
                **compared.routes,
                "worst": largest_error,
                "right": is_right,
            }
        )
    else:
        about = _ABOUT_ADJOINT if "Adjoint" in compared.routes else ""
        sentence = (_AGREE + about if is_right else _DIFFER).format(largest_error)
        typer.echo(f"{compared}\n\n{sentence}")
    raise typer.Exit(0 if is_right else DOUBTFUL)
