"""`ddefind show`: print a saved fit; and `ddefind compare`: compare fits of the same
data."""

import json
from pathlib import Path
from typing import Any

import typer

import ddefind as dd

from .._results.saved_file import read_saved
from . import options as opt
from .messages import EXIT_CODES, errors_as_messages, print_json, quick_start
from .parse_options import OptionError


def show(result: opt.Result, as_json: opt.Json = False) -> None:
    """Show a fit that was written earlier."""
    with errors_as_messages():
        content = read_saved(result)
        try:
            if as_json:
                print_json(printed_as_json(content))
            else:
                found = _sentences_in(result if result.is_dir() else result.parent)
                blank = [""] if found else []
                typer.echo("\n".join([_text(content), *blank, *found]))
        except (KeyError, TypeError):
            raise ValueError(f"{result}: its parts do not belong together.") from None


def _sentences_in(folder: Path) -> list[str]:
    """Return the sentences of the discovery whose fit is in a folder; none if there was
    no discovery, or if its file cannot be read."""
    try:
        text = (folder / opt.DISCOVERY.format("json")).read_text("utf-8")
        found = json.loads(text)["sentences"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [sentence for sentence in found if isinstance(sentence, str)]


def _text(content: dict[str, Any]) -> str:
    """Return the model, the data in one line, and the table of a saved fit."""
    lines = []
    problem = content["problem"] or {}
    if "equation" in problem:
        lines += problem["equation"].split("; ")
        for name in ("history", "observe"):
            if isinstance(problem[name], str | list):
                lines.append(f"# {name}: {problem[name]}")
    data = content["data"]
    label = data["label"] or "data"
    times, names = len(data["t"]), ", ".join(data["names"])
    lines += [f"# {label}: {times} times, {names}", "", content["text"]]
    return "\n".join(lines)


def printed_as_json(content: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a saved fit that `--json` prints: not the data, for one."""
    names = ("kind", "table", "noise", "loss", "status", "message", "seconds")
    return {name: content[name] for name in (*names, "problem") if name in content}


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
            from .output_folder import load_fit

            compared = dd.compare({str(each): load_fit(each) for each in results})
        if as_json:
            print_json(compared.cells().values)
        else:
            typer.echo(str(compared))
