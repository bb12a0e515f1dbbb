"""Formulas and models in LaTeX."""

import re
from collections.abc import Mapping

from .._problem.history import KINDS
from .._problem.kernels import KERNELS
from .expression import (
    ATOM_PRECEDENCE,
    FUNCTIONS,
    PRECEDENCE,
    Call,
    Delayed,
    Expression,
    Kernel,
    Name,
    Number,
    delay_terms,
    is_network_name,
    number_text,
    time_argument,
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


def latex_name(name: str) -> str:
    r"""Return a name in LaTeX: Greek letters as symbols, digits and endings as indices.

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
    """Return a word without indices: Greek, a single letter, digits, or upright."""
    if word in _GREEK:
        return "\\" + word
    return word if len(word) == 1 or word.isdigit() else rf"\mathrm{{{word}}}"


def latex(expression: Expression, precedence: int = 0) -> str:
    """Return a formula in LaTeX, in parentheses if it binds less than `precedence`."""
    if isinstance(expression, Number):
        return _number(expression.value, precedence)
    if isinstance(expression, Name):
        return latex_name(expression.name)
    if isinstance(expression, Delayed):
        return _delayed(expression, precedence)
    assert isinstance(expression, Call)
    # The bar of a fraction groups its parts: like a function, a fraction needs
    # parentheses only as the base of a power.
    function = expression.function
    if function in FUNCTIONS or is_network_name(function):
        text, binding = _function(expression), PRECEDENCE["^"]
    else:
        text = _operator(expression)
        binding = PRECEDENCE["neg" if function == "/" else function]
    return _enclosed(text) if binding < precedence else text


def _delayed(expression: Delayed, precedence: int) -> str:
    """Return a delayed state, its slope, or its mean over a distribution of delays."""
    name, delay = latex_name(expression.name), expression.delay
    if isinstance(delay, Kernel):
        return _distributed(name, delay, precedence)
    prime = "'" if expression.slope else ""
    argument = time_argument(delay)
    if argument is not None:
        return f"{name}{prime}({latex(argument)})"
    terms = [_unsigned(latex(term, PRECEDENCE["*"])) for term in delay_terms(delay)]
    return f"{name}{prime}({' - '.join(['t', *terms])})"


def _distributed(name: str, kernel: Kernel, precedence: int) -> str:
    """Return the mean of a state over delays, in parentheses as a power's base."""
    kind = KERNELS[kernel.distribution]
    text = kind.latex.replace("#past", rf"{name}(t - s) \, ds")
    for number, formula in zip(kind.numbers, kernel.arguments):
        subtracted = _unsigned(latex(formula, PRECEDENCE["-"] + 1))
        text = text.replace(f"(#{number})", subtracted)
        text = text.replace(f"#{number}", latex(formula))
    return _enclosed(text) if precedence == ATOM_PRECEDENCE else text


def _enclosed(text: str) -> str:
    """Return a formula in parentheses."""
    return rf"\left({text}\right)"


def _number(value: float, precedence: int) -> str:
    mantissa, _, exponent = number_text(value).partition("e")
    if not exponent:
        return mantissa
    text = rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
    return _enclosed(text) if precedence > PRECEDENCE["*"] else text


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
    name = latex_name(function) if is_network_name(function) else f"\\{function}"
    return f"{name}{_enclosed(', '.join([first, *rest]))}"


def _operator(expression: Call) -> str:
    function, arguments = expression.function, expression.arguments
    binding = PRECEDENCE[function]
    if function == "neg":
        return f"-{latex(arguments[0], binding)}"
    if function == "not":
        return rf"\lnot {latex(arguments[0], PRECEDENCE['neg'])}"
    if function == "/":
        return rf"\frac{{{latex(arguments[0])}}}{{{latex(arguments[1])}}}"
    if function == "^":
        return f"{latex(arguments[0], ATOM_PRECEDENCE)}^{{{latex(arguments[1])}}}"
    if function == "*":
        before, after = latex(arguments[0], binding), latex(arguments[1], binding + 1)
        after = _unsigned(after)
        # Two adjacent numbers would be read as one.
        return before + (r" \cdot " if after[0].isdigit() else r" \, ") + after
    is_sum = function in ("+", "-")
    first = latex(arguments[0], binding if is_sum else binding + 1)
    rest = [latex(argument, binding + 1) for argument in arguments[1:]]
    if is_sum:
        rest = list(map(_unsigned, rest))
    return f" {_SIGNS[function]} ".join([first, *rest])


def _unsigned(text: str) -> str:
    """Return a formula that can follow an operator: in parentheses if it has a sign."""
    return _enclosed(text) if text.startswith("-") else text


def latex_model(lines: ModelLines, history: str | None) -> str:
    """Return a model in LaTeX, with its lines aligned at `=`. `history` is the kind of
    the history if the text has no formula for it. A kind that a fit chooses has no
    formula yet."""
    until = {state: r"\le" for state in lines.states}
    until |= {line.name: "<" for line in lines.of("initial")}
    rows = [_row(line, until) for line in lines.model]
    if history in KINDS:
        has_several_states = len(lines.states) > 1
        for index, state in enumerate(lines.states):
            suffix = f"_{{{index}}}" if has_several_states else ""
            formula = KINDS[history].latex.replace("#", suffix)
            rows.append(_history_row(state, formula, until))
    if lines.observe:
        quantities = [
            latex(line.formula)
            if line.kind == "value"
            else f"{latex_name(line.name)} = {latex(line.formula)}"
            for line in lines.observe
        ]
        rows.append(r"\text{measured: } & " + r", \quad ".join(quantities))
    if len(rows) == 1:
        return rows[0].replace("&=", "=", 1)
    body = " \\\\\n".join(rows)
    return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"


def _row(line: ModelLine, until: Mapping[str, str]) -> str:
    name, formula = latex_name(line.name), latex(line.formula)
    if line.kind == "derivative":
        return rf"\frac{{d{name}}}{{dt}} &= {formula}"
    if line.kind == "history":
        return _history_row(line.name, formula, until)
    if line.kind == "initial":
        return f"{name}(0) &= {formula}"
    return f"{name} &= {formula}"


def _history_row(state: str, formula: str, until: Mapping[str, str]) -> str:
    """Return the history of a state, up to time zero or before it, as `until` says."""
    return rf"{latex_name(state)}(t) &= {formula} \quad (t {until[state]} 0)"
