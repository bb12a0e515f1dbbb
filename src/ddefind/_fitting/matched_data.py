"""Data as a fit needs them: with the quantities of the model, and with times that begin
where the history ends."""

from .._data.data import Data
from .._equation.equation import Equation
from .._problem.problem import Problem
from .._util import wording
from .._util.errors import DataError, check_instance, quoted

# Data that begin after more than so many lengths of the record are far from time zero.
_FAR = 20.0


def matched_data(problem: Problem, equation: Equation | None, data: Data) -> Data:
    """The data with a column for each quantity that an equation observes, and with
    times that are counted from the first one where the history is meant to end."""
    if equation is not None:
        check_instance("data", data, Data, "Data(t, x)")
        _check_names(equation, data)
        data = data.select(equation.observed)
    return _from_first_time(problem, data)


def _check_names(equation: Equation, data: Data) -> None:
    """Refuse a single column that has the name of a state but would be taken for
    another quantity, which is computed from the states."""
    (name, *others), observed = data.names, equation.observed
    is_renamed = not others and len(observed) == 1 and name not in observed
    if not (is_renamed and data.has_given_names and name in equation.states):
        return
    raise DataError(
        f"Column {quoted(name)} has the name of a state, but the model observes "
        f"{quoted(observed[0])}. Name the column {quoted(observed[0])} if it holds "
        "that, and transform its values first if it does not."
    )


def _from_first_time(problem: Problem, data: Data) -> Data:
    """The data, with times that are counted from the first one if they begin later than
    one length of the record, and the equation is the same at all times: the history is
    meant to end where the data begin. If the equation depends on time, data that begin
    far from zero are refused."""
    check_instance("data", data, Data, "Data(t, x)")
    first, length = float(data.t[0]), float(data.T - data.t[0])
    if len(data) < 2 or first <= length:
        return data
    if problem.is_autonomous:
        return data.from_first_time()
    if first > _FAR * length:
        raise ValueError(
            f"The first measurement is at t = {first:.6g}, but the history ends at "
            "time 0: the equation would have to be solved over "
            f"{first / length:.0f} lengths of the record before there is anything to "
            f"compare. {wording.later_time_zero(f'{first:.15g}')}, and write "
            f"t + {first:.15g} for t in the equation."
        )
    return data
