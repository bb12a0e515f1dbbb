"""`ddefind simulate`: solve an equation and write noisy data."""

import typer

from . import options as opt
from .messages import EXIT_CODES, Messages, errors_as_messages
from .parse_options import parse_assignments, parse_history, parse_real, parse_whole
from .startup import quick_start

SIMULATE_EXAMPLES = f"""\
\b
Example:
  ddefind simulate -e "x' = r * x * (1 - x(t - tau) / K)" --set r=1.8 --set K=2.5 \\
    --set tau=0.8 --history 0.5 --T 20 --points 120 --noise 0.05 --out data.csv

\b
A history has parameters, too: b of a constant one, a and b of an affine one (a t + b),
A, omega and b of a periodic one. `--history affine --set a=0.1 --set b=2` gives them.

{EXIT_CODES}
"""


def simulate(
    equation: opt.Equation = None,
    model: opt.Model = None,
    history: opt.History = None,
    observe: opt.Observe = None,
    known: opt.Known = None,
    T: opt.LastTime = "10",
    points: opt.Points = "101",
    noise: opt.Noise = "0",
    seed: opt.Seed = "0",
    out: opt.File = None,
    quiet: opt.Quiet = False,
) -> None:
    """Solve an equation and write noisy data, as a test for a fit."""
    with errors_as_messages():
        values = parse_assignments("--set", known or ())
        history_setting = parse_history(history or ())
        last, count = parse_real("--T", T), parse_whole("--points", points, 2)
        share, whole_seed = parse_real("--noise", noise), parse_whole("--seed", seed)
        with quick_start():
            from .model_file import observed_names, problem_at, read_model
            from .simulated_data import simulated

            chosen_model = read_model(equation, model, history_setting, observe)
            problem = problem_at(chosen_model, values, {})
            names = observed_names(chosen_model)
            data = simulated(problem, last, count, share, whole_seed, names)
        if out is None:
            typer.echo(data.csv(), nl=False)
        else:
            data.to_csv(out)
        Messages(quiet).say(f"{out or 'Standard output'}: {data}")
