"""`equation` reads a model that is written as text. The `Equation` makes problems.

Each part of a problem has one program of formulas. A name that occurs in several parts
is one parameter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import jax
import numpy as np

from .._problem.doses import Doses
from .._problem.free_parameters import is_name
from .._problem.inputs import AbstractInput
from .._problem.network import Network
from .._problem.parameters import Fixed, Tied, finite_numbers, with_values
from .._problem.problem import Problem
from .expression import Expression, Name
from .formula_modules import (
    FormulaProgram,
    ModuleKind,
    delay_program,
    make_program,
    module_class,
    switch_times,
)
from .given_tables import (
    NotGiven,
    check_all_given,
    input_names,
    read_doses,
    read_inputs,
)
from .history_kinds import blank_history, read_history
from .latex import latex_model
from .model_lines import ModelLines, joined, read_lines
from .network_names import read_networks
from .problem_template import ProblemTemplate


def _delay_path(key: str) -> str:
    """Return the path of a delay in the problem: `tau.lag`, or `tau['2 * lag']`."""
    return f"tau.{key}" if is_name(key) else f"tau[{key!r}]"


def _ties(programs: Mapping[str, FormulaProgram], doses: Doses | None) -> Any:
    """Return the settings that tie each parameter to the first with the same name."""
    rhs, first = programs["rhs"], {"tau": "tau"}
    if rhs.has_several_delays:
        # The parameter of a neutral delay with a name is a field of the delay.
        first = {
            key: f"tau.{key}" if rhs.is_number(delay) else f"tau.{key}.{key}"
            for key, delay in rhs.delays_by_text.items()
            if isinstance(delay, Name)
        }
    places = [
        (name, f"{place}.{name}")
        for place, program in programs.items()
        for name in program.parameters
    ]
    if doses is not None:
        places += [(name, f"doses.values.{name}") for name in doses.values]
    return {
        path: Tied(first[name])
        for name, path in places
        if first.setdefault(name, path) != path
    }


@final
@dataclass(frozen=True)
class Equation:
    r"""A delay differential equation that is given as text.

    `equation` makes it from the text, and the method `problem` makes a problem from it
    by giving values to the parameters.

    >>> model = dd.equation("x' = r * x * (1 - x(t - tau) / K)")
    >>> model.states, model.names
    (('x',), ('r', 'K', 'b', 'tau'))
    >>> model.problem(r=1.0, K=2.0, b=0.5, tau=0.8).rhs.K
    Array(2., dtype=float64)
    >>> print(model)
    x' = r * x * (1 - x(t - tau) / K)
    """

    lines: ModelLines
    # The name of a kind of history, a tuple of numbers, or a history. None if the text
    # has formulas for the history.
    history: Any
    # The inputs that are given, by name.
    given: Mapping[str, AbstractInput] = field(default_factory=dict, hash=False)
    doses: Doses | None = field(default=None, hash=False)
    # The networks that are given, by name; others have the usual size.
    networks: Mapping[str, Network] = field(default_factory=dict, hash=False)

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states, in the order of their equations."""
        return self.lines.states

    @property
    def observed(self) -> tuple[str, ...]:
        """The names of the measured quantities, which by default are the states."""
        return tuple(line.name for line in self.lines.observe) or self.states

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs: known functions of time."""
        return self.lines.inputs

    @property
    def network_names(self) -> tuple[str, ...]:
        """The names of the networks, which stand as `NN(...)` in the text."""
        parts = ("rhs", "history", "observe")
        return tuple(name for part in parts for name in self._programs[part].networks)

    @property
    def delayed(self) -> bool:
        """Whether an equation contains a delayed state or input."""
        return bool(self._delays)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, as results show them."""
        return tuple(self._template.names)

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the parameters to which `problem` must give a value."""
        return tuple(self._template.required)

    @property
    def settings(self) -> dict[str, Fixed | Tied]:
        """The settings of the parameters that the text implies, for `dd.fit`.

        A name that occurs in several parts of the model is one parameter, so that the
        later ones are tied to the first. A single delay is fixed if the text gives it
        as a number, or if nothing depends on it. The length of a spline history is this
        delay.

        >>> model = dd.equation("x' = K - x(t - 2); x(t<=0) = K / 2")
        >>> model.settings
        {'history.K': Tied(to='rhs.K'), 'tau': Fixed(value=2.0)}
        """
        settings: dict[str, Fixed | Tied] = _ties(self._programs, self.doses)
        if self.history == "spline" and not self._has_several_delays:
            settings["history.length"] = Tied("tau")
        if self._delay_in_text is not None:
            settings["tau"] = Fixed(self._delay_in_text)
        elif not self.needs_tau:
            settings["tau"] = Fixed()
        return settings

    def problem(
        self,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        inputs: Mapping[str, Any] | None = None,
        doses: Any = None,
        networks: Mapping[str, Network] | None = None,
        **named: Any,
    ) -> Problem:
        """Return the problem with the given values of the parameters, by name. `inputs`
        are the inputs by name, each an `Input` or a formula of t; `doses` are a list of
        `Dose` and `SetState`; `networks` are other networks by name. Networks have
        random weights.

        >>> model = dd.equation("x' = -k * x(t - tau)", history=1.0)
        >>> dd.parameter_values(model.problem(k=2.0, tau=0.5))
        {'k': 2.0, 'b': 1.0, 'tau': 0.5}
        """
        model = self if networks is None else self.with_networks(networks)
        model = model if inputs is None else model.with_inputs(inputs)
        model = model if doses is None else model.with_doses(doses)
        if model is not self:
            return model.problem(values, **named)
        check_all_given(self.inputs, self.given)
        given = [*(values or {}).items(), *named.items()]
        for key, value in given:
            is_fixed = key == "tau" and self._delay_in_text is not None
            if is_fixed and finite_numbers(key, value, 1)[0] != self._delay_in_text:
                raise ValueError(
                    f"The text gives the delay as {self._delay_in_text:g}. Write "
                    "x(t - tau) in it to choose `tau` here."
                )
        return self._template.fill(given)

    @property
    def blank(self) -> Problem:
        """The problem with NaN in place of every value that the text does not give."""
        check_all_given(self.inputs, self.given)
        return with_values(self._template.blank, self._template.known)

    def with_history(self, history: Any) -> "Equation":
        """Return the same equations with another history, given as for `equation`.

        >>> dd.equation("x' = -x(t - tau)").with_history("affine").names
        ('a', 'b', 'tau')
        """
        kept = tuple(line for line in self.lines.model if line.kind != "history")
        lines = ModelLines(kept, self.lines.observe, self.lines.inputs)
        return _make(lines, history, self.given, self.doses, self.networks)

    def with_inputs(self, inputs: Mapping[str, Any]) -> "Equation":
        """Return the same equations with these inputs, by name: each is an `Input`, or
        a formula of t as a text.

        >>> model = dd.equation("x' = u(t - tau) - x", inputs=("u",))
        >>> model.with_inputs({"u": "1 + sin(t)"}).names
        ('b', 'tau')
        """
        given = {**self.given, **read_inputs(self.lines, inputs)}
        return replace(self, given=given)

    def with_doses(self, doses: Any) -> "Equation":
        """Return the same equations with doses, a list of `Dose` and `SetState`.

        >>> model = dd.equation("x' = -k * x(t - tau)")
        >>> model.with_doses([dd.Dose("x", "F", time=2.0)]).names
        ('k', 'b', 'tau', 'F')
        """
        return replace(self, doses=read_doses(self.lines, doses))

    def with_networks(self, networks: Mapping[str, Network]) -> "Equation":
        """Return the same equations with other networks, by name.

        >>> model = dd.equation("x' = NN(x(t - tau)) - x")
        >>> wide = model.with_networks({"NN": dd.Network(width=32, positive=True)})
        >>> wide.problem(b=1.0, tau=1.0).rhs.NN.width
        32
        """
        given = {**self.networks, **read_networks(self.network_names, networks)}
        return replace(self, networks=given)

    def latex(self) -> str:
        r"""Return the model in LaTeX.

        >>> print(dd.equation("x' = r * x / (1 + x(t - tau)^n)").latex())
        \begin{aligned}
        \frac{dx}{dt} &= \frac{r \, x}{1 + x(t - \tau)^{n}} \\
        x(t) &= b \quad (t \le 0)
        \end{aligned}
        """
        kind = "constant" if isinstance(self.history, tuple) else self.history
        return latex_model(self.lines, kind if isinstance(kind, str) else None)

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {self.latex()}$"

    def __str__(self) -> str:
        arguments = self._arguments().items()
        comments = [f"# {name}: {_in_one_line(value)}" for name, value in arguments]
        return "\n".join([*map(str, self.lines.model), *comments])

    @property
    def texts(self) -> tuple[str, str | None]:
        """The arguments `text` and `observe` with which `equation` makes this model."""
        observe = self.lines.observe
        return joined(self.lines.model), joined(observe) if observe else None

    def __repr__(self) -> str:
        arguments = [f", {name}={value!r}" for name, value in self._arguments().items()]
        return f"dd.equation({joined(self.lines.model)!r}{''.join(arguments)})"

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of `equation` but for the text and default values."""
        arguments = {}
        if self.history not in (None, "constant"):
            is_numbers = isinstance(self.history, tuple)
            arguments["history"] = list(self.history) if is_numbers else self.history
        if self.lines.observe:
            arguments["observe"] = joined(self.lines.observe)
        if self.inputs:
            arguments["inputs"] = self.inputs
        usual = repr(Network())
        given = {n: net for n, net in self.networks.items() if repr(net) != usual}
        if given:
            arguments["networks"] = given
        return arguments

    @cached_property
    def _programs(self) -> dict[str, FormulaProgram]:
        """The formulas of each part of the problem, by the path of its parameters."""
        rhs = make_program("rhs", self.lines)
        delays = {
            _delay_path(key): delay_program(rhs, delay)
            for key, delay in rhs.delays_by_text.items()
            if rhs.has_several_delays and not rhs.is_number(delay)
        }
        kinds: tuple[ModuleKind, ...] = ("history", "initial", "observe")
        others = {kind: make_program(kind, self.lines) for kind in kinds}
        return {"rhs": rhs, **delays, **others}

    @property
    def _delays(self) -> dict[str, Expression]:
        """The distinct delays in the equations, by their texts."""
        return self._programs["rhs"].delays_by_text

    @property
    def _has_several_delays(self) -> bool:
        """Whether the problem's `tau` is a dict, and not one number."""
        return self._programs["rhs"].has_several_delays

    @property
    def _delay_in_text(self) -> float | None:
        """The delay, if there is one and the text gives it as a number."""
        if self._has_several_delays:
            return None
        return next((delay.value for delay in self._delays.values()), None)

    @property
    def needs_tau(self) -> bool:
        """Whether anything depends on the delay, or on one of several delays."""
        return self.delayed or self._contains("tau")

    @property
    def depends_on_time(self) -> bool:
        """Whether a formula contains the time itself, other than in delayed states."""
        return self._contains("t")

    def _contains(self, name: str) -> bool:
        programs = self._programs.values()
        return any(part == Name(name) for program in programs for part in program.parts)

    @cached_property
    def _template(self) -> ProblemTemplate:
        tied = {k: s.to for k, s in self.settings.items() if isinstance(s, Tied)}
        # The template is cached. If this runs while JAX traces a function, its arrays
        # must not become part of that trace.
        with jax.ensure_compile_time_eval():
            if self.history is None:
                history = self._module("history")
            else:
                history = blank_history(self.history, len(self.states))
            blank = Problem(
                self._module("rhs", (*self.texts, self.inputs)),
                history,
                tau=self._blank_tau(),
                initial=self._module("initial"),
                observe=self._module("observe"),
                switches=switch_times(self._programs["rhs"]),
                doses=self.doses,
            )
        tau_known = self._delay_in_text is not None or not self.needs_tau
        return ProblemTemplate(blank, tied, tau_known)

    def _blank_tau(self) -> Any:
        """Return the delays. One with a name of its own is 1 until it has a value."""
        if self._has_several_delays:
            return {
                key: 1.0
                if self._programs["rhs"].is_number(delay)
                else self._module(_delay_path(key))
                for key, delay in self._delays.items()
            }
        # If nothing depends on the delay, it only sets the step size.
        return 1.0 if self._delay_in_text is None else self._delay_in_text

    def _module(self, part: str, texts: Any = None) -> Any:
        """Return the module of a part of the problem, or None without formulas. Its
        parameters are NaN, and an input that is not given yet is zero."""
        program = self._programs[part]
        if not program.outputs:
            return None
        inputs = [self.given.get(name, NotGiven()) for name in program.inputs]
        networks = [self.networks.get(name, Network()) for name in program.networks]
        values: Any = [*[np.nan] * len(program.parameters), *inputs, *networks]
        make: Any = module_class(program)
        return make(*values, texts=texts)


def _in_one_line(value: Any) -> str:
    """Return an argument of `equation` in one line."""
    names = isinstance(value, tuple) and all(isinstance(each, str) for each in value)
    return ", ".join(value) if names else " ".join(str(value).split())


def equation(
    text: str,
    *,
    history: Any = None,
    observe: str | None = None,
    inputs: Sequence[str] = (),
    networks: Mapping[str, Network] | None = None,
) -> Equation:
    """Read a model from the text of its equations.

    **Arguments**

    - `text`: one equation `x' = ...` (or `dx/dt = ...`) for each state, on separate
      lines or separated by `;`. In formulas, `t` is the time and `x(t - tau)` a delayed
      state. There may be several delays, with any names, and a delay may be a formula
      of parameters, of t and of states: `x(t - 2 * tau_1)`, `x(t - a / (1 + x))`,
      `x(t / 2)`. `x'(t - tau)` is the slope of the delayed state, and `delay(x,
      gamma(mean, shape))` its mean over a distribution of delays: `gamma`,
      `uniform(low, high)`, `lognormal(mean, sd)`, `weibull(mean, shape)` or
      `inverse_gaussian(mean, sd)`. A line `f = ...` gives a formula a name, and
      `f(t - tau)` is its delayed value. `NN(...)`, or a name that begins with `NN_`,
      is an unknown function of its arguments, which a fit learns as a neural network:
      `NN_uptake(x(t - tau))`. Every other name is a parameter. A line
      `x(t<=0) = ...` is the history of a state, and `x(0) = ...` its value at time
      zero, if that differs. Conditions on the time, such as `t > 5`, are switches of
      the problem.
    - `history`: the history, if the text has none. It is `"constant"` (the default),
      `"affine"`, `"periodic"`, `"spline"` or `"neural"`; or numbers, for a constant
      history with these values; or a history such as `dd.Affine(a=1.0, b=2.0)`. With
      `"auto"` a fit chooses the kind, and with `"data"` it takes the beginning of the
      data as the past.
    - `observe`: the measured quantities, if they are not the states: one formula, or
      several as `name = ...`.
    - `inputs`: the names of the inputs, which are known functions of time, such as a
      measured temperature. A formula reads an input as `u`, or as `u(t - tau)`.
    - `networks`: networks of other sizes and shapes than usual, by name, as `{"NN":
      dd.Network(width=32, positive=True)}`.

    >>> model = dd.equation("T' = s - k * T * V(t - tau); V' = N * T - c * V")
    >>> model.names
    ('s', 'k', 'N', 'c', 'b[0]', 'b[1]', 'tau')
    >>> dd.equation("x' = -k * x(t - tau_1) + x(t - tau_1 - tau_2)").names
    ('k', 'b', 'tau_1', 'tau_2')
    >>> dd.equation("x' = -sine(x)")
    Traceback (most recent call last):
    ...
    ddefind...EquationError: There is no function 'sine'. Did you mean 'sin'?
      line 1: x' = -sine(x)
                    ^
    """
    model = _make(read_lines(text, observe, input_names(inputs)), history)
    return model if networks is None else model.with_networks(networks)


def _make(lines: ModelLines, history: Any, *given: Any) -> Equation:
    model = Equation(lines, read_history(history, lines), *given)
    if callable(model.history):
        model.names  # noqa: B018  This checks the dimension of the history.
    return model
