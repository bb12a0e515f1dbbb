"""The numbers behind the page, and functions that format them."""

import json
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ddefind.paper import EXPERIMENTS, NOISE, LevelResults, load_results

# The protocols of the paper's kind, by gradient descent; and all protocols.
PROTOCOLS = ("published", "stated", "corrected")
ALL = (*PROTOCOLS, "best")
# The paper's tables, by model and noise level.
CELLS = tuple((model, noise) for model in EXPERIMENTS for noise in NOISE)
# The tables whose means must agree with ours. HIV's delay at 0.1 is known not to.
LOW = tuple(cell for cell in CELLS if cell[1] < 0.9 and cell != ("hiv", 0.1))


@dataclass(frozen=True)
class Numbers:
    """The results of `ddefind paper` by protocol, model and noise level, and the
    measurements of `studies.paper_claims` by name."""

    levels: dict[tuple[str, str, float], LevelResults]
    claims: dict[str, Any]

    @staticmethod
    def load(folder: Path) -> "Numbers":
        """The numbers that are kept in `studies/results`."""
        levels = {
            (protocol, results.model, results.noise): results
            for protocol in ALL
            for results in load_results(folder / "paper" / f"{protocol}.json")
        }
        text = (folder / "paper_claims.json").read_text("utf-8")
        return Numbers(levels, json.loads(text))

    def results(self, protocol: str, model: str, noise: float) -> LevelResults:
        return self.levels[protocol, model, noise]

    def rms(self, protocol: str, model: str, noise: float) -> float:
        """The root mean square of z: how far our means are from the printed ones."""
        return self.results(protocol, model, noise).rms_z()


def claim(holds: bool, sentence: str) -> str:
    """The sentence, if the numbers support it. Otherwise the script stops."""
    if not holds:
        raise SystemExit(f"No longer true: {' '.join(sentence.split())}")
    return sentence


def title(model: str) -> str:
    """The model's name as a heading shows it."""
    return EXPERIMENTS[model].title


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, with numbers aligned to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines).replace("T*", r"T\*")


def number(x: float, form: str = ".4f") -> str:
    """A number, or a dash where there is none."""
    return format(x, form) if np.isfinite(x) else "–"


def spread(mean: float, sd: float) -> str:
    """A mean with its standard deviation, where there is one."""
    return f"{mean:.4f} ± {sd:.4f}" if np.isfinite(sd) else f"{mean:.4f}"


def percent(x: float) -> str:
    """A share in percent, with two significant digits.

    >>> percent(1.203), percent(0.0714), percent(3.1e-6)
    ('120%', '7.1%', '0.00031%')
    """
    digits = max(0, 1 - int(np.floor(np.log10(100 * abs(x))))) if x else 0
    return f"{100 * x:.{digits}f}%"


def prose(text: str) -> str:
    """Wrap paragraphs and list items; leave headings, tables and code as they are."""
    parts = re.split(r"\n\s*\n", textwrap.dedent(text).strip())
    return "\n\n".join(part if _is_fixed(part) else _wrapped(part) for part in parts)


def _is_fixed(part: str) -> bool:
    return part.startswith(("|", "#", "```", "!["))


def _wrapped(part: str) -> str:
    items = re.split(r"\n(?=- |\d+\. )", part)
    return "\n".join(_fill(" ".join(item.split())) for item in items)


def _fill(line: str) -> str:
    marker = re.match(r"- |\d+\. ", line)
    indent = " " * len(marker[0]) if marker else ""
    # A formula must stay on one line.
    whole = re.sub(r"\$[^$]+\$", lambda m: m[0].replace(" ", "\0"), line)
    filled = textwrap.fill(
        whole,
        width=88,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace("\0", " ")
