"""The format of saved fits: every field, its type and its size, checked on reading.

`docs/reference/saved-fits.md` explains the fields. A kind of field reads what JSON
holds and returns it as Python and NumPy have it. A value of another type, range or size
is a `ResultError` that names the field. Every element of an array stands in the file,
so that no file can ask for more memory than its own length.

Sizes have names: within a record, the first field that uses a name sets it, and all
others must agree. They are p, the number of free parameters, and p+1; N, the number of
times; k, the number of measured quantities; and d, that of states."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from .._inference.identifiability import VERDICTS
from .._inference.profile import BREAKDOWNS
from .._util.errors import ResultError, quoted
from .status import Status

Sizes = dict[str, int]
_WORDS = ("NaN", "Infinity", "-Infinity")


def _refuse(where: str, wanted: str, value: Any) -> ResultError:
    return ResultError(f"`{where}` must be {wanted}, but is {quoted(repr(value))}.")


class AbstractField(abc.ABC):
    """A kind of field."""

    @abc.abstractmethod
    def read(self, value: Any, where: str, sizes: Sizes) -> Any:
        """Check and return the value of the field called `where`."""


@final
@dataclass(frozen=True)
class Words(AbstractField):
    """A text; one of `choices` where there are any."""

    choices: tuple[str, ...] = ()

    def read(self, value: Any, where: str, sizes: Sizes) -> str:
        if not isinstance(value, str):
            raise _refuse(where, "a text", value)
        if self.choices and value not in self.choices:
            raise _refuse(where, f"one of {', '.join(self.choices)}", value)
        return value


@final
@dataclass(frozen=True)
class Flag(AbstractField):
    """True or false."""

    def read(self, value: Any, where: str, sizes: Sizes) -> bool:
        if not isinstance(value, bool):
            raise _refuse(where, "true or false", value)
        return value


@final
@dataclass(frozen=True)
class Whole(AbstractField):
    """An integer from `low` on, up to `high`."""

    low: int = 0
    high: int = 2**53

    def read(self, value: Any, where: str, sizes: Sizes) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not self.low <= value <= self.high:
            wanted = f"an integer from {self.low} to {self.high}"
            raise _refuse(where, wanted, value)
        return value


@final
@dataclass(frozen=True)
class Real(AbstractField):
    """A number; NaN and infinities stand as words."""

    low: float = -np.inf

    def read(self, value: Any, where: str, sizes: Sizes) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number and value not in _WORDS:
            raise _refuse(where, "a number", value)
        if float(value) < self.low:
            raise _refuse(where, f"at least {self.low:g}", value)
        return float(value)


@final
@dataclass(frozen=True, init=False)
class Array(AbstractField):
    """An array of numbers, integers or flags, with a name for the size of each axis."""

    dtype: type
    axes: tuple[str, ...]

    def __init__(self, dtype: type, *axes: str):
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "axes", axes)

    def read(self, value: Any, where: str, sizes: Sizes) -> np.ndarray:
        flat: list[Any] = []
        shape = self._flatten(value, where, len(self.axes), flat)
        item = {float: Real(), int: Whole(low=-1), bool: Flag()}[self.dtype]
        for each in flat:
            item.read(each, where, sizes)
        if len(shape) < len(self.axes):  # an empty list has no inner axes
            shape += tuple(sizes.get(axis, 0) for axis in self.axes[len(shape) :])
        for axis, size in zip(self.axes, shape):
            if sizes.setdefault(axis, size) != size:
                wanted = f"{sizes[axis]} long along {axis!r}"
                raise _refuse(where, wanted, f"{size} long")
        return np.array(flat, dtype=self.dtype).reshape(shape)

    def _flatten(
        self, value: Any, where: str, depth: int, flat: list[Any]
    ) -> tuple[int, ...]:
        """Append the elements of nested lists to `flat`, and return their shape."""
        if depth == 0:
            flat.append(value)
            return ()
        if not isinstance(value, list):
            raise _refuse(where, f"a list of {depth} dimensions", value)
        shapes = {self._flatten(each, where, depth - 1, flat) for each in value}
        if len(shapes) > 1:
            raise ResultError(f"`{where}` has rows of different lengths.")
        return (len(value), *(shapes.pop() if shapes else ()))


@final
@dataclass(frozen=True)
class Maybe(AbstractField):
    """Null, or a field."""

    field: AbstractField

    def read(self, value: Any, where: str, sizes: Sizes) -> Any:
        return None if value is None else self.field.read(value, where, sizes)


@final
@dataclass(frozen=True)
class ByType(AbstractField):
    """A field whose kind depends on the type that JSON gives it."""

    kinds: Mapping[type, AbstractField]

    def read(self, value: Any, where: str, sizes: Sizes) -> Any:
        kind = self.kinds.get(type(value))
        if kind is None:
            wanted = " or ".join(each.__name__ for each in self.kinds)
            raise _refuse(where, f"of the type {wanted}", value)
        return kind.read(value, where, sizes)


@final
@dataclass(frozen=True)
class Many(AbstractField):
    """A list of fields of one kind."""

    field: AbstractField
    axis: str = ""

    def read(self, value: Any, where: str, sizes: Sizes) -> list[Any]:
        if not isinstance(value, list):
            raise _refuse(where, "a list", value)
        if self.axis and sizes.setdefault(self.axis, len(value)) != len(value):
            raise _refuse(where, f"{sizes[self.axis]} long", f"{len(value)} long")
        return [
            self.field.read(each, f"{where}[{index}]", sizes)
            for index, each in enumerate(value)
        ]


@final
@dataclass(frozen=True)
class Places(AbstractField):
    """A list with a field for each place."""

    fields: Sequence[AbstractField]

    def read(self, value: Any, where: str, sizes: Sizes) -> list[Any]:
        if not isinstance(value, list) or len(value) != len(self.fields):
            raise _refuse(where, f"a list of {len(self.fields)}", value)
        return [
            field.read(each, f"{where}[{index}]", sizes)
            for index, (field, each) in enumerate(zip(self.fields, value))
        ]


@final
@dataclass(frozen=True)
class Named(AbstractField):
    """Any names, each with a field of one kind, which sets its own sizes."""

    field: AbstractField

    def read(self, value: Any, where: str, sizes: Sizes) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _refuse(where, "an object", value)
        return {
            name: self.field.read(each, f"{where}.{name}", dict(sizes))
            for name, each in value.items()
        }


@final
@dataclass(frozen=True)
class Entries(AbstractField):
    """An object with these fields. The sizes that it sets are its own."""

    fields: Mapping[str, AbstractField]

    def read(self, value: Any, where: str, sizes: Sizes) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _refuse(where, "an object", value)
        prefix = f"{where}." if where else ""
        missing = [name for name in self.fields if name not in value]
        if missing:
            raise ResultError(f"`{prefix}{missing[0]}` is missing.")
        inner = dict(sizes)
        return {
            name: field.read(value[name], f"{prefix}{name}", inner)
            for name, field in self.fields.items()
        }


@final
class _DescribedProblem(AbstractField):
    """A description of a problem, or null."""

    def read(self, value: Any, where: str, sizes: Sizes) -> Any:
        return _read_problem(value)


_ARGUMENTS = Named(ByType({int: Whole(), bool: Flag(), float: Real()}))
# A class of the package, the shapes of its arrays, and its other arguments.
_SHAPES = Named(Array(int, "axes"))
_MODULE = Entries({"class": Words(), "shapes": _SHAPES, "arguments": _ARGUMENTS})
_HISTORY = Maybe(ByType({str: Words(), list: Array(float, "d"), dict: _MODULE}))
_EQUATION = Entries(
    {"equation": Words(), "history": _HISTORY, "observe": Maybe(Words())}
)
# The further fields of an equation with networks.
_NETWORKS = Entries({"networks": Named(_ARGUMENTS)})
_QUANTITY = Entries({"numbers": Array(float, "times"), "name": Maybe(Words())})
# The further fields of an equation with inputs or doses.
_DRIVING = Entries(
    {
        "inputs": Named(
            Entries(
                {
                    "kind": Words(("linear", "steps", "cubic", "formula")),
                    "t": Array(float, "knots"),
                    "values": Array(float, "knots"),
                    "text": Words(),
                }
            )
        ),
        "doses": Many(
            Entries(
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
_MODULES = Entries(
    {
        "rhs": _MODULE,
        "history": _MODULE,
        "tau": Maybe(_MODULE),
        "initial": Maybe(Whole(1)),
    }
)
_DATA = Entries(
    {
        "t": Array(float, "N"),
        "x": Array(float, "N", "k"),
        "sd": Maybe(Array(float, "N", "k")),
        "names": Many(Words(), "k"),
        "label": Maybe(Words()),
        "origin": ByType({str: Words(), float: Real(), int: Real()}),
        "notes": Many(Words()),
        "axis_labels": Maybe(Many(Words(), "k+1")),
        "below": Maybe(Array(bool, "N", "k")),
    }
)
# An array of parameters. Of a least-squares fit, `free` says which free parameter each
# element is (-1: none), and `like` which element it equals.
_ARRAY = {
    "name": Words(),
    "short": Words(),
    "shape": Array(int, "axes"),
    "values": Array(float, "elements"),
}
_FREE_ARRAY = _ARRAY | {name: Array(int, "elements") for name in ("free", "like")}
# The scales of a network.
_SCALES = Entries(
    {
        "center": Array(float, "inputs"),
        "scale": Array(float, "inputs"),
        "size": Array(float, "outputs"),
        "offset": Array(float, "outputs"),
    }
)
_CELL = ByType({str: Words(), float: Real(), int: Real(), bool: Flag()})
_COMMON = {
    "text": Words(),
    "status": Words(tuple(status.name for status in Status)),
    "message": Words(),
    "loss": Real(),
    "seconds": Real(low=0.0),
    "solver": Words(),
    "tolerances": Maybe(Entries({"rtol": Real(), "atol": Maybe(Real())})),
    "steps_per_delay": Whole(1),
    "data": _DATA,
    "table": Many(Named(Maybe(_CELL))),
    "networks": Many(_SCALES),
}
_SEARCH = Entries(
    {
        "best": Entries(
            {
                "theta": Array(float, "p"),
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
        "minima": Many(Places([Array(float, "p"), Real(), Whole()])),
        "starts": Whole(1),
        "evaluations": Whole(),
        "step_error": Real(),
        "interrupted": Flag(),
    }
)
_PROFILE = Entries(
    {
        "name": Words(),
        "estimate": Real(),
        "quantile": Real(low=0.0),
        "interval": Places([Real(), Real()]),
        "reached": Places([Real(), Real()]),
        "values": Array(float, "points"),
        "r": Array(float, "points"),
        "theta": Array(float, "points", "p"),
        "breakdown": Places([Words(BREAKDOWNS), Words(BREAKDOWNS)]),
    }
)
_ASSESSMENT = Entries(
    {
        "verdicts": Many(Places([Words(VERDICTS), Words(), Words()]), "p"),
        "ties": Many(Places([Real(), Array(float, "p")])),
        "fitted": Array(float, "N", "k"),
        "checks": Many(Places([Words(), Words(), Real(), Real(low=0.0)])),
        "other_history": Maybe(
            Places([Words(), Real(), Real(), Real(low=0.0), Flag()])
        ),
        "level": Real(low=0.0),
        "explained": Maybe(Places([Many(Real(), "k"), Many(Real(), "k"), Flag()])),
    }
)
# The process noise of a fit by multiple shooting, and the path at its nodes.
_PROCESS = Entries(
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
_STUDY = Entries(
    {
        "names": Many(Words(), "local"),
        "own": Array(bool, "local"),
        "place": Array(int, "experiments", "local"),
        "known": Array(float, "experiments", "local"),
        "experiments": Many(
            Entries(
                {
                    "label": Words(),
                    "count": Whole(2),
                    "origin": ByType({str: Words(), float: Real(), int: Real()}),
                    "notes": Many(Words()),
                    "axis_labels": Many(Words(), "k+1"),
                    "values": Array(float, "all"),
                    "problem": _DescribedProblem(),
                }
            ),
            "experiments",
        ),
    }
)
# The noise models by quantity, with the parameters that are known.
_NOISE_MODELS = Named(Entries({"model": Words(), "known": Named(Real(low=0.0))}))
_PRIORS = Places([Array(float, "p"), Array(float, "p"), Array(bool, "p")])
_ESTIMATE = Entries(
    {
        **_COMMON,
        "parameters": Many(Entries(_FREE_ARRAY)),
        "noise": Named(Real(low=0.0)),
        "noise_models": Maybe(_NOISE_MODELS),
        "options": Entries(
            {
                "starts": Whole(1),
                "seed": Whole(low=-(2**53)),
                "steps_per_delay": Whole(1),
                "mesh": Flag(),
            }
        ),
        "free": Entries(
            {
                "names": Many(Words(), "p"),
                "lower": Array(float, "p"),
                "upper": Array(float, "p"),
                "given": Array(bool, "sides", "p"),
                "guess": Array(float, "p"),
                "history": Array(bool, "p"),
                "frequencies": Array(bool, "p"),
                "priors": Maybe(_PRIORS),
            }
        ),
        "histories": Many(Places([Words(), Real()])),
        "search": _SEARCH,
        "profiles": Maybe(Many(_PROFILE, "p")),
        "assessment": Maybe(_ASSESSMENT),
        "process": Maybe(_PROCESS),
        "study": Maybe(_STUDY),
    }
)
_DESCENT = Entries(
    {
        **_COMMON,
        "parameters": Many(Entries(_ARRAY)),
        "start": Array(float, "all"),
        "free": Entries(
            {
                "names": Many(Words(), "p"),
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
    """Read the content of a saved fit, every field checked, with lists as arrays."""
    kind = Words(tuple(_KINDS)).read(content.get("kind"), "kind", {})
    names = content.get("free", {})
    names = names.get("names") if isinstance(names, dict) else None
    if not isinstance(names, list):
        raise ResultError("`free.names` must be a list.")
    sizes: Sizes = {"p": len(names), "p+1": len(names) + 1, "sides": 2}
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
