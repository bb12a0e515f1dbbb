"""Write the page `docs/explanation/reproducing-the-paper.md` and its figure.

Every number of the page comes from `results/paper/` and `results/paper_claims.json`,
and every claim is checked against them: the script stops at a sentence that the numbers
no longer support. `python -m studies.paper_page` takes a few seconds.
"""

from ddefind._util.files import write_whole
from ddefind.paper import EXPERIMENTS
from ddefind.paper._output import draw_legend, draw_trajectories

from ..page_tables import DOCS, RESULTS
from .agreement import beginning, summary, tables
from .errata import duration, errata
from .estimates import bound, constants, reached, starts
from .gradients import routes, steps
from .numbers import Numbers
from .our_default import our_default

PAGE = DOCS / "explanation" / "reproducing-the-paper.md"
SECTIONS = (
    *(beginning, summary, tables, bound, reached),
    *(constants, starts, our_default, steps, routes, errata, duration),
)


def page(numbers: Numbers) -> str:
    """The whole page."""
    return "\n\n".join(section(numbers) for section in SECTIONS) + "\n"


def draw(numbers: Numbers) -> None:
    """Draw the paper's seven figures on one sheet."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 10.5), layout="constrained")
    axes = figure.subplots(4, 2).ravel()
    panels = [(m, k) for m, e in EXPERIMENTS.items() for k in range(len(e.components))]
    handles = None
    for ax, (model, component) in zip(axes, panels):
        results = numbers.results("published", model, 0.3)
        handles = draw_trajectories(ax, results, component)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    draw_legend(figure, handles)
    figure.savefig(PAGE.with_name("paper-figures.png"), dpi=100)


def main() -> None:
    numbers = Numbers.load(RESULTS)
    write_whole(PAGE, page(numbers))
    draw(numbers)


if __name__ == "__main__":
    main()
