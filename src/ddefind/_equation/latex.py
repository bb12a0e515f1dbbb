"""Formulas in LaTeX."""

import re

from .expression import (
    ATOM,
    BINDING,
    FUNCTIONS,
    Call,
    Delayed,
    Expression,
    Name,
    Number,
    show_number,
)
from .model_lines import ModelLine, ModelLines

_GREEK = """
alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma
tau upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega
""".split()
_SIGNS = {
    "<": "<",
    "<=": r"\le",
    ">": ">",
    ">=": r"\ge",
    "==": "=",
    "!=": r"\ne",
    "and": r"\land",
    "or": r"\lor",
    "+": "+",
    "-": "-",
}

# Kinds of history; # stands for the index of a state.
_HISTORIES = {
    "constant": "b#",
    "affine": r"a# \, t + b#",
    "periodic": r"A# \, \sin\left(\omega# \, t\right) + b#",
    "neural": "N#(t)",
}


def latex_name(name: str) -> str:
    r"""A name as it is printed in formulas.

    >>> latex_name("theta_0"), latex_name("V_max"), latex_name("k12")
    ('\\theta_{0}', 'V_{\\mathrm{max}}', 'k_{12}')
    """
    head, *indices = [part for part in name.split("_") if part]
    digits = re.fullmatch(r"([A-Za-z]+?)([0-9]+)", head)
    if digits:
        head, first = digits.groups()
        indices = [first, *indices]
    if not indices:
        return _word(head)
    return f"{_word(head)}_{{{','.join(map(_word, indices))}}}"


def _word(word: str) -> str:
    if word in _GREEK:
        return "\\" + word
    return word if len(word) == 1 or word.isdigit() else rf"\mathrm{{{word}}}"


def latex(expression: Expression, binding: int = 0) -> str:
    """A formula, in parentheses if it binds less tightly than `binding`."""
    if isinstance(expression, Number):
        return _number(expression.value, binding)
    if isinstance(expression, Name):
        return latex_name(expression.name)
    if isinstance(expression, Delayed):
        delay = r"\tau" if expression.delay is None else _number(expression.delay, ATOM)
        return f"{latex_name(expression.state)}(t - {delay})"
    is_function = expression.function in FUNCTIONS
    text = _function(expression) if is_function else _operator(expression)
    return _enclosed(text) if _binding(expression) < binding else text


def _binding(expression: Call) -> int:
    """As in the text, but that a fraction holds together by itself, and a function
    needs parentheses only below an exponent."""
    function = expression.function
    if function in FUNCTIONS:
        return BINDING["^"]
    return BINDING["neg" if function == "/" else function]


def _enclosed(text: str) -> str:
    return rf"\left({text}\right)"


def _number(value: float, binding: int) -> str:
    mantissa, _, exponent = show_number(value).partition("e")
    if not exponent:
        return mantissa
    text = rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
    return _enclosed(text) if binding > BINDING["*"] else text


def _function(expression: Call) -> str:
    function = expression.function
    first, *rest = map(latex, expression.arguments)
    if function == "exp":
        return f"e^{{{first}}}"
    if function == "sqrt":
        return rf"\sqrt{{{first}}}"
    if function == "abs":
        return rf"\left|{first}\right|"
    if function == "where":
        return (
            rf"\begin{{cases}} {rest[0]} & \text{{if }} {first} \\ "
            rf"{rest[1]} & \text{{otherwise}} \end{{cases}}"
        )
    return rf"\{function}{_enclosed(', '.join([first, *rest]))}"


def _operator(expression: Call) -> str:
    function, arguments = expression.function, expression.arguments
    own = BINDING[function]
    if function == "neg":
        return f"-{latex(arguments[0], own)}"
    if function == "not":
        return rf"\lnot {latex(arguments[0], BINDING['neg'])}"
    if function == "/":
        return rf"\frac{{{latex(arguments[0])}}}{{{latex(arguments[1])}}}"
    if function == "^":
        return f"{latex(arguments[0], ATOM)}^{{{latex(arguments[1])}}}"
    if function == "*":
        return _product(*arguments)
    is_sum = function in ("+", "-")
    first = latex(arguments[0], own if is_sum else own + 1)
    rest = [latex(argument, own + 1) for argument in arguments[1:]]
    if is_sum:
        rest = list(map(_unsigned, rest))
    return f" {_SIGNS[function]} ".join([first, *rest])


def _unsigned(text: str) -> str:
    """What can stand after an operator: a sign there needs parentheses."""
    return _enclosed(text) if text.startswith("-") else text


def _product(left: Expression, right: Expression) -> str:
    own = BINDING["*"]
    before, after = latex(left, own), _unsigned(latex(right, own + 1))
    # Numbers side by side would read as one.
    return before + (r" \cdot " if after[0].isdigit() else r" \, ") + after


def latex_model(lines: ModelLines, history: str | None) -> str:
    """All lines, aligned at their `=`. `history` is the kind of one that has none."""
    rows = [_row(line) for line in lines.model]
    if history is not None:
        several = len(lines.states) > 1
        for index, state in enumerate(lines.states):
            formula = _HISTORIES[history].replace("#", f"_{{{index}}}" * several)
            rows.append(rf"{latex_name(state)}(t) &= {formula} \quad (t \le 0)")
    if lines.observe:
        rows.append(rf"\text{{measured: }} & {_measured(lines)}")
    if len(rows) == 1:
        return rows[0].replace("&=", "=", 1)
    body = " \\\\\n".join(rows)
    return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"


def _row(line: ModelLine) -> str:
    name, formula = latex_name(line.name), latex(line.formula)
    if line.kind == "slope":
        return rf"\frac{{d{name}}}{{dt}} &= {formula}"
    if line.kind == "history":
        return rf"{name}(t) &= {formula} \quad (t \le 0)"
    return f"{name} &= {formula}"


def _measured(lines: ModelLines) -> str:
    return r", \quad ".join(
        latex(line.formula)
        if line.kind == "value"
        else f"{latex_name(line.name)} = {latex(line.formula)}"
        for line in lines.observe
    )
