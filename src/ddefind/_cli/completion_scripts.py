"""Scripts with which shells complete the words of this program.

All words are in the script, so that the tab key starts no Python."""

import shlex
from collections.abc import Callable, Sequence

from .completion_words import CommandWords, OptionWords

_PROGRAM_OPTIONS = {
    "--help": "Show the help and exit",
    "--version": "Print the version",
}

_BASH = """\
# Completion of ddefind for bash.
_ddefind() {{
  local word=$2 before=$3 offered=
  # In --solver=rk4 the sign = is a word of its own.
  if [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  if [[ $word == = ]]; then word=; fi
  if ((COMP_CWORD == 1)); then
    offered={commands}
  else
    case "${{COMP_WORDS[1]}} $before" in
{values}
      *)
        case "${{COMP_WORDS[1]}} $word" in
{options}
        esac
        ;;
    esac
  fi
  # Where nothing is offered, bash completes names of files.
  COMPREPLY=($(compgen -W "$offered" -- "$word"))
}}
complete -o default -F _ddefind ddefind"""

_ZSH = """\
#compdef ddefind
# Completion of ddefind for zsh.
_ddefind() {{
  local -a commands=(
{commands}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{options}
  esac
}}
# As a file of $fpath it is run, else it is registered.
if [[ $funcstack[1] == _ddefind ]]; then
  _ddefind "$@"
else
  compdef _ddefind ddefind
fi"""

_FISH = """\
# Completion of ddefind for fish.
function __ddefind_command
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test $words[2] = $argv[1]
end
complete -c ddefind -f
{lines}"""


def bash_script(commands: Sequence[CommandWords]) -> str:
    """Return the script for bash."""
    values, options = [], []
    for command in commands:
        free, files = [], []
        for each in command.options:
            patterns = [f'"{command.name} {flag}"' for flag in each.flags]
            if each.values:
                words = shlex.quote(" ".join(each.values))
                values.append(f"      {' | '.join(patterns)}) offered={words} ;;")
            elif each.placeholder:
                (files if each.is_file else free).extend(patterns)
        if free:  # what follows is no file
            values.append(
                f"      {' | '.join(free)}) compopt +o default 2> /dev/null ;;"
            )
        if files:
            values.append(f"      {' | '.join(files)}) ;;")
        flags = " ".join(flag for each in command.options for flag in each.flags)
        options.append(f"          \"{command.name} -\"*) offered='{flags}' ;;")
        if command.arguments and command.arguments.values:
            words = shlex.quote(" ".join(command.arguments.values))
            options.append(f'          "{command.name} "*) offered={words} ;;')
    names = " ".join([*(each.name for each in commands), *_PROGRAM_OPTIONS])
    return _BASH.format(
        commands=shlex.quote(names),
        values="\n".join(values),
        options="\n".join(options),
    )


def zsh_script(commands: Sequence[CommandWords]) -> str:
    """Return the script for zsh."""
    named = [(each.name, each.help) for each in commands]
    lines = [
        "    " + shlex.quote(f"{name}:{_in_zsh(help)}")
        for name, help in (*named, *_PROGRAM_OPTIONS.items())
    ]
    options = []
    for command in commands:
        words = [_zsh_option(each) for each in command.options]
        if command.arguments:
            words.append(shlex.quote(f"*{_zsh_action(command.arguments)}"))
        arguments = " \\\n      ".join(words)
        options.append(f"    {command.name}) _arguments \\\n      {arguments} ;;")
    return _ZSH.format(commands="\n".join(lines), options="\n".join(options))


def _zsh_option(option: OptionWords) -> str:
    """Return an option as `_arguments` reads it."""
    what = f"[{_in_zsh(option.help)}]"
    flags = list(option.flags)
    if option.placeholder:
        what += _zsh_action(option)
        # A value is the next word or, with a long name, follows the sign =.
        flags = [f"{each}=" if each.startswith("--") else each for each in flags]
    before = "*" if option.is_repeated else f"({' '.join(option.flags)})"
    return " ".join(shlex.quote(f"{before}{flag}{what}") for flag in flags)


def _zsh_action(option: OptionWords) -> str:
    """Return what follows an option, as `_arguments` reads it."""
    action = f"({' '.join(option.values)})" if option.values else " "
    if option.is_file:
        action = "_files"
    return f":{_in_zsh(option.placeholder)}:{action}"


def _in_zsh(text: str) -> str:
    """Return a text with the signs escaped that mean something to `_arguments`."""
    for sign in ("\\", ":", "[", "]"):
        text = text.replace(sign, "\\" + sign)
    return text


def fish_script(commands: Sequence[CommandWords]) -> str:
    """Return the script for fish."""
    first = "complete -c ddefind -n 'test (count (commandline -opc)) -eq 1'"
    lines = [f"{first} -a {each.name} -d {_in_fish(each.help)}" for each in commands]
    for flag, help in _PROGRAM_OPTIONS.items():
        lines.append(f"{first} -l {flag.removeprefix('--')} -d {_in_fish(help)}")
    for command in commands:
        within = f"complete -c ddefind -n '__ddefind_command {command.name}'"
        lines += [f"{within} {_fish_option(each)}" for each in command.options]
        if command.arguments:
            lines.append(f"{within} {_fish_action(command.arguments)}")
    return _FISH.format(lines="\n".join(lines))


def _fish_option(option: OptionWords) -> str:
    """Return an option as fish's `complete` reads it."""
    words = [
        f"-l {flag.removeprefix('--')}" if flag.startswith("--") else f"-s {flag[1:]}"
        for flag in option.flags
    ]
    if option.placeholder:
        words.append("-r" if option.is_file else "-x")
        words.append(_fish_action(option))
    return " ".join([*filter(None, words), f"-d {_in_fish(option.help)}"])


def _fish_action(option: OptionWords) -> str:
    """Return what follows an option, as fish's `complete` reads it."""
    if option.values:
        return f"-a {_in_fish(' '.join(option.values))}"
    return "-F" if option.is_file else ""


def _in_fish(text: str) -> str:
    """Return a text in the quotes of fish."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SCRIPTS: dict[str, Callable[[Sequence[CommandWords]], str]] = {
    "bash": bash_script,
    "zsh": zsh_script,
    "fish": fish_script,
}
