"""The reference of public names, from their docstrings.

A line `::: NAME` of a page in `docs/reference/api` stands for a public name of
`ddefind`, such as `fit` or `noise.Poisson`. It becomes the signature, the docstring,
and the public methods and properties of a class."""

import enum
import inspect
import re
from collections.abc import Iterator
from functools import cache, cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import ddefind

_DIRECTIVE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
_MODULES = re.compile(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")
_MADE_BY_THE_LIBRARY = {
    *("Estimate", "FitResult", "FitBatch", "SavedFit", "Comparison", "Solution"),
    *("GradientCheck", "Progress", "Equation", "Spline"),
    *("paper.LevelResults", "paper.ResultsFolder"),
}
"""Classes whose objects functions return, so that nobody calls them."""


def write(docs: Path) -> None:
    """Fill in the pages of the reference."""
    for page in (docs / "reference" / "api").glob("*.md"):
        page.write_text(_DIRECTIVE.sub(lambda found: entry(found[1]), page.read_text()))


def names_on(page: Path) -> list[str]:
    """The public names that a page describes."""
    return _DIRECTIVE.findall(page.read_text())


def entry(name: str) -> str:
    """What the reference says of a public name."""
    thing = attrgetter(name)(ddefind)
    parts = [f"## `dd.{name}` {{ #{name} }}"]
    if not _is_made_by_the_library(name, thing):
        parts.append(f"```python\n{_signature(f'dd.{name}', thing)}\n```")
    parts.append(_text(thing))
    if inspect.isclass(thing) and issubclass(thing, enum.Enum):
        parts += [f"- `{each.name}`: {each.value}" for each in thing]
    elif inspect.isclass(thing):
        parts += [_member(name, *found) for found in _members(thing)]
    return "\n\n".join(parts)


def _is_made_by_the_library(name: str, thing: Any) -> bool:
    if not callable(thing) or name in _MADE_BY_THE_LIBRARY:
        return True
    return inspect.isclass(thing) and (
        issubclass(thing, Exception | enum.Enum) or inspect.isabstract(thing)
    )


def _member(owner: str, name: str, member: Any) -> str:
    short = f"{owner.split('.')[-1]}.{name}"
    head = f"### `{short}` {{ #{owner}.{name} }}"
    if isinstance(member, property | cached_property):
        return f"{head}\n\n{_text(member)}"
    code = f"```python\n{_signature(short, member, skip=1)}\n```"
    return f"{head}\n\n{code}\n\n{_text(member)}"


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class that have a docstring, those of its
    bases in ddefind included. What a public abstract class describes stands there."""
    described = [
        b for b in kind.__mro__[1:] if b.__name__ in _public_abstract_classes()
    ]
    seen = {name for base in described for name in dir(base)}
    for base in kind.__mro__:
        if not base.__module__.startswith("ddefind"):
            continue
        for name, value in vars(base).items():
            member = inspect.unwrap(getattr(value, "__func__", value))
            is_method = callable(member) and not inspect.isclass(member)
            if (
                not name.startswith("_")
                and name not in seen
                and (is_method or isinstance(value, property | cached_property))
                and getattr(member, "__doc__", None)
            ):
                seen.add(name)
                yield name, member


@cache
def _public_abstract_classes() -> set[str]:
    names = [*dir(ddefind), *dir(ddefind.models), *dir(ddefind.noise)]
    return {name for name in names if name.startswith("Abstract")}


def _text(thing: Any) -> str:
    """A docstring as a page has it, its examples in a block of code."""
    text = inspect.cleandoc(thing.__doc__ or "")
    text = re.sub(r"\n\nMay import:.*", "", text, flags=re.DOTALL)
    return _EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)


def _signature(name: str, thing: Any, skip: int = 0) -> str:
    """How a function or class is called; on several lines if it is long.

    >>> def call(t: float, *, level: "collections.abc.Sequence[float]" = ()): ...
    >>> print(_signature("fit.call", call))
    fit.call(t: float, *, level: Sequence[float] = ())
    """
    try:
        parameters = list(inspect.signature(thing).parameters.values())[skip:]
    except ValueError:
        return name
    star = [k for k, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY][:1]
    words = [_parameter(p) for p in parameters]
    has_rest = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if star and not has_rest:
        words.insert(star[0], "*")
    line = f"{name}({', '.join(words)})"
    if len(line) <= 88:
        return line
    return f"{name}(\n" + "".join(f"    {word},\n" for word in words) + ")"


def _parameter(parameter: inspect.Parameter) -> str:
    text = str(
        parameter.replace(
            annotation=inspect.Parameter.empty, default=inspect.Parameter.empty
        )
    )
    annotation, default = parameter.annotation, parameter.default
    if annotation is not parameter.empty:
        is_text = isinstance(annotation, str)
        written = annotation if is_text else inspect.formatannotation(annotation)
        text += f": {_MODULES.sub('', written)}"
    if default is not parameter.empty:
        written = repr(default)
        if not isinstance(default, str):
            written = _MODULES.sub("", written)
        text += f"={written}" if annotation is parameter.empty else f" = {written}"
    return text
