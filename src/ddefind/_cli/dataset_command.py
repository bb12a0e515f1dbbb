"""`ddefind dataset`: print or write a table that comes with the package."""

from typing import Annotated

import typer

from .._util.text_files import write_whole
from ..datasets._files import NAMES, path
from . import options as opt
from .messages import EXIT_CODES, errors_as_messages

DATASET_EXAMPLES = f"""\
\b
Example:
  ddefind dataset
  ddefind dataset lynx_hare --out lynx.csv
  ddefind fit lynx.csv -e "hare' = a * hare - c * hare * lynx;
    lynx' = e * hare(t - tau) * lynx(t - tau) - d * lynx" --out result

{EXIT_CODES}
"""
_Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        help="The data set. Without it, all are listed.",
        autocompletion=opt.offer(NAMES),
        show_default=False,
    ),
]


def dataset(name: _Name = None, out: opt.File = None) -> None:
    """List the classic data sets of the package, or write one as a CSV file."""
    with errors_as_messages():
        if name is None:
            width = max(map(len, NAMES))
            for each, what in NAMES.items():
                typer.echo(f"{each:<{width}}  {what}")
            return
        text = path(name).read_text(encoding="utf-8")
        if out is None:
            typer.echo(text, nl=False)
        else:
            write_whole(out, text)
            typer.echo(f"{out}: {NAMES[name]}", err=True)
