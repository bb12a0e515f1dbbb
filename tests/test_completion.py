"""Real shells complete commands, options, values of options and names of files."""

import os
import pty
import re
import select
import shutil
import subprocess
import time
from contextlib import contextmanager
from typing import Any

import pytest
import typer

from ddefind._cli.figure_formats import FORMATS
from ddefind._cli.main import app
from ddefind._equation.history_kinds import CHOSEN_BY_FIT
from ddefind._problem.history import KINDS
from ddefind.noise._read_noise import WORDS
from ddefind.paper._experiments import EXPERIMENTS, PROTOCOLS
from support.command import refused, run

# What is typed, and what stands there after the tab key.
TYPED = [
    ("ddefind simu", "ddefind simulate "),
    ("ddefind fit --sol", "ddefind fit --solver"),
    ("ddefind fit --solver ra", "ddefind fit --solver radau "),
    ("ddefind fit --solver=ra", "ddefind fit --solver=radau "),
    ("ddefind paper --prot", "ddefind paper --protocol"),
    ("ddefind paper ch", "ddefind paper cheyne "),
    ("ddefind fit lake", "ddefind fit lake.csv "),
    ("ddefind show deep", "ddefind show deep/"),
    ("ddefind fit --config deep/f", "ddefind fit --config deep/fit.toml "),
    ("ddefind fit lake.csv --starts 8 --his", "--history"),
    ("ddefind completion z", "ddefind completion zsh "),
]
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "bind 'set bell-style none'\n"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u -D\n"),
}


def commands() -> dict[str, Any]:
    program: Any = typer.main.get_command(app)
    return program.commands


def script(shell, capsys):
    assert run("completion", shell) == 0
    return capsys.readouterr().out


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "lake.csv").write_text("t,x\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "fit.toml").write_text("")
    return tmp_path


@contextmanager
def terminal(command, folder):
    """A shell on a terminal of its own: what is sent to it, and what it shows."""
    master, slave = pty.openpty()
    settings = {"TERM": "dumb", "PS1": "> ", "HOME": str(folder), "COLUMNS": "200"}
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | settings,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    shown = ""

    def send(text, expected):
        """Send keys; whether the expected text is shown soon."""
        nonlocal shown
        shown = ""
        os.write(master, text.encode())
        end = time.monotonic() + 20
        while expected not in shown and time.monotonic() < end:
            if select.select([master], [], [], 0.1)[0]:
                read = os.read(master, 4096).decode(errors="replace")
                shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x07|\x1b[=>]", "", read)
        assert expected in shown, shown

    try:
        yield send
    finally:
        child.kill()
        child.wait()
        os.close(master)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_what_is_typed(shell, folder, capsys):
    command, settings = SHELLS[shell]
    if shutil.which(shell) is None:
        pytest.skip(f"There is no {shell} here.")
    (folder / "script").write_text(script(shell, capsys))
    with terminal(command, folder) as send:
        # The echoed line has no sum in it.
        send(f"{settings}source ./script; echo read-$((40 + 2))\n", "read-42")
        for typed, completed in TYPED:
            send(f"{typed}\t", completed)
            send("\x15echo next-$((40 + 2))\n", "next-42")


@pytest.mark.skipif(shutil.which("fish") is None, reason="There is no fish here.")
def test_fish_completes_what_is_typed(folder, capsys):
    (folder / "script").write_text(script("fish", capsys))
    lines = "; ".join(f"complete -C '{typed}'; echo ==" for typed, _ in TYPED)
    shown = subprocess.run(
        ["fish", "--no-config", "-c", f"source script; {lines}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not shown.stderr
    for (_, completed), offered in zip(TYPED, shown.stdout.split("==\n")):
        words = [line.split("\t")[0] for line in offered.splitlines()]
        assert words == [completed.split()[-1]]


def test_every_command_has_its_options_in_every_script(capsys):
    assert len(commands()) > 8
    for shell in ("bash", "zsh", "fish"):
        written = script(shell, capsys)
        for name, command in commands().items():
            assert name in written
            for option in command.params:
                if option.param_type_name == "option":
                    assert option.opts[0].strip("-") in written


def test_offered_values_are_those_that_the_commands_take():
    offered = {
        (name, option.opts[0]): {i.value for i in option.shell_complete(None, "")}
        for name, command in commands().items()
        for option in command.params
    }
    assert offered["fit", "--format"] == set(FORMATS)
    assert offered["fit", "--noise"] == offered["simulate", "--noise"] == set(WORDS)
    assert offered["paper", "--protocol"] == set(PROTOCOLS)
    assert offered["paper", "models"] == set(EXPERIMENTS)
    assert offered["fit", "--history"] == {*KINDS, *CHOSEN_BY_FIT}
    assert offered["paper", "--noise"] == set()


def test_another_shell_is_refused(capsys):
    assert "bash, zsh, fish" in refused(capsys, "completion", "powershell")
