"""Reading the model of a command: the text of an equation, or a Python file."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

import ddefind as dd

from .._equation.history_kinds import CHOSEN_BY_FIT
from .._problem.parameters import free_parameters, parameter_arrays
from .._util.errors import did_you_mean, quoted
from .._util.files import file_name, read_text
from .parse_options import is_equation_file


def read_model(settings: Mapping[str, Any]) -> "dd.Equation | dd.Problem":
    """Return the model of settings: an `equation`, or a `model`, which is a file with
    the text of one or `FILE.py:NAME`; with `history`, `observe` and `inputs`."""
    text, place = settings["equation"], settings["model"]
    history, observe = settings["history"], settings["observe"]
    inputs = tuple(settings.get("inputs", ()))
    if text is None and place is not None and is_equation_file(place):
        text, _ = read_text(place)
    if text is not None:
        return dd.equation(text, history=history, observe=observe, inputs=inputs)
    if place is None:
        raise ValueError("Give a model: `--equation TEXT` or `--model FILE`.")
    model = _from_file(place)
    if observe is not None:
        raise ValueError(
            "`--observe` goes with `--equation`: a model in a file has its own "
            "observations."
        )
    if history is None:
        return model
    if isinstance(model, dd.Problem):
        raise ValueError("`--history` is for equations: a `Problem` has its own.")
    return model.with_history(history)


def _from_file(place: str) -> "dd.Equation | dd.Problem":
    """Return the model `FILE.py:NAME`; a function of that name is called."""
    path, colon, name = place.rpartition(":")
    if not colon or not path or not name.isidentifier():
        raise ValueError(
            f"`--model` needs a text file with an equation, or FILE.py:NAME, as "
            f"model.py:problem, but got {place!r}."
        )
    namespace = vars(_run_file(Path(path)))
    if name not in namespace:
        known = [n for n in namespace if not n.startswith("_")]
        raise ValueError(f"{path} has no {name!r}.{did_you_mean(name, known)}")
    model = namespace[name]
    if callable(model) and not isinstance(model, dd.Equation | dd.Problem):
        model = _call_user_code(Path(path), model)
    if not isinstance(model, dd.Equation | dd.Problem):
        raise ValueError(
            f"{place} must be an Equation, a Problem or a function that returns one, "
            f"but it is {type(model).__name__}: {quoted(repr(model))}."
        )
    return model


def _run_file(path: Path) -> ModuleType:
    """Run a Python file and return it as a module. It can import files beside it."""
    read_text(path)  # raises an error that says what is wrong with the file
    spec = spec_from_file_location(f"_ddefind_model_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file_name(path)} is not a Python file: its name needs .py.")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        _call_user_code(path, lambda: spec.loader.exec_module(module))  # type: ignore
    finally:
        sys.path.pop(0)
    return module


def _call_user_code(path: Path, call: Callable[[], Any]) -> Any:
    """Call, with an error in the user's file as a ValueError that names its line."""
    try:
        return call()
    except Exception as error:
        frames = [(f.filename, f.lineno) for f in extract_tb(error.__traceback__)]
        if isinstance(error, SyntaxError):
            frames.append((str(error.filename), error.lineno))
        user_file = path.resolve()
        lines = [line for name, line in frames if Path(name).resolve() == user_file]
        where = f", line {lines[-1]}" if lines else ""
        kind = type(error).__name__
        raise ValueError(f"{file_name(path)}{where}: {kind}: {error}") from None


def problem_at(
    model: "dd.Equation | dd.Problem",
    given: Mapping[str, Any],
    others: Mapping[str, float],
    *,
    inputs: Mapping[str, Any] | None = None,
    doses: Sequence[Any] = (),
) -> "dd.Problem":
    """Return the problem with the values `given` by name, and with those of `others`
    for parameters that have none. Refuse parameters that are in neither. `inputs` and
    `doses` are for equations."""
    if isinstance(model, dd.Problem):
        if inputs or doses:
            raise ValueError(
                "Inputs and doses are for equations: a `Problem` has its own."
            )
        return free_parameters(
            model, {name: dd.Fixed(value) for name, value in given.items()}
        )[1]
    if inputs:
        model = model.with_inputs(inputs)
    if doses:
        model = model.with_doses(doses)
    check_no_networks(model)
    added = {name: others.get(name) for name in unknown(model, given)}
    lacking = [name for name, value in added.items() if value is None]
    if lacking:
        raise ValueError(
            f"These parameters need a value: {', '.join(lacking)}. Give them, as "
            f"`--set {lacking[0]}=1`."
        )
    return model.problem({**added, **given})


def check_no_networks(model: "dd.Equation | dd.Problem") -> None:
    """Refuse an equation with networks, which have no values before a fit."""
    if isinstance(model, dd.Equation) and model.network_names:
        listed = ", ".join(f"{name}(...)" for name in model.network_names)
        raise ValueError(
            f"The equation has an unknown function, {listed}, which has no values "
            "before it is learned from data. Fit it with `ddefind fit ... --out "
            "FOLDER`, and solve it with `ddefind predict FOLDER`."
        )


def names_in_equation(model: "dd.Equation | dd.Problem") -> list[str]:
    """Return the parameters of an equation and of its observed quantities."""
    if isinstance(model, dd.Problem):
        raise ValueError(
            "`--positive all` goes with equations. For a `Problem` give the names of "
            "its parameters."
        )
    networks = [[name] for name in model.network_names]
    return [
        array.short
        for array in _arrays(model)
        if array.role is None
        and not array.name.startswith("history.")
        and array.name.split(".")[1:2] not in networks
        and array.name not in model.settings
    ]


def names_of_parameters(model: "dd.Equation | dd.Problem") -> set[str]:
    """Return all names of the parameters, without a delay that nothing depends on."""
    names = {name for array in _arrays(model) for name in (array.short, array.name)}
    has_delay = isinstance(model, dd.Problem) or model.needs_tau
    return names if has_delay else names - {"tau"}


def _arrays(model: "dd.Equation | dd.Problem") -> list[Any]:
    """Return the arrays of parameters, with a constant history if a fit chooses it."""
    if isinstance(model, dd.Problem):
        return parameter_arrays(model)
    if model.history in CHOSEN_BY_FIT:
        model = model.with_history("constant")
    return parameter_arrays(model.blank, model.settings)


def observed_names(model: "dd.Equation | dd.Problem") -> tuple[str, ...] | None:
    """Return the names of the measured quantities; None for a `Problem`."""
    return model.observed if isinstance(model, dd.Equation) else None


def unknown(model: "dd.Equation | dd.Problem", given: Mapping[str, Any]) -> list[str]:
    """Return the parameters of a model that have no value and are not `given`."""
    if isinstance(model, dd.Problem):
        return []
    # `b` gives all of b[0], b[1], ..., and `history.b` is another name of b.
    known = {name.split(".")[-1] for name in given}
    return [name for name in model.required if not {name, name.split("[")[0]} & known]
