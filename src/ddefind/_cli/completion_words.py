"""The words that a shell can complete, read from the commands and their options."""

import re
import textwrap
from dataclasses import dataclass
from typing import Any, final

# Placeholders of options and arguments that are files or folders.
_FILES = ("FILE", "DIR", "PLACE", "DATA", "RESULT")
_HELP = "Show the help of this command and exit"
_LONGEST_HELP = 72


@final
@dataclass(frozen=True)
class OptionWords:
    """An option, or an argument (without `flags`), and what may follow it: one of the
    `values`, a file, or anything else. `placeholder` is empty for one that stands
    alone."""

    flags: tuple[str, ...]
    placeholder: str
    values: tuple[str, ...]
    is_repeated: bool
    help: str

    @property
    def is_file(self) -> bool:
        """Whether a name of a file follows."""
        return self.placeholder.startswith(_FILES)


@final
@dataclass(frozen=True)
class CommandWords:
    """A command with its options, and with its arguments if it has any."""

    name: str
    help: str
    options: tuple[OptionWords, ...]
    arguments: OptionWords | None


def command_words(program: Any, context: Any) -> list[CommandWords]:
    """Return the words of all commands of a program of typer."""
    words = []
    for name, command in program.commands.items():
        read = [_option_words(each, context) for each in command.params]
        options = [each for each in read if each.flags]
        options.append(OptionWords(("--help",), "", (), False, _HELP))
        arguments = next((each for each in read if not each.flags), None)
        help = first_sentence(command.help or "")
        words.append(CommandWords(name, help, tuple(options), arguments))
    return words


def _option_words(parameter: Any, context: Any) -> OptionWords:
    is_option = parameter.param_type_name == "option"
    is_alone = is_option and parameter.is_flag
    return OptionWords(
        tuple(parameter.opts) if is_option else (),
        "" if is_alone else (parameter.metavar or "VALUE"),
        tuple(item.value for item in parameter.shell_complete(context, "")),
        is_option and parameter.multiple or parameter.nargs == -1,
        first_sentence(parameter.help or ""),
    )


def first_sentence(text: str) -> str:
    """Return the first sentence of a help text, in one line.

    >>> first_sentence("The seed. It is 0 by default.")
    'The seed'
    """
    first = re.split(r"(?<=[\w)])[.:;] ", " ".join(text.split()))[0]
    return textwrap.shorten(first.rstrip("."), _LONGEST_HELP, placeholder=" ...")
