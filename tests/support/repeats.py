"""Repeats of a claim: a few cases are tested always, the others with the slow tests."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def mostly_slow(cases: Iterable[Any], always: Container[Any]) -> list[Any]:
    """The cases for `pytest.mark.parametrize`, of which those in `always` are quick."""
    return [
        case if case in always else _slow(*case if isinstance(case, tuple) else (case,))
        for case in cases
    ]


def _slow(*values: Any):
    return pytest.param(*values, marks=pytest.mark.slow)
