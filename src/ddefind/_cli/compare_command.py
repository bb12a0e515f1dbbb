"""`ddefind compare`: compare fits of the same data."""

import typer

from . import options as opt
from .messages import EXIT_CODES, errors_as_messages, print_json
from .parse_options import OptionError
from .startup import quick_start

COMPARE_EXAMPLES = f"""\
\b
Example:
  ddefind fit data.csv -e "x' = r * x * (1 - x(t - tau) / K)" --out delayed
  ddefind fit data.csv -e "x' = r * x * (1 - x / K)" --out plain
  ddefind compare delayed plain

\b
Prints the information criteria of each fit, the lowest BIC first. All fits must be of
the same data. The code of a model in a file (--model) is run.

{EXIT_CODES}
"""


def compare(results: opt.Results, as_json: opt.Json = False) -> None:
    """Compare fits of the same data, best first."""
    with errors_as_messages():
        labels = [str(result) for result in results]
        repeated = [label for label in labels if labels.count(label) > 1]
        if repeated:
            raise OptionError(f"{repeated[0]} is given twice.")
        if len(results) < 2:
            raise OptionError("Give at least two fits, as `ddefind compare A B`.")
        with quick_start():
            import ddefind as dd

            from .saved_fits import load_fit

            compared = dd.compare({str(each): load_fit(each) for each in results})
        if as_json:
            print_json(compared.cells().values)
        else:
            typer.echo(str(compared))
