"""Names that occur in several parts of a model: they are one parameter."""

from collections.abc import Mapping
from typing import Any

from .._problem.doses import Doses
from .._problem.parameters import Tied
from .expression import Name
from .formula_modules import FormulaProgram


def ties_of(programs: Mapping[str, FormulaProgram], doses: Doses | None) -> Any:
    """The parameters that are tied to the first with the same name, by their full
    names. `programs` are the formulas of the parts of a problem."""
    rhs, first = programs["rhs"], {"tau": "tau"}
    if rhs.has_several_delays:
        # The parameter of a neutral delay with a name is a field of the delay.
        first = {
            key: f"tau.{key}" if rhs.is_number(delay) else f"tau.{key}.{key}"
            for key, delay in rhs.delays_by_text.items()
            if isinstance(delay, Name)
        }
    places = [
        (name, f"{place}.{name}")
        for place, program in programs.items()
        for name in program.parameters
    ]
    if doses is not None:
        places += [(name, f"doses.values.{name}") for name in doses.values]
    return {
        path: Tied(first[name])
        for name, path in places
        if first.setdefault(name, path) != path
    }
