"""The format of saved fits: every field, its type and its size.

The sizes are p, the number of free parameters, and p+1; N, the number of times; k, the
number of measured quantities; and d, that of states. `docs/reference/saved-fits.md`
explains the fields."""

from typing import Any, final

from .._inference.identifiability import VERDICTS
from .._inference.profile_end import BREAKDOWNS
from .._util import wording
from .._util.errors import ResultError
from .fields import (
    AbstractField,
    Array,
    ByType,
    Flag,
    Many,
    Maybe,
    Named,
    Real,
    Record,
    Row,
    Sizes,
    Text,
    Whole,
)
from .status import Status


@final
class _DescribedProblem(AbstractField):
    """A description of a problem, or null."""

    def read(self, value: Any, where: str, sizes: Sizes) -> Any:
        return _read_problem(value)


_ARGUMENTS = Named(ByType({int: Whole(), bool: Flag(), float: Real()}))
# A class of the package, the shapes of its arrays, and its other arguments.
_MODULE = Record(
    {
        "class": Text(),
        "shapes": Named(Array(int, "axes")),
        "arguments": _ARGUMENTS,
    }
)
_EQUATION = Record(
    {
        "equation": Text(),
        "history": Maybe(ByType({str: Text(), list: Array(float, "d"), dict: _MODULE})),
        "observe": Maybe(Text()),
    }
)
# What an equation with networks has beside.
_NETWORKS = Record({"networks": Named(_ARGUMENTS)})
_QUANTITY = Record({"numbers": Array(float, "times"), "name": Maybe(Text())})
# What an equation with inputs or doses has beside.
_DRIVING = Record(
    {
        "inputs": Named(
            Record(
                {
                    "kind": Text(("linear", "steps", "cubic", "formula")),
                    "t": Array(float, "knots"),
                    "values": Array(float, "knots"),
                    "text": Text(),
                }
            )
        ),
        "doses": Many(
            Record(
                {
                    "state": Whole(),
                    "is_set": Flag(),
                    "times": _QUANTITY,
                    "amounts": _QUANTITY,
                    "duration": Maybe(_QUANTITY),
                }
            )
        ),
    }
)
_MODULES = Record(
    {
        "rhs": _MODULE,
        "history": _MODULE,
        "tau": Maybe(_MODULE),
        "initial": Maybe(Whole(1)),
    }
)
_DATA = Record(
    {
        "t": Array(float, "N"),
        "x": Array(float, "N", "k"),
        "sd": Maybe(Array(float, "N", "k")),
        "names": Many(Text(), "k"),
        "label": Maybe(Text()),
        "origin": ByType({str: Text(), float: Real(), int: Real()}),
        "notes": Many(Text()),
        "axis_labels": Maybe(Many(Text(), "k+1")),
        "below": Maybe(Array(bool, "N", "k")),
    }
)
# An array of parameters. Of a least-squares fit, `free` says which free parameter each
# element is (-1: none), and `like` which element it equals.
_ARRAY = {
    "name": Text(),
    "short": Text(),
    "shape": Array(int, "axes"),
    "values": Array(float, "elements"),
}
_FREE_ARRAY = {
    **_ARRAY,
    "free": Array(int, "elements"),
    "like": Array(int, "elements"),
}
# The scales of a network.
_SCALES = Record(
    {
        "center": Array(float, "inputs"),
        "scale": Array(float, "inputs"),
        "size": Array(float, "outputs"),
        "offset": Array(float, "outputs"),
    }
)
_CELL = ByType({str: Text(), float: Real(), int: Real(), bool: Flag()})
_COMMON = {
    "text": Text(),
    "status": Text(tuple(status.name for status in Status)),
    "message": Text(),
    "loss": Real(),
    "seconds": Real(low=0.0),
    "solver": Text(),
    "tolerances": Maybe(Record({"rtol": Real(), "atol": Maybe(Real())})),
    "steps_per_delay": Whole(1),
    "data": _DATA,
    "table": Many(Named(Maybe(_CELL))),
    "networks": Many(_SCALES),
}
_SEARCH = Record(
    {
        "best": Record(
            {
                "z": Array(float, "p"),
                "gram": Array(float, "p+1", "p+1"),
                "squares": Array(float, "k"),
                "evaluations": Whole(),
                "status": Whole(high=8),
                "n": Whole(1),
                "rounding": Real(low=0.0),
                "starts": Whole(),
            }
        ),
        "weights": Array(float, "N", "k"),
        "noise": Array(float, "k"),
        "minima": Many(Row([Array(float, "p"), Real(), Whole()])),
        "starts": Whole(1),
        "evaluations": Whole(),
        "step_error": Real(),
        "interrupted": Flag(),
    }
)
_PROFILE = Record(
    {
        "name": Text(),
        "estimate": Real(),
        "quantile": Real(low=0.0),
        "interval": Row([Real(), Real()]),
        "reached": Row([Real(), Real()]),
        "values": Array(float, "points"),
        "r": Array(float, "points"),
        "z": Array(float, "points", "p"),
        "breakdown": Row([Text(BREAKDOWNS), Text(BREAKDOWNS)]),
    }
)
_ASSESSMENT = Record(
    {
        "verdicts": Many(Row([Text(VERDICTS), Text(), Text()]), "p"),
        "ties": Many(Row([Real(), Array(float, "p")])),
        "fitted": Array(float, "N", "k"),
        "checks": Many(Row([Text(), Text(), Real(), Real(low=0.0)])),
        "other_history": Maybe(Row([Text(), Real(), Real(), Real(low=0.0), Flag()])),
        "level": Real(low=0.0),
        "explained": Maybe(Row([Many(Real(), "k"), Many(Real(), "k"), Flag()])),
    }
)
# The process noise of a fit by multiple shooting, and the path at its nodes.
_PROCESS = Record(
    {
        "sd": Array(float, "d"),
        "is_relative": Flag(),
        "levels": Whole(1),
        "log_likelihood": Real(),
        "t": Array(float, "nodes"),
        "x": Array(float, "nodes", "d"),
        "fitted": Array(float, "N", "k"),
        "residuals": Array(float, "N", "k"),
    }
)
# The experiments of a study. `names` are the free parameters of one experiment, `own`
# says which of them each experiment has for itself, `place` which joint one each is
# (-1: it is known there), and `known` its value where it is known.
_STUDY = Record(
    {
        "names": Many(Text(), "local"),
        "own": Array(bool, "local"),
        "place": Array(int, "experiments", "local"),
        "known": Array(float, "experiments", "local"),
        "experiments": Many(
            Record(
                {
                    "label": Text(),
                    "count": Whole(2),
                    "origin": ByType({str: Text(), float: Real(), int: Real()}),
                    "notes": Many(Text()),
                    "axis_labels": Many(Text(), "k+1"),
                    "values": Array(float, "all"),
                    "problem": _DescribedProblem(),
                }
            ),
            "experiments",
        ),
    }
)
_ESTIMATE = Record(
    {
        **_COMMON,
        "parameters": Many(Record(_FREE_ARRAY)),
        "noise": Named(Real(low=0.0)),
        # The noise models by quantity, with the parameters that are known.
        "noise_models": Maybe(
            Named(Record({"model": Text(), "known": Named(Real(low=0.0))}))
        ),
        "options": Record(
            {
                "starts": Whole(1),
                "seed": Whole(low=-(2**53)),
                "steps_per_delay": Whole(1),
                "mesh": Flag(),
            }
        ),
        "free": Record(
            {
                "names": Many(Text(), "p"),
                "lower": Array(float, "p"),
                "upper": Array(float, "p"),
                "given": Array(bool, "sides", "p"),
                "guess": Array(float, "p"),
                "history": Array(bool, "p"),
                "frequencies": Array(bool, "p"),
                "priors": Maybe(
                    Row([Array(float, "p"), Array(float, "p"), Array(bool, "p")])
                ),
            }
        ),
        "histories": Many(Row([Text(), Real()])),
        "search": _SEARCH,
        "profiles": Maybe(Many(_PROFILE, "p")),
        "assessment": Maybe(_ASSESSMENT),
        "process": Maybe(_PROCESS),
        "study": Maybe(_STUDY),
    }
)
_DESCENT = Record(
    {
        **_COMMON,
        "parameters": Many(Record(_ARRAY)),
        "start": Array(float, "all"),
        "free": Record(
            {
                "names": Many(Text(), "p"),
                "first": Array(float, "p"),
                "best": Array(float, "p"),
                "final": Array(float, "p"),
            }
        ),
        "losses": Array(float, "rows"),
        "path": Maybe(Array(float, "rows", "p")),
        "epochs": Whole(),
    }
)
_KINDS = {"estimate": _ESTIMATE, "descent": _DESCENT}


def read_content(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a saved fit, every field checked, with lists as arrays."""
    kind = Text(tuple(_KINDS)).read(content.get("kind"), "kind", {})
    names = content.get("free", {})
    names = names.get("names") if isinstance(names, dict) else None
    if not isinstance(names, list):
        raise ResultError("`free.names` must be a list.")
    sizes: Sizes = {"p": len(names), "p+1": len(names) + 1, "sides": 2}
    options = content.get("options")
    if isinstance(options, dict) and options.get("huber") is not None:
        raise ResultError(wording.instead_of_huber("`options.huber`"))
    read = _KINDS[kind].read(content, "", sizes)
    return {**read, "kind": kind, "problem": _read_problem(content.get("problem"))}


def _read_problem(described: Any) -> dict[str, Any] | None:
    if described is None:
        return None
    is_text = isinstance(described, dict) and "equation" in described
    read = (_EQUATION if is_text else _MODULES).read(described, "problem", {})
    if is_text and "networks" in described:
        read |= _NETWORKS.read(described, "problem", {})
    if is_text and "inputs" in described:
        read |= _DRIVING.read(described, "problem", {})
    return read
