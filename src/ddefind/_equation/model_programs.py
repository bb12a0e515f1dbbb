"""The programs of a whole model: one for each part of its problem."""

from .._problem.free_parameters import is_name
from .formula_modules import FormulaProgram, ModuleKind, delay_program, make_program
from .model_lines import ModelLines


def programs_of(lines: ModelLines) -> dict[str, FormulaProgram]:
    """The formulas of the parts of a problem, by the paths of their parameters.

    These are the right-hand side, the delays that are formulas, the history, the state
    at time zero and the observation."""
    rhs = make_program("rhs", lines)
    delays = {
        delay_path(key): delay_program(rhs, delay)
        for key, delay in rhs.delays_by_text.items()
        if rhs.has_several_delays and not rhs.is_number(delay)
    }
    kinds: tuple[ModuleKind, ...] = ("history", "initial", "observe")
    others = {kind: make_program(kind, lines) for kind in kinds}
    return {"rhs": rhs, **delays, **others}


def delay_path(key: str) -> str:
    """The path of a delay in the problem: `tau.lag`, or `tau['2 * lag']`."""
    return f"tau.{key}" if is_name(key) else f"tau[{key!r}]"
