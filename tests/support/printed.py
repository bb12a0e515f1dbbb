"""What a page shows as output is what its examples print."""

import re

_BLOCK = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")
# How long a search took and how often it reached a minimum differ between machines.
_SEARCH = re.compile(r"^\d+ starts?, .*$", re.MULTILINE)
_TOLERANCE = 0.05


def missing_output(page: str, printed: str) -> list[str]:
    """The parts of a page's output, between lines of `...`, that were not printed.
    Numbers may differ by 5%, blanks and line breaks in any way.

    >>> missing_output("```text\\nr  1.0\\n...\\nTwo words.\\n```", "r 1.01 Two words")
    ['Two words.\\n']
    """
    printed = _SEARCH.sub("", printed)
    return [
        part
        for block in _BLOCK.findall(page)
        for part in re.split(r"^\.\.\.\n", block, flags=re.MULTILINE)
        if not _is_in(_SEARCH.sub("", part), printed)
    ]


def _is_in(part: str, printed: str) -> bool:
    words = [re.escape(_NUMBER.sub("NUMBER", word)) for word in part.split()]
    pattern = r"\s+".join(words).replace("NUMBER", f"({_NUMBER.pattern})")
    expected = [float(number) for number in _NUMBER.findall(part)]
    return any(
        all(_alike(float(a), b) for a, b in zip(found.groups(), expected))
        for found in re.finditer(pattern, printed)
    )


def _alike(value: float, expected: float) -> bool:
    return abs(value - expected) <= _TOLERANCE * abs(expected) + 1e-12
