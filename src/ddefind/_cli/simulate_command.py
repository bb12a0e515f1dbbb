"""`ddefind simulate`: solve an equation and write noisy data."""

import typer

from .._util.text_files import write_whole
from . import options as opt
from .messages import EXIT_CODES, Messages, errors_as_messages
from .parse_options import (
    OptionError,
    parse_assignments,
    parse_by_name,
    parse_history,
    parse_inputs,
    parse_names,
    parse_real,
    parse_whole,
)
from .startup import quick_start

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


def simulate(
    equation: opt.Equation = None,
    model: opt.Model = None,
    history: opt.History = None,
    observe: opt.Observe = None,
    known: opt.Known = None,
    experiments: opt.Experiments = None,
    values: opt.KnownColumns = None,
    inputs: opt.Inputs = None,
    input_kind: opt.InputKind = None,
    doses: opt.Doses = None,
    T: opt.LastTime = "10",
    points: opt.Points = "101",
    noise: opt.Noise = None,
    seed: opt.Seed = "0",
    out: opt.File = None,
    quiet: opt.Quiet = False,
) -> None:
    """Solve an equation and write noisy data, as a test for a fit."""
    with errors_as_messages():
        given = parse_assignments("--set", known or ())
        inputs_by_name = parse_inputs(inputs or ())
        columns = parse_names(values or ())
        places = parse_by_name("--doses", doses or ())
        kinds = parse_by_name("--input-kind", input_kind or ())
        option = parse_by_name("--noise", noise or ())
        history_setting = parse_history(history or ())
        last, count = parse_real("--T", T), parse_whole("--points", points, 2)
        whole_seed = parse_whole("--seed", seed)
        if experiments is None and columns:
            raise OptionError("`--values` goes with `--experiments FILE.csv`.")
        with quick_start():
            from .._solve.solution import check_time
            from .model_file import observed_names, problem_at, read_model
            from .noise_option import simulated_noise
            from .simulated_data import simulated
            from .simulated_study import check_values, read_conditions, study_csv

            chosen_model = read_model(
                equation, model, history_setting, observe, tuple(inputs_by_name)
            )
            group, conditions = read_conditions(
                chosen_model,
                experiments,
                inputs_by_name,
                kinds,
                places,
                check_time(last, "--T"),
            )
            check_values(conditions, columns)
            names = observed_names(chosen_model)
            drawn = simulated_noise(option, names)
            made = []
            for number, each in enumerate(conditions):
                problem = problem_at(
                    chosen_model,
                    {**given, **each.values},
                    {},
                    inputs=each.inputs,
                    doses=each.doses,
                )
                made.append(
                    simulated(problem, last, count, drawn, whole_seed + number, names)
                )
            text = made[0].csv()
            if group is not None:
                text = study_csv(group, list(zip(conditions, made)), columns)
        if out is None:
            typer.echo(text, nl=False)
        else:
            write_whole(out, text)
        for each, data in zip(conditions, made):
            label = "" if group is None else f", {each.label}"
            Messages(quiet).say(f"{out or 'Standard output'}{label}: {data}")
