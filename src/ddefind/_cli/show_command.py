"""`ddefind show`: print a fit that was saved earlier."""

from typing import Any

import typer

from .._results.saved_file import read_saved
from . import options as opt
from .discovery_files import sentences_in
from .messages import errors_as_messages, print_json


def show(result: opt.Result, as_json: opt.Json = False) -> None:
    """Show a fit that was written earlier."""
    with errors_as_messages():
        content = read_saved(result)
        try:
            if as_json:
                print_json(printed_as_json(content))
            else:
                said = sentences_in(result if result.is_dir() else result.parent)
                typer.echo("\n".join([_text(content), *([""] if said else []), *said]))
        except (KeyError, TypeError):
            raise ValueError(f"{result}: its parts do not belong together.") from None


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
    """Return the parts of a saved fit that `--json` prints. The others, such as the
    data, are only in the file."""
    names = ("kind", "table", "noise", "loss", "status", "message", "seconds")
    return {name: content[name] for name in (*names, "problem") if name in content}
