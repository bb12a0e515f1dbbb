"""What a saved fit holds: every field, written and read by one description; and
`setup_of`, which makes the setup of its search again.

`docs/reference/saved-fits.md` explains the fields. Of a study, the data of all
experiments stand one after the other. `parameters` are those of one experiment, with
the values of the first; `free` are the joint ones."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from .._data.data import Data
from .._data.study_data import Records, StudyData
from .._engine.choose import saved_engine
from .._engine.engine import AbstractEngine, Points
from .._inference.assessment import Assessment
from .._inference.explained import Explained, OtherHistory
from .._inference.identifiability import VERDICTS, Verdict
from .._inference.profile import BREAKDOWNS, Profile
from .._inference.residual_tests import ResidualTest
from .._problem.delays import DelayRole
from .._problem.free_parameters import (
    FreeParameters,
    JointParameters,
    ParameterArray,
    joint_parameters,
)
from .._problem.network import networks_in
from .._problem.parameters import parameter_arrays, parameter_vector
from .._problem.problem import Problem
from .._problem.without_doses import without_doses
from .._search.batches import Minimum, RefinedFits, SearchResult
from .._search.levenberg_marquardt import Priors
from .._search.make_setup import choose_misfit, joined_setup, shortest_delay
from .._search.normal_equations import LeastSquaresModel
from .._search.setup import FitSetup
from .._shooting.process_noise import ProcessNoise
from .._util.errors import ResultError
from .._util.files import nonfinite_as_words
from .._util.machine import cores
from .saved_fields import (
    AbstractPlain,
    Array,
    ByType,
    Entries,
    Flag,
    Many,
    Maybe,
    Named,
    Only,
    Places,
    Real,
    Sizes,
    Whole,
    Words,
)
from .saved_problem import (
    SCALES,
    describe,
    described_noise,
    is_known_solver,
    read_problem,
    solver_named,
)
from .status import Status

if TYPE_CHECKING:
    from .estimate import Estimate
    from .result import AbstractFit, FitResult


@final
class _DescribedProblem(AbstractPlain):
    """A description of a problem, or null."""

    def read(self, value: Any, where: str, sizes: Sizes) -> Any:
        return read_problem(value)


# The fields. Sizes are p, the number of free parameters, and p+1; N, the number of
# times; k, the number of measured quantities; and d, that of states.
DATA = Entries(
    {
        "t": Array(float, "N"),
        "x": Array(float, "N", "k"),
        "sd": Maybe(Array(float, "N", "k")),
        "names": Many(Words(), "k"),
        "label": Maybe(Words()),
        "origin": ByType({str: Words(), float: Real(), int: Real()}),
        "notes": Many(Words()),
        "axis_labels": Maybe(Many(Words(), "k+1")),
        "below": Maybe(Array(bool, "N", "k")),
    }
)
# An array of parameters. Of a least-squares fit, `free` says which free parameter each
# element is (-1: none), and `like` which element it equals.
_ARRAY = {
    "name": Words(),
    "short": Words(),
    "shape": Array(int, "axes"),
    "values": Array(float, "elements"),
}
_FREE_ARRAY = _ARRAY | {name: Array(int, "elements") for name in ("free", "like")}
_CELL = ByType({str: Words(), float: Real(), int: Real(), bool: Flag()})
_COMMON = {
    "text": Words(),
    "status": Words(tuple(status.name for status in Status)),
    "message": Words(),
    "loss": Real(),
    "seconds": Real(low=0.0),
    "solver": Words(),
    "tolerances": Maybe(Entries({"rtol": Real(), "atol": Maybe(Real())})),
    "steps_per_delay": Whole(1),
    "data": DATA,
    "table": Many(Named(Maybe(_CELL))),
    "networks": Many(SCALES),
}
# The best fit, of which every field is an array over fits, here of a single one.
_REFINED = {
    "theta": Array(float, "p"),
    "gram": Array(float, "p+1", "p+1"),
    "squares": Array(float, "k"),
    "evaluations": Whole(),
    "status": Whole(high=8),
    "n": Whole(1),
    "rounding": Real(low=0.0),
    "starts": Whole(),
}
_REFINED_FITS = Entries(
    {key: Only(each) for key, each in _REFINED.items()}, RefinedFits
)
_SEARCH = Entries(
    {
        "best": _REFINED_FITS,
        "weights": Array(float, "N", "k"),
        "noise": Array(float, "k"),
        "minima": Many(Places([Array(float, "p"), Real(), Whole()], Minimum)),
        "starts": Whole(1),
        "evaluations": Whole(),
        "step_error": Real(),
        "interrupted": Flag(),
    }
)
_PROFILE = Entries(
    {
        "name": Words(),
        "estimate": Real(),
        "quantile": Real(low=0.0),
        "interval": Places([Real(), Real()]),
        "reached": Places([Real(), Real()]),
        "values": Array(float, "points"),
        "r": Array(float, "points"),
        "theta": Array(float, "points", "p"),
        "breakdown": Places([Words(BREAKDOWNS), Words(BREAKDOWNS)]),
    },
    Profile,
)
_TEST = [Words(), Words(), Real(), Real(low=0.0)]
_HISTORY = [Words(), Real(), Real(), Real(low=0.0), Flag()]
_EXPLAINED = [Many(Real(), "k"), Many(Real(), "k"), Flag()]
_ASSESSMENT = Entries(
    {
        "verdicts": Many(Places([Words(VERDICTS), Words(), Words()]), "p"),
        "ties": Many(Places([Real(), Array(float, "p")])),
        "fitted": Array(float, "N", "k"),
        "checks": Many(Places(_TEST, ResidualTest)),
        "other_history": Maybe(Places(_HISTORY, OtherHistory)),
        "level": Real(low=0.0),
        "explained": Maybe(Places(_EXPLAINED, Explained)),
    }
)
# The process noise of a fit by multiple shooting, and the path at its nodes.
_PROCESS = Entries(
    {
        "sd": Array(float, "d"),
        "is_relative": Flag(),
        "levels": Whole(1),
        "log_likelihood": Real(),
        "t": Array(float, "nodes"),
        "x": Array(float, "nodes", "d"),
        "fitted": Array(float, "N", "k"),
        "residuals": Array(float, "N", "k"),
    },
    ProcessNoise,
)
# The experiments of a study. `names` are the free parameters of one experiment, `own`
# says which of them each experiment has for itself, `place` which joint one each is
# (-1: it is known there), and `known` its value where it is known.
_STUDY = Entries(
    {
        "names": Many(Words(), "local"),
        "own": Array(bool, "local"),
        "place": Array(int, "experiments", "local"),
        "known": Array(float, "experiments", "local"),
        "experiments": Many(
            Entries(
                {
                    "label": Words(),
                    "count": Whole(2),
                    "origin": ByType({str: Words(), float: Real(), int: Real()}),
                    "notes": Many(Words()),
                    "axis_labels": Many(Words(), "k+1"),
                    "values": Array(float, "all"),
                    "problem": _DescribedProblem(),
                }
            ),
            "experiments",
        ),
    }
)
# The noise models by quantity, with the parameters that are known.
_NOISE_MODELS = Named(Entries({"model": Words(), "known": Named(Real(low=0.0))}))
_PRIORS = Places([Array(float, "p"), Array(float, "p"), Array(bool, "p")], Priors)
_ESTIMATE = Entries(
    {
        **_COMMON,
        "parameters": Many(Entries(_FREE_ARRAY)),
        "noise": Named(Real(low=0.0)),
        "noise_models": Maybe(_NOISE_MODELS),
        "options": Entries(
            {
                "starts": Whole(1),
                "seed": Whole(low=-(2**53)),
                "steps_per_delay": Whole(1),
                "mesh": Flag(),
            }
        ),
        "free": Entries(
            {
                "names": Many(Words(), "p"),
                "lower": Array(float, "p"),
                "upper": Array(float, "p"),
                "given": Array(bool, "sides", "p"),
                "guess": Array(float, "p"),
                "history": Array(bool, "p"),
                "frequencies": Array(bool, "p"),
                "priors": Maybe(_PRIORS),
            }
        ),
        "histories": Many(Places([Words(), Real()])),
        "search": _SEARCH,
        "profiles": Maybe(Many(_PROFILE, "p")),
        "assessment": Maybe(_ASSESSMENT),
        "process": Maybe(_PROCESS),
        "study": Maybe(_STUDY),
    }
)
_DESCENT = Entries(
    {
        **_COMMON,
        "parameters": Many(Entries(_ARRAY)),
        "start": Array(float, "all"),
        "free": Entries(
            {
                "names": Many(Words(), "p"),
                "first": Array(float, "p"),
                "best": Array(float, "p"),
                "final": Array(float, "p"),
            }
        ),
        "losses": Array(float, "rows"),
        "path": Maybe(Array(float, "rows", "p")),
        "epochs": Whole(),
    }
)
_KINDS = {"estimate": _ESTIMATE, "descent": _DESCENT}


def _written(kind: str, fit: "AbstractFit", **parts: Any) -> dict[str, Any]:
    """Return the content of a fit, given the parts that are of its kind."""
    described = describe(fit.problem, fit.model)
    common = {
        "text": str(fit),
        "status": fit.status.name,
        "message": fit.message,
        "loss": fit.loss,
        "seconds": fit.seconds,
        "solver": type(fit.solver).__name__,
        "tolerances": fit.solver.tolerances,
        "steps_per_delay": fit.steps_per_delay,
        "data": _shared_fields(fit.data),
        "table": fit.summary(),
        "networks": networks_in(fit.problem),
    }
    is_known = is_known_solver(fit.solver)
    problem = nonfinite_as_words(described) if is_known else None
    content = _KINDS[kind].write({**common, **parts})
    return {"kind": kind, "problem": problem, **content}


def read_content(content: dict[str, Any]) -> dict[str, Any]:
    """Read the content of a saved fit, every field checked, as its parts."""
    kind = Words(tuple(_KINDS)).read(content.get("kind"), "kind", {})
    names = content.get("free", {})
    names = names.get("names") if isinstance(names, dict) else None
    if not isinstance(names, list):
        raise ResultError("`free.names` must be a list.")
    sizes: Sizes = {"p": len(names), "p+1": len(names) + 1, "sides": 2}
    read = _KINDS[kind].read(content, "", sizes)
    return {**read, "kind": kind, "problem": read_problem(content.get("problem"))}


def _shared_fields(data: Records) -> Data | dict[str, Any]:
    """Return the fields of data; of a study those that hold for all experiments."""
    if isinstance(data, Data):
        return data
    shared = {"label": None, "origin": 0.0, "notes": ()}
    shared["axis_labels"] = data.parts[0].axis_labels
    names = DATA.fields.keys() - shared.keys()
    return shared | {name: getattr(data, name) for name in names}


def _arrays(problem: Problem, arrays: Sequence[ParameterArray]) -> list[dict[str, Any]]:
    """Describe the arrays of parameters of a problem, each with its values."""
    vector = parameter_vector(problem)
    return [
        {
            "name": array.name,
            "short": array.short,
            "shape": array.shape,
            "values": vector[array.first : array.first + array.size],
        }
        for array in arrays
    ]


def descent_content(fit: "FitResult") -> dict[str, Any]:
    """Return what is saved of a fit by gradient descent."""
    return _written(
        "descent",
        fit,
        parameters=_arrays(fit.problem, parameter_arrays(fit.problem)),
        start=parameter_vector(fit.start),
        free=fit,
        losses=fit.losses,
        path=fit.path,
        epochs=fit.epochs,
    )


def estimate_content(fit: "Estimate") -> dict[str, Any]:
    """Return what is saved of a least-squares fit, with its intervals if it has
    them."""
    setup, free = fit.setup, fit.setup.parts[0].model.free
    result, assessment = fit.search_result, fit.assessment
    gram = np.array(result.best.gram)
    gram[0, 1:, 1:] = fit.uncertainty.information
    best = replace(result.best, gram=gram)
    arrays = [
        {
            **described,
            "free": free.source[array.first : array.first + array.size],
            "like": free.like[array.first : array.first + array.size],
        }
        for array, described in zip(free.arrays, _arrays(fit.problem, free.arrays))
    ]
    profiles = judged = None
    if assessment is not None:
        verdicts = [(v.verdict, v.pattern, v.note) for v in assessment.verdicts]
        profiles, judged = (
            assessment.profiles,
            {**vars(assessment), "verdicts": verdicts},
        )
    return _written(
        "estimate",
        fit,
        parameters=arrays,
        noise=fit.noise,
        noise_models=described_noise(fit.problem),
        options={
            "starts": fit.starts,
            "seed": fit.seed,
            "steps_per_delay": setup.steps_per_delay,
            **setup.model.engine.saved(),
        },
        free={
            "names": fit.names,
            "priors": setup.model.priors,
            **{key: getattr(setup, name) for key, name in _OF_SETUP.items()},
        },
        histories=fit.histories,
        search={**vars(result), "best": best, "weights": result.points.weights},
        profiles=profiles,
        assessment=judged,
        process=fit.process,
        study=_study_content(fit),
    )


def saved_minimum(content: dict[str, Any], points: Points) -> SearchResult:
    """Return the minimum of a saved fit; its `points` lack only their weights."""
    found = dict(content["search"])
    points = points._replace(weights=found.pop("weights"))
    return SearchResult(points=points, **found)


def saved_assessment(
    content: dict[str, Any], names: tuple[str, ...]
) -> Assessment | None:
    """Return the saved assessment of the free parameters with these names."""
    saved, profiles = content["assessment"], content["profiles"]
    if saved is None:
        return None
    if tuple(each.name for each in profiles) != names:
        raise ResultError("`profiles` must be those of the free parameters, in order.")
    judged = zip(names, saved["verdicts"])
    verdicts = tuple(Verdict(name, *each) for name, each in judged)
    return Assessment(**{**saved, "profiles": profiles, "verdicts": verdicts})


# The fields of a setup by their names in a file.
_OF_SETUP = {
    "lower": "lower",
    "upper": "upper",
    "given": "is_given",
    "guess": "guess",
    "history": "is_history",
    "frequencies": "is_frequency",
}


def setup_of(content: dict[str, Any], problem: Problem, data: Data) -> FitSetup:
    """Make the setup of a saved fit by least squares."""
    saved, options = content["free"], content["options"]
    present = parameter_arrays(problem)
    roles: dict[str, DelayRole | None] = {array.name: array.role for array in present}
    free = _free_parameters(content["parameters"], tuple(saved["names"]), roles)
    learned, fixed = free.split(problem)
    model = LeastSquaresModel(
        free=free,
        learned=learned,
        fixed=fixed,
        priors=saved["priors"],
        dimension=problem.dimension,
        engine=_engine(content, problem, free, data),
        misfit=choose_misfit(problem, data, free),
    )
    return FitSetup(
        model=model,
        data=data,
        steps_per_delay=options["steps_per_delay"],
        workers=cores(),
        joint=JointParameters.alone(free),
        **_fields_of(saved),
    )


def _fields_of(saved: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a setup about its free values: bounds, starts and kinds."""
    return {name: saved[key] for key, name in _OF_SETUP.items()}


def _engine(
    content: dict[str, Any], problem: Problem, free: FreeParameters, data: Data
) -> AbstractEngine:
    """Return the engine by which the problem was solved."""
    solver = solver_named(content["solver"], content["tolerances"])
    shortest = shortest_delay(problem, free, content["free"]["lower"])
    plain, mesh = without_doses(problem), content["options"]["mesh"]
    try:
        return saved_engine(plain, solver, data.T, shortest, mesh)
    except ValueError as error:
        raise ResultError(str(error)) from None


def _free_parameters(
    saved: list[dict[str, Any]],
    names: tuple[str, ...],
    roles: Mapping[str, DelayRole | None],
) -> FreeParameters:
    arrays, source, like = [], [], []
    for array in saved:
        shape, role = tuple(array["shape"].tolist()), roles[array["name"]]
        arrays.append(
            ParameterArray(array["name"], array["short"], shape, len(source), role)
        )
        source += array["free"].tolist()
        like += array["like"].tolist()
    if set(source) - {-1} != set(range(len(names))):
        raise ResultError("Its free parameters are not numbered as they are named.")
    if not all(0 <= element < len(source) for element in like):
        raise ResultError("A parameter is tied to one that is not there.")
    ends = (-np.inf,) * len(names), (np.inf,) * len(names)
    return FreeParameters(tuple(arrays), names, tuple(source), tuple(like), *ends)


def _study_content(fit: "Estimate") -> dict[str, Any] | None:
    """Describe the experiments of a study; None for a fit of one data set."""
    joint, data = fit.setup.joint, fit.data
    if not fit.experiments:
        return None
    models = fit.models or (None,) * len(fit.problems)
    local = fit.setup.parts[0].model.free
    return {
        "names": local.names,
        "own": joint.is_own,
        "place": joint.place,
        "known": joint.known,
        "experiments": [
            {
                "label": label,
                "count": len(part),
                "origin": part.origin,
                "notes": part.notes,
                "axis_labels": part.axis_labels,
                "values": parameter_vector(problem),
                "problem": describe(problem, model),
            }
            for label, part, problem, model in zip(
                data.labels, data.parts, fit.problems, models
            )
        ],
    }


def saved_data(content: dict[str, Any]) -> StudyData:
    """Make the data of the experiments."""
    saved, study = content["data"], content["study"]
    counts = [each["count"] for each in study["experiments"]]
    if sum(counts) != len(saved["t"]):
        raise ResultError("The numbers of values of its experiments are wrong.")
    ends = np.cumsum(counts)[:-1]

    def cut(name: str) -> list[Any]:
        array = saved[name]
        return [None] * len(counts) if array is None else np.split(array, ends)

    names, texts = saved["names"], ("label", "origin", "notes", "axis_labels")
    arrays = zip(*map(cut, ("t", "x", "sd", "below")))
    parts = [
        Data(t, x, sd=sd, names=names, below=below, **{key: each[key] for key in texts})
        for (t, x, sd, below), each in zip(arrays, study["experiments"])
    ]
    return StudyData(tuple(parts), tuple(part.label or "" for part in parts))


def study_setup(content: dict[str, Any], problems: tuple[Problem, ...]) -> FitSetup:
    """Make the setup of a saved study."""
    study, saved, data = content["study"], content["free"], saved_data(content)
    place, known = study["place"], study["known"]
    setups = []
    for e, (problem, part) in enumerate(zip(problems, data.parts)):
        part_free = {
            name: _local(saved[name], place[e], known[e])
            for name in ("lower", "upper", "guess")
        }
        part_free |= {
            name: _local(saved[name], place[e], False)
            for name in ("given", "history", "frequencies")
        }
        free = {**saved, **part_free, "names": study["names"], "priors": None}
        setups.append(setup_of({**content, "free": free}, problem, part))
    local = setups[0].model.free
    values = [
        {int(j): float(c[j]) for j in np.flatnonzero(p < 0)}
        for p, c in zip(place, known)
    ]
    joint = joint_parameters(local, data.labels, study["own"].tolist(), values)
    if not np.array_equal(joint.place, place) or list(joint.free.names) != list(
        saved["names"]
    ):
        raise ResultError("Its joint parameters are not numbered as they are named.")
    setup = joined_setup(setups, problems, joint, data)
    model = replace(setup.model, priors=saved["priors"])
    return replace(setup, model=model, **_fields_of(saved))


def _local(array: np.ndarray, place: np.ndarray, known: Any) -> np.ndarray:
    """Return the part of an array of joint values that belongs to one experiment."""
    return np.where(place >= 0, array[..., place], known)
