"""From text to tokens: numbers, names, operators and the ends of statements."""

import keyword
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

_MAX_TEXT_LENGTH = 10_000
_MAX_WORD_LENGTH = 40
_MAX_SHOWN_COLUMNS = 76  # of a line in an error message

_TOKEN = re.compile(
    r"""
    (?P<skip> [ \t\f\v]+ | \#[^\n]* )
  | (?P<end> [\n;] )
  | (?P<number> (?: [0-9]+\.?[0-9]* | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? )
  | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
  | (?P<operator> \*\* | <= | >= | == | != | [-+*/^<>=(),'] )
    """,
    re.VERBOSE,
)
WORDS = ("and", "or", "not")
# What to write instead of characters that are not allowed.
_REPLACEMENTS = {
    **dict.fromkeys("[{", "("),
    **dict.fromkeys("]}", ")"),
    **dict.fromkeys("\u2032\u2019\u2018\u00b4`", "'"),
    **dict.fromkeys("\u00b7\u22c5\u00d7\u2217", "*"),
    **dict.fromkeys("\u2212\u2013\u2014", "-"),
    **{"\u00b2": "^2", "\u00b3": "^3", "\u00f7": "/", "\u221a": "sqrt(...)"},
    **{"\u2264": "<=", "\u2265": ">=", "\u2260": "!=", "\u00a0": " "},
    **{"&": "and", "|": "or", "~": "not", "!": "not"},
}


@final
class EquationError(ValueError):
    """An error in the text of an equation.

    The message shows the line and points at the place with a caret."""


@final
@dataclass(frozen=True)
class Source:
    """The text to read. `label` names the text in error messages, if it has to."""

    text: str
    label: str = ""

    def error(self, at: int, message: str) -> EquationError:
        """An error that shows the line of the character `at`, with a caret below it."""
        line_number = self.text.count("\n", 0, at) + 1
        begin = self.text.rfind("\n", 0, at) + 1
        line = self.text[begin:].split("\n", 1)[0]
        first = max(0, at - begin - _MAX_SHOWN_COLUMNS // 2)
        cut = "..." if first else ""
        shown = cut + line[first : first + _MAX_SHOWN_COLUMNS]
        shown += "..." if first + _MAX_SHOWN_COLUMNS < len(line) else ""
        shown = "".join(c if c.isprintable() else " " for c in shown)
        head = f"  {self.label}line {line_number}: "
        caret = " " * (len(head) + len(cut) + at - begin - first) + "^"
        return EquationError(f"{message}\n{head}{shown}\n{caret}")


class Token(NamedTuple):
    """A piece of text, whose first character is at the place `at`.

    `kind` is "number", "name", "operator", or "end" for the end of a statement."""

    kind: str
    text: str
    at: int


def read_source(argument: str, text: str, label: str = "") -> Source:
    """The text of an argument, with its type and its length checked."""
    if not isinstance(text, str):
        raise TypeError(
            f'`{argument}` must be a text such as "x\' = -x(t - tau)", but got '
            f"{type(text).__name__}."
        )
    if len(text) > _MAX_TEXT_LENGTH:
        raise EquationError(
            f"`{argument}` has {len(text)} characters; {_MAX_TEXT_LENGTH} are the most."
        )
    return Source(text.replace("\r\n", "\n").replace("\r", "\n"), label)


def read_tokens(source: Source) -> Iterator[Token]:
    """The tokens of a text, each with its place."""
    at, text = 0, source.text
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _bad_character(source, at)
        token = Token(match.lastgroup or "", match[0], at)
        at = match.end()
        if token.text in WORDS:
            token = token._replace(kind="operator")
        elif token.kind == "name":
            check_word(source, token)
        elif token.kind == "number":
            _check_number(source, token)
        if token.kind != "skip":
            yield token


def _bad_character(source: Source, at: int) -> EquationError:
    """The error for a character that is not allowed, with one to write instead."""
    character = source.text[at]
    name = unicodedata.name(character, "")
    replacement = _REPLACEMENTS.get(character)
    if name.startswith("GREEK ") and " LETTER " in name:
        letter = name.split(" LETTER ")[1].split()[0].replace("LAMDA", "LAM")
        is_capital = "CAPITAL" in name
        replacement = letter.capitalize() if is_capital else letter.lower()
    shown = repr(character) if character.isprintable() else f"U+{ord(character):04X}"
    if not character.isascii() and name:
        shown += f" ({name})"
    instead = f" Write {replacement!r} instead." if replacement else ""
    return source.error(at, f"{shown} cannot stand in an equation.{instead}")


def check_word(source: Source, token: Token) -> None:
    """Raise an error if a word cannot be a name."""
    word = token.text
    if len(word) > _MAX_WORD_LENGTH:
        raise source.error(
            token.at, f"A name may have at most {_MAX_WORD_LENGTH} letters."
        )
    if word.startswith("_"):
        raise source.error(token.at, "A name begins with a letter.")
    if word in ("if", "else"):
        raise source.error(
            token.at, f"There is no {word!r}: write where(condition, value, otherwise)."
        )
    if keyword.iskeyword(word):
        raise source.error(
            token.at, f"{word!r} cannot be a name here. Write '{word}_' for instance."
        )


def _check_number(source: Source, token: Token) -> None:
    if len(token.text) > _MAX_WORD_LENGTH:
        raise source.error(
            token.at, f"A number may have at most {_MAX_WORD_LENGTH} digits."
        )
    size = float(token.text)
    digits = re.split("[eE]", token.text)[0]
    if size == float("inf") or (size == 0 and re.search("[1-9]", digits)):
        raise source.error(
            token.at, f"{token.text} is beyond what a double-precision number can hold."
        )
