"""The parser: from text to statements such as `x' = ...`, `x(t<=0) = ...`, `f = ...`.

The text is split into tokens: numbers, names, operators and the ends of statements. The
order of the tokens in a right-hand side is checked, with error messages that point at
the place. Then Python's own parser turns the right-hand side into a syntax tree
(`ast`), which is never compiled or run.
"""

import ast
import keyword
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

from .._problem.kernels import KERNELS
from .expression import FUNCTIONS

_MAX_TEXT_LENGTH = 10_000
_MAX_WORD_LENGTH = 40
_MAX_STATEMENT_TOKENS = 2_000
_MAX_NESTED_PARENTHESES = 50
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
# Replacements for characters that are not allowed.
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
    """An error in the text of an equation, whose message shows the place."""


@final
@dataclass(frozen=True)
class Source:
    """The text to read. Error messages name it by its `label`, if it has one."""

    text: str
    label: str = ""

    def error(self, at: int, message: str) -> EquationError:
        """Return an error that shows the line of character `at`, and a caret below."""
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
    """A piece of text, whose first character is at the place `at`. Its `kind` is
    "number", "name", "operator", or "end" for the end of a statement."""

    kind: str
    text: str
    at: int


def read_source(argument: str, text: str, label: str = "") -> Source:
    """Return the text of an argument, with its type and its length checked."""
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
    """Yield the tokens of a text, each with its place."""
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
    """Return the error for a character that is not allowed."""
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


StatementKind = Literal["derivative", "history", "initial", "definition", "value"]
# The left sides of statements, as tokens that are separated by spaces.
_LEFT_SIDES: dict[StatementKind, re.Pattern[str]] = {
    "derivative": re.compile(
        r"([A-Za-z]\w*) '(?: \( t \))?|d([A-Za-z]\w*)(?: \( t \))? / dt"
    ),
    "history": re.compile(r"([A-Za-z]\w*) \( t <= 0 \)"),
    "initial": re.compile(r"([A-Za-z]\w*) \( 0 \)"),
    "definition": re.compile(r"([A-Za-z]\w*)"),
}
# In syntax trees, `x'` is a name that no text can have: `_x`.
SLOPE_PREFIX = "_"
# Tokens that Python writes in another way. In gamma(mean = m, k), `:=` may stand before
# values without a name, so that the order of values is checked together with the names.
_IN_PYTHON = {"^": "**", "=": ":="}
# Tokens that may precede `not` (None: nothing). After others it is a syntax error.
_BEFORE_NOT = (None, "(", ",", *WORDS)


@final
@dataclass(frozen=True)
class Statement:
    """One statement of the text.

    `kind` and `name` come from its left side: `x' = ...` is the "derivative" of x,
    `x(t<=0) = ...` its "history", `x(0) = ...` its "initial" value, `f = ...` a
    "definition", and a formula alone a "value", without a name. `at` is the place of
    its first character. `tree` is the syntax tree of the right side, and `places` maps
    the tree's column offsets to places in the text."""

    source: Source
    kind: StatementKind
    name: str
    at: int
    tree: ast.expr
    places: Mapping[int, int]

    def error(self, message: str, node: ast.expr | None = None) -> EquationError:
        """Return an error that points at a node of the tree, or at the statement."""
        at = self.at if node is None else self.places.get(node.col_offset, self.at)
        return self.source.error(at, message)


def parse_statements(source: Source) -> list[Statement]:
    """Return the statements of a text, in their order."""
    return [_statement(source, tokens) for tokens in _split(source)]


def _split(source: Source) -> Iterator[list[Token]]:
    """Yield the tokens of each statement, which ends at a semicolon or a new line.
    Inside parentheses a new line is only a space."""
    current: list[Token] = []
    opened: list[Token] = []
    end = Token("end", "", len(source.text))
    for token in (*read_tokens(source), end):
        if token.text == "(":
            opened.append(token)
            if len(opened) > _MAX_NESTED_PARENTHESES:
                raise source.error(
                    token.at,
                    f"More than {_MAX_NESTED_PARENTHESES} parentheses in each other. "
                    "Give the inner part a name of its own, as `f = ...`.",
                )
        elif token.text == ")" and not opened:
            raise source.error(token.at, "This ')' has no '('.")
        elif token.text == ")":
            opened.pop()
        if token.kind != "end":
            current.append(token)
        elif opened and token.text != "\n":
            raise source.error(opened[-1].at, "This '(' is never closed.")
        elif current and not opened:
            yield current
            current = []


def _statement(source: Source, tokens: list[Token]) -> Statement:
    if len(tokens) > _MAX_STATEMENT_TOKENS:
        raise source.error(
            tokens[0].at,
            f"A statement of {len(tokens)} symbols; at most {_MAX_STATEMENT_TOKENS} "
            "are read. Give parts of it names of their own, as `f = ...`.",
        )
    equals_sign = _equals_sign(tokens)
    if equals_sign is None:
        tree, places = _parse(source, tokens)
        return Statement(source, "value", "", tokens[0].at, tree, places)
    left, right = tokens[:equals_sign], tokens[equals_sign + 1 :]
    kind, name = _left_side(source, left or tokens)
    if not right:
        raise source.error(tokens[-1].at, "There is nothing to the right of '='.")
    tree, places = _parse(source, right)
    return Statement(source, kind, name, left[0].at, tree, places)


def _equals_sign(tokens: list[Token]) -> int | None:
    """Return the number of the first '=' that is not in parentheses, as in gamma(mean =
    m)."""
    depth = 0
    for number, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        if token.text == "=" and depth == 0:
            return number
    return None


def _left_side(source: Source, tokens: list[Token]) -> tuple[StatementKind, str]:
    """Return the kind of a statement, and the name that it defines."""
    text = " ".join(token.text for token in tokens)
    for kind, pattern in _LEFT_SIDES.items():
        if match := pattern.fullmatch(text):
            name = next(filter(None, match.groups()))
            # In dlambda/dt the name is only a part of a token.
            check_word(source, Token("name", name, tokens[0].at))
            return kind, name
    hint = "The left side must be x', dx/dt, x(t<=0), x(0) or a name, for a state x."
    name = tokens[0].text
    if text.startswith(f"{name} ' '"):
        hint = f"One derivative only: write {name}' = v; v' = ... with a further state."
    elif tokens[0].kind == "name" and text.startswith(f"{name} ( t )"):
        hint = f"Write {name}' = ... for an equation, {name} = ... for a name."
    elif tokens[0].kind == "name" and text.startswith(f"{name} ("):
        hint = (
            f"Write {name}(t<=0) = ... for the history, or {name}(0) = ... for the "
            "value at time zero."
        )
    raise source.error(tokens[0].at, hint)


def _parse(source: Source, tokens: list[Token]) -> tuple[ast.expr, dict[int, int]]:
    """Return the syntax tree of an expression, and `places` as in `Statement`."""
    tokens = _with_slopes(source, tokens)
    _check_order(source, tokens)
    words, places, column = [], {}, 0
    for token in tokens:
        word = _IN_PYTHON.get(token.text, token.text)
        if token.kind == "number" and word.isdigit():
            word = word.lstrip("0") or "0"
        places[column] = token.at
        words.append(word)
        column += len(word) + 1
    try:
        return ast.parse(" ".join(words), mode="eval").body, places
    except (SyntaxError, RecursionError, MemoryError):
        raise source.error(
            tokens[0].at,
            "This formula cannot be read: it may be nested too deeply. Give parts of "
            "it names of their own, as `f = ...`.",
        ) from None


def _with_slopes(source: Source, tokens: list[Token]) -> list[Token]:
    """Return the tokens with one name `_x` in place of the two tokens of `x'`."""
    result: list[Token] = []
    texts = [*(token.text for token in tokens), "", ""]
    for number, token in enumerate(tokens):
        before = result[-1] if result else None
        if token.text != "'":
            result.append(token)
        elif before is None or before.kind != "name":
            raise source.error(token.at, "Only a name has a derivative: x'(t - tau).")
        elif texts[number + 1] != "(":
            raise source.error(token.at, undelayed_slope_error(before.text))
        else:
            result[-1] = before._replace(text=SLOPE_PREFIX + before.text)
    return result


def undelayed_slope_error(name: str) -> str:
    """Return the message for a derivative on the right that is not delayed."""
    return (
        "A derivative on the right of '=' must be one at an earlier time: write "
        f"{name}'(t - tau). Without a delay, give the formula of {name}' a name."
    )


def _check_order(source: Source, tokens: list[Token]) -> None:
    """Check that values and operators alternate."""
    # For each open parenthesis, the function whose arguments it encloses, or "".
    calls: list[str] = []
    before: Token | None = None
    for number, token in enumerate(tokens):
        text = token.text
        if before is None or before.kind == "operator" and before.text != ")":
            _check_begins_value(source, before, token)
            if text == "(":
                calls.append("")
        elif text == "(" and before.kind == "name":
            calls.append(before.text)
        elif text == ",":
            if not calls or not calls[-1]:
                raise source.error(
                    token.at, "A comma stands between the values of a function only."
                )
        elif text == ")":
            calls.pop()
        elif not (calls and calls[-1] in KERNELS and _names_value(tokens, number)):
            _check_is_operator(source, before, token)
        before = token
    if before is not None and before.kind == "operator" and before.text != ")":
        at = before.at + len(before.text)
        raise source.error(at, f"A value is missing after {before.text!r}.")


def _names_value(tokens: list[Token], number: int) -> bool:
    """Whether a token is the '=' of a value with a name: gamma(mean = m)."""
    opening, name, sign = tokens[number - 2 : number + 1]
    return sign.text == "=" and name.kind == "name" and opening.text in ("(", ",")


def _check_begins_value(source: Source, before: Token | None, token: Token) -> None:
    """Check a token where a value has to begin."""
    previous = before.text if before else None
    if token.kind in ("name", "number") or token.text in ("(", "+", "-"):
        return
    if token.text == "not":
        if previous not in _BEFORE_NOT:
            raise source.error(token.at, "Put parentheses around (not ...).")
        return
    if token.text == "=":
        raise source.error(token.at, "Compare with '=='; '=' stands once in a line.")
    between = f" between {previous!r} and" if previous else " before"
    raise source.error(token.at, f"A value is missing{between} {token.text!r}.")


def _check_is_operator(source: Source, before: Token, token: Token) -> None:
    """Check a token where an operator has to follow a value."""
    if token.text == "=":
        raise source.error(token.at, "Compare with '=='; '=' stands once in a line.")
    if before.text in FUNCTIONS:
        raise source.error(
            token.at, f"{before.text!r} is a function: write {before.text}(...)."
        )
    if token.kind != "operator" or token.text in ("(", "not"):
        raise source.error(
            token.at, f"An operator is missing: write {before.text} * {token.text}"
        )
