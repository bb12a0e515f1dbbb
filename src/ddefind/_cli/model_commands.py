"""Commands that compute with a model: `ddefind simulate` solves it and writes noisy
data, and `check` compares its gradients with finite differences."""

from typing import Any

import typer

from .._util.files import file_name, write_whole
from . import options as opt
from .messages import DOUBTFUL, EXIT_CODES, print_json, quick_start, say
from .parse_options import OptionError, parse_by_name, parse_real, parse_whole

# The first line of a file with simulated data, which alone is replaced.
_WRITTEN = "# Written by ddefind simulate"

SIMULATE_EXAMPLES = f"""\
\b
Example:
  ddefind simulate -e "x' = r * x * (1 - x(t - tau) / K)" --set r=1.8 --set K=2.5 \\
    --set tau=0.8 --history 0.5 --T 20 --points 120 --noise 0.05 --out data.csv

\b
A history has parameters, too: b of a constant one, a and b of an affine one (a t + b),
A, omega and b of a periodic one. `--history affine --set a=0.1 --set b=2` gives them.

\b
Several experiments: --experiments FILE.csv has a row for each, with its name in the
first column and values of parameters in the others. The data then have a column of that
name, for `ddefind fit --group`; those of --values are written beside them. --noise is a
share of the standard deviation, as 0.05, or a kind with its numbers, as
"lognormal(1.1)", "poisson", or hare=poisson.

{EXIT_CODES}
"""


@opt.takes(
    *("equation", "model", "history", "observe", "set"),
    *("values", "inputs", "input_kind", "doses"),
)
def simulate(
    given: dict[str, Any],
    experiments: opt.Experiments = None,
    T: opt.LastTime = "10",
    points: opt.Points = "101",
    noise: opt.Noise = None,
    seed: opt.Seed = "0",
    out: opt.File = None,
    quiet: opt.Quiet = False,
) -> None:
    """Solve an equation and write noisy data, as a test for a fit."""
    columns = given["values"] or []
    last, count = parse_real("--T", T), parse_whole("--points", points, 2)
    whole_seed = parse_whole("--seed", seed)
    noise_text = parse_by_name("--noise", noise or ())
    if experiments is None and columns:
        raise OptionError("`--values` goes with `--experiments FILE.csv`.")
    if out is not None and out.is_file():
        if not out.read_bytes().startswith(_WRITTEN.encode()):
            raise OptionError(
                f"`--out`: {file_name(out)} was not written by `ddefind simulate`. "
                "Choose another file."
            )
    with quick_start():
        from .output_folder import study_csv
        from .simulated_data import simulated_experiments

        group, made = simulated_experiments(
            given, experiments, last, count, noise_text, whole_seed
        )
        text = made[0].data.csv() if group is None else study_csv(group, made, columns)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, f"{_WRITTEN}\n{text}")
    for each in made:
        label = "" if group is None else f", {each.label}"
        say(f"{out or 'Standard output'}{label}: {each.data}", quiet)


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
) -> int:
    """Compare the gradients of a model with finite differences."""
    whole_seed = parse_whole("--seed", seed)
    with quick_start():
        from .simulated_data import gradients_at

        compared = gradients_at(given, data, whole_seed)
    routes = ("Discrete", "Forward")
    largest_error = max(float(compared.errors(route).max()) for route in routes)
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
    return 0 if is_right else DOUBTFUL
