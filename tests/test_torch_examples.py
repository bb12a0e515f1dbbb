"""The examples with torch run, and learn what they say."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()


def test_a_torch_module_in_and_a_torch_module_out(capsys):
    found = run("torch_fit")
    assert abs(found["tau"] - 1) < 0.02 and found["error"] < 0.2
    assert "crowding" in capsys.readouterr().out


def test_a_plain_torch_training_loop(capsys):
    found = run("torch_training_loop")
    assert list(found) == ["tau", "rhs.beta", "rhs.gamma"]
    for value, true in zip(found.values(), (1.5, 2.0, 1.0)):
        assert abs(value - true) < 0.03
    assert "epoch  60" in capsys.readouterr().out
