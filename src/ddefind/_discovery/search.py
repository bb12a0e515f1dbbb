r"""The whole search: all stages, and what they say together.

Models are weighed by $\exp(-\mathrm{score} / 2)$, with the BIC and a charge for each
delay as the score. The charge makes up for the many delays that a search tries: of many
delays one always follows the noise. With it a delay is claimed where the model with it
is clearly better than all without."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .exact import Fitted
from .library import Structure
from .stages import ORDINARY, Question, Report, Stage, delayed_stage, ordinary_stage

# What a further delay must lower the BIC by: very strong evidence.
DELAY_CHARGE = 10.0
# So many models are fitted again with shorter steps.
_FINAL = 24
_WORST = 14.0


class Model(NamedTuple):
    """A model that was found: the stage it belongs to, its fit and its score."""

    stage: Stage
    fitted: Fitted
    score: float

    @property
    def delays(self) -> int:
        """The number of its delays."""
        return len(self.stage.library.delays_in(self.fitted.structure))


class Outcome(NamedTuple):
    """All models that matter, best first, the path of the search as the number of
    delays, that of terms and the BIC, and whether it was interrupted."""

    models: list[Model]
    path: list[tuple[int, int, float]]
    interrupted: bool


def search_models(question: Question, delays: int, report: Report) -> Outcome:
    """Search with up to so many delays. After Ctrl-C the best so far is returned."""
    begun: dict[int, Stage] = {}

    def remember(phase: str, stage: Stage) -> None:
        # The stage without a delay comes first, and shares the number of the next one.
        key = 0 if phase == ORDINARY else stage.delays
        before = begun.get(key)
        if before is None or stage.search.best.bic < before.search.best.bic:
            begun[key] = stage
        report(phase, stage)

    interrupted, stages = False, []
    try:
        for stage in _stages(question, delays, remember):
            stages.append(_finer(stage))
    except KeyboardInterrupt:
        if not begun:
            raise
        interrupted, stages = True, list(begun.values())
    models = sorted(_models(stages), key=lambda each: each.score)
    path = [
        (len(stage.library.delays_in(fit.structure)), len(fit.structure), fit.bic)
        for stage in stages
        for fit in stage.search.path
    ]
    return Outcome(models, path, interrupted)


def _stages(question: Question, delays: int, report: Report) -> Iterator[Stage]:
    stage = ordinary_stage(question, report)
    yield stage
    for count in range(1, delays + 1):
        stage = delayed_stage(question, count, stage, report)
        yield stage


def _finer(stage: Stage) -> Stage:
    """The best fits of a stage again, with steps of half the length."""
    search = stage.search
    ranked = sorted(search.visited.values(), key=lambda each: each.bic)
    close = [each for each in ranked if each.bic < ranked[0].bic + _WORST][:_FINAL]
    structures = [each.structure for each in close]
    starts = [each.theta[None] for each in close]
    fits = search.exact.fit_all(structures, starts, finer=2)
    for fit in fits:
        if np.isfinite(fit.bic):
            search.visited[fit.structure] = fit
    return stage


def _models(stages: Sequence[Stage]) -> list[Model]:
    """The models of all stages, each once."""
    found: dict[frozenset, Model] = {}
    for stage in stages:
        for fit in stage.search.visited.values():
            delays = len(stage.library.delays_in(fit.structure))
            model = Model(stage, fit, fit.bic + DELAY_CHARGE * delays)
            for key in _keys(stage, fit.structure):
                if key in found:
                    break
            else:
                key = _keys(stage, fit.structure)[0]
            before = found.get(key)
            if before is None or model.score < before.score:
                found[key] = model
    return list(found.values())


def _keys(stage: Stage, structure: Structure) -> list[frozenset]:
    """What a model is known by: its terms. With two delays, which may change their
    names, there are two such keys; terms without `tau_2` are those of one delay."""
    terms = [(state, stage.library.terms[term].text) for state, term in structure]
    keys = [frozenset(terms)]
    used = len(stage.library.delays_in(structure))
    if stage.delays == 2 and used == 2:
        swap = {"tau_1": "tau_2", "tau_2": "tau_1"}
        keys.append(frozenset((i, _renamed(text, swap)) for i, text in terms))
    elif stage.delays > 1 and used == 1:
        keys = [frozenset((i, _renamed(text, {"tau_1": "tau"})) for i, text in terms)]
    return keys


def _renamed(text: str, names: dict[str, str]) -> str:
    pattern = r"\b(" + "|".join(names) + r")\b"
    return re.sub(pattern, lambda match: names[match.group(1)], text)
