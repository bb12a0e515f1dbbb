"""`ddefind simulate`: solve an equation and write noisy data."""

from pathlib import Path
from typing import Any

import typer

from .._util.files import file_name, write_whole
from . import options as opt
from .messages import EXIT_CODES, Messages, quick_start
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
    if out is not None:
        _check_replaceable(out)
    with quick_start():
        from .model_file import read_model
        from .simulated_data import simulated_experiments, study_csv

        model = read_model(given)
        group, made = simulated_experiments(
            model, given, experiments, last, count, noise_text, whole_seed
        )
        text = made[0].data.csv() if group is None else study_csv(group, made, columns)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, f"{_WRITTEN}\n{text}")
    for each in made:
        label = "" if group is None else f", {each.label}"
        Messages(quiet).say(f"{out or 'Standard output'}{label}: {each.data}")


def _check_replaceable(file: Path) -> None:
    """Refuse to replace a file that holds anything else than simulated data."""
    if file.is_file() and not file.read_bytes().startswith(_WRITTEN.encode()):
        raise OptionError(
            f"`--out`: {file_name(file)} was not written by `ddefind simulate`. Choose "
            "another file."
        )
