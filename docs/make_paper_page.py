"""Write `reproducing-the-paper.md` and its figure.

Every number of the page comes from `paper-results/` and `paper-studies.json`, and every
claim is checked against them: where they no longer support a sentence, the script
stops. Run it as `python docs/make_paper_page.py`.
"""

from pathlib import Path

from ddefind._util.text_files import write_whole
from ddefind.paper import EXPERIMENTS
from ddefind.paper._output import draw_legend, draw_trajectories
from paper_page.agreement import beginning, summary, tables
from paper_page.best import best
from paper_page.ending import duration, errata
from paper_page.estimates import bound, constants, reached, starts
from paper_page.gradients import routes, steps
from paper_page.numbers import Numbers

HERE = Path(__file__).parent
SECTIONS = (
    *(beginning, summary, tables, bound, reached),
    *(constants, starts, best, steps, routes, errata, duration),
)


def page(numbers: Numbers) -> str:
    return "\n\n".join(section(numbers) for section in SECTIONS) + "\n"


def draw(numbers: Numbers) -> None:
    """The paper's seven figures on one sheet."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 10.5), layout="constrained")
    axes = figure.subplots(4, 2).ravel()
    panels = [(m, k) for m, e in EXPERIMENTS.items() for k in range(len(e.components))]
    handles = None
    for ax, (model, component) in zip(axes, panels):
        record = numbers.record("published", model, 0.3)
        handles = draw_trajectories(ax, record, component)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    draw_legend(figure, handles)
    figure.savefig(HERE / "paper-figures.png", dpi=100)


def main() -> None:
    numbers = Numbers.load(HERE)
    write_whole(HERE / "reproducing-the-paper.md", page(numbers))
    draw(numbers)


if __name__ == "__main__":
    main()
