"""Dates whose month is a name, as 01-Jan-2020, become dates with numbers."""

import re

_MONTHS = (
    ("january", "januar"),
    ("february", "februar"),
    ("march", "märz", "mrz"),
    ("april",),
    ("may", "mai"),
    ("june", "juni"),
    ("july", "juli"),
    ("august",),
    ("september",),
    ("october", "oktober"),
    ("november",),
    ("december", "dezember"),
)
_LETTERS = re.compile(r"[A-Za-zäÄ]{3}")
_NAME, _MARK = r"(?P<name>[A-Za-zäÄ]{3,9})", r"(?:[-/]|\.? *,? *|\. *)"
_DAY, _YEAR = r"(?P<day>[0-9]{1,2})", r"(?P<year>[0-9]+)"
_REST = r"(?P<rest>(?:[Tt ,]*[0-9]+:.*)?)"
_FORMS = (
    re.compile(_DAY + _MARK + _NAME + _MARK + _YEAR + _REST),  # 01-Jan-2020
    re.compile(_NAME + _MARK + _DAY + r"(?:st|nd|rd|th)?[-/., ]+" + _YEAR + _REST),
    re.compile(r"(?P<year>[0-9]{4})" + _MARK + _NAME + _MARK + _DAY + _REST),
)


def with_numeric_month(cell: str) -> str:
    """Return a date with the number of its month, or the cell itself if it has no name
    of a month in English or German, whole or begun with three letters.

    >>> with_numeric_month("01-Jan-2020 08:30"), with_numeric_month("May 4, 2021")
    ('2020-01-01 08:30', '2021-05-04')
    """
    if not _LETTERS.search(cell):
        return cell
    for form in _FORMS:
        match = form.fullmatch(cell)
        number = _month(match["name"]) if match else None
        if match and number:
            rest = match["rest"].lstrip("Tt ,")
            date = f"{match['year']}-{number:02}-{int(match['day']):02}"
            return f"{date} {rest}" if rest else date
    return cell


def _month(name: str) -> int | None:
    """Return the number of a month, or None if this is no name of one."""
    name = name.lower()
    for number, names in enumerate(_MONTHS, start=1):
        if any(full.startswith(name) for full in names):
            return number
    return None
