"""What is written on the command line: values, ranges, histories."""

import math
from functools import partial

import pytest

from ddefind._cli.parse_options import (
    OptionError,
    parse_assignments,
    parse_bounds,
    parse_columns,
    parse_history,
    parse_number,
    parse_priors,
    parse_whole,
    read_prior,
)


@pytest.mark.parametrize(
    "text, name, lower, upper",
    [
        ("K in [0, 10]", "K", 0, 10),
        ("K in (0,10)", "K", 0, 10),
        ("K in [0; 10]", "K", 0, 10),
        ("  K  in[ -1.5e-3 , inf ] ", "K", -1.5e-3, math.inf),
        ("b[0] in [0, 1]", "b[0]", 0, 1),
        ("history.A[1] > 0", "history.A[1]", 0, math.inf),
        ("K > 0", "K", 0, math.inf),
        ("K>=0", "K", 0, math.inf),
        ("K < 3", "K", -math.inf, 3),
        ("0 < K", "K", 0, math.inf),
        ("3 >= K", "K", -math.inf, 3),
        ("0 < K < 10", "K", 0, 10),
        ("0<=K<=10", "K", 0, 10),
        ("10 > K > 0", "K", 0, 10),
        ("-2 < tau <= -1", "tau", -2, -1),
        (".5 < e2 < 1.", "e2", 0.5, 1),
    ],
)
def test_ranges_as_people_write_them(text, name, lower, upper):
    assert parse_bounds("--bounds", [text]) == {name: (lower, upper)}


def test_two_sides_may_come_apart():
    expected = {"K": (0, 10), "r": (-math.inf, 1)}
    assert parse_bounds("--bounds", ["K > 0", "r < 1", "K < 10"]) == expected


@pytest.mark.parametrize(
    "texts, message",
    [
        (["K"], "needs a range"),
        (["K = 3"], "needs a range"),
        (["K between 0 and 1"], "needs a range"),
        (["0 < K > 1"], "needs a range"),
        (["0 < 1"], "needs a range"),
        (["K in [0]"], "needs a range"),
        (["K in [a, b]"], "needs a range"),
        (["K in [nan, 1]"], "needs a range"),
        (["1e > K"], "needs a range"),
        (["K\x00 > 1"], "needs a range"),
        (["x" * 10_000], "needs a range"),
        (["K in [3, 1]"], "the lower one first, but got 3 and 1"),
        (["K in [1, 1]"], "the lower one first"),
        (["10 < K < 0"], "the lower one first"),
        (["K > 3", "K < 1"], "the lower one first"),
        (["K < 1", "K in [0, 2]"], "limits 'K' twice on one side"),
    ],
)
def test_other_ranges_are_refused(texts, message):
    with pytest.raises(OptionError, match="bounds") as caught:
        parse_bounds("--bounds", texts)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


def test_values_by_name():
    given = ["m=8", " r = -1.5e-3", "b=1,2", "history.b[1]=.5", "s=+3"]
    assert parse_assignments("--set", given) == {
        "m": 8.0,
        "r": -1.5e-3,
        "b": [1.0, 2.0],
        "history.b[1]": 0.5,
        "s": 3.0,
    }


@pytest.mark.parametrize(
    "texts, found",
    [
        ([], None),
        (["affine"], "affine"),
        (["0.5"], [0.5]),
        (["10", "2"], [10, 2]),
        (["10, 2", "-3"], [10, 2, -3]),
    ],
)
def test_histories(texts, found):
    assert parse_history("--history", texts) == found


def test_numbers():
    assert parse_number(" 1e-3 ") == 1e-3
    assert parse_number("1e400") == math.inf
    assert parse_number("0x10") is parse_number("") is parse_number("1,5") is None


@pytest.mark.parametrize(
    "texts, columns",
    [
        ([], None),
        (["a, b"], ["a", "b"]),
        (["a", "b"], ["a", "b"]),
        (["hare=Hare (n/km2)"], {"hare": "Hare (n/km2)"}),
        (["hare=Hare, wild,lynx = Lynx"], {"hare": "Hare, wild", "lynx": "Lynx"}),
        (["hare=A=B", "lynx"], {"hare": "A=B", "lynx": "lynx"}),
    ],
)
def test_columns(texts, columns):
    assert parse_columns("--columns", texts) == columns


def test_priors():
    priors = parse_priors(
        "--prior", ["K ~ normal(2, 0.5)", "b[0]~lognormal( 1e-2 , 3)"]
    )
    assert read_prior(priors["K"]) == ("normal", 2.0, 0.5)
    assert read_prior(priors["b[0]"]) == ("lognormal", 0.01, 3.0)


def refused():
    """Each way to read an option, with texts that it refuses and what it asks for."""
    values = ("m", "m=", "=8", "m=8x", "m=nan", "m=inf", "m==8", "m=8,", "8=m")
    for text in (*values, "m=1_0", "m=٣"):
        yield parse_assignments, "--set", [text], "`--set` needs NAME=NUMBER"
    for texts in (["a,,b"], ["a="], ["=a"], ["a", "a"]):
        yield parse_columns, "--columns", texts, "`--columns`"
    normal = ("gamma(1, 2)", "normal(1)", "normal(1, -1)", "normal(inf, 1)")
    for prior in ("", *normal, "lognormal(0, 2)", "lognormal(1, 1)"):
        yield parse_priors, "--prior", [f"K ~ {prior}"], "`--prior`"
    for text in ("K", "~ normal(1, 1)"):
        yield parse_priors, "--prior", [text], "`--prior` needs a distribution"
    for text in ("many", "-1", "1.5", "", "1e2"):
        yield parse_whole, "--starts", text, "`--starts` needs a whole number from 0 on"
    larger = partial(parse_whole, least=1)
    yield larger, "--starts", "0", "`--starts` needs a whole number from 1 on"
    yield parse_assignments, "--set", ["m=8", "m=8"], "gives 'm' twice"
    yield parse_history, "--history", ["affine", "2"], "a kind, as .* or numbers"


@pytest.mark.parametrize("parse, flag, texts, message", list(refused()))
def test_other_texts_are_refused(parse, flag, texts, message):
    with pytest.raises(OptionError, match=message):
        parse(flag, texts)
