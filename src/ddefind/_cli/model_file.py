"""The model that a user names: a text, or an object in a Python file."""

import sys
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from typing import Any

from .._equation.equation import Equation, equation
from .._problem.parameters import Fixed, free_parameters
from .._problem.problem import Problem
from .._util.errors import did_you_mean, quoted
from .._util.text_files import file_name, read_text


def read_model(
    text: str | None, place: str | None, history: Any, observe: str | None
) -> Equation | Problem:
    """The model of `--equation TEXT` or `--model FILE.py:NAME`."""
    if text is not None:
        return equation(text, history=history, observe=observe)
    if place is None:
        raise ValueError("Give a model: `--equation TEXT` or `--model FILE.py:NAME`.")
    model = _from_file(place)
    if observe is not None:
        raise ValueError("`--observe` goes with `--equation`; the file says it itself.")
    if history is None:
        return model
    if isinstance(model, Problem):
        raise ValueError("`--history` is for equations; the problem has its own.")
    return model.with_history(history)


def _from_file(place: str) -> Equation | Problem:
    path, colon, name = place.rpartition(":")
    if not colon or not path or not name.isidentifier():
        raise ValueError(
            f"`--model` needs FILE.py:NAME, as model.py:problem, but got {place!r}."
        )
    namespace = vars(_executed(Path(path)))
    if name not in namespace:
        known = [n for n in namespace if not n.startswith("_")]
        raise ValueError(f"{path} has no {name!r}.{did_you_mean(name, known)}")
    found = namespace[name]
    if callable(found) and not isinstance(found, Equation | Problem):
        found = _guarded(Path(path), found)
    if not isinstance(found, Equation | Problem):
        raise ValueError(
            f"{place} must be an Equation, a Problem or a function that returns one, "
            f"but it is {type(found).__name__}: {quoted(repr(found))}."
        )
    return found


def _executed(path: Path) -> Any:
    """The module that a file is; its neighbours can be imported by it."""
    read_text(path)  # says what is wrong with the file
    spec = spec_from_file_location(f"_ddefind_model_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file_name(path)} is not a Python file: its name needs .py.")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # classes look up their module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        _guarded(path, lambda: spec.loader.exec_module(module))  # type: ignore
    finally:
        sys.path.pop(0)
    return module


def _guarded(path: Path, call: Any) -> Any:
    """The result of the user's code; an error in it is told with its line."""
    try:
        return call()
    except Exception as error:
        frames = [(f.filename, f.lineno) for f in extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError):
            frames.append((str(error.filename), error.lineno))
        own = path.resolve()
        lines = [line for name, line in frames if Path(name).resolve() == own]
        where = f", line {lines[-1]}" if lines else ""
        kind = type(error).__name__
        raise ValueError(f"{file_name(path)}{where}: {kind}: {error}") from None


def problem_at(
    model: Equation | Problem, given: Mapping[str, Any], others: Mapping[str, float]
) -> Problem:
    """The problem with the values that are given, and `others` for what has none."""
    if isinstance(model, Problem):
        return free_parameters(
            model, {name: Fixed(value) for name, value in given.items()}
        )[1]
    lacking = [name for name in unknown(model, given) if name not in others]
    if lacking:
        raise ValueError(
            f"These parameters need a value: {', '.join(lacking)}. Give them, as "
            f"`--set {lacking[0]}=1`."
        )
    more = {name: others[name] for name in unknown(model, given)}
    return model.problem({**more, **given})


def observed_names(model: Equation | Problem) -> tuple[str, ...] | None:
    """What the model calls the measured quantities, if it has names for them."""
    return model.observed if isinstance(model, Equation) else None


def unknown(model: Equation | Problem, given: Mapping[str, Any]) -> list[str]:
    """The parameters that have no value, and are not given one."""
    if isinstance(model, Problem):
        return []
    # `b` stands for b[0], b[1] ..., and `history.b` for b.
    known = {name.split(".")[-1] for name in given}
    return [name for name in model.required if not {name, name.split("[")[0]} & known]
