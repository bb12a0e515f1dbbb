"""Cases of a claim: tables of them, and those that are tested with the slow tests."""

import re
from collections.abc import Container, Iterable
from typing import Any

import pytest


def entries(table: str) -> list[tuple[str, str]]:
    """Each line of a text with the indented lines below it, which are joined."""
    parts = (part.split("\n") for part in re.split(r"\n(?! )", table.strip()))
    return [(first, " ".join(map(str.strip, rest))) for first, *rest in parts]


def mostly_slow(cases: Iterable[Any], always: Container[Any]) -> list[Any]:
    """The cases for `pytest.mark.parametrize`, of which those in `always` are quick."""
    return [
        case if case in always else _slow(*case if isinstance(case, tuple) else (case,))
        for case in cases
    ]


def _slow(*values: Any):
    return pytest.param(*values, marks=pytest.mark.slow)
