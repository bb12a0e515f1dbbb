r"""Formulas that stay constant on a set of places, the simplest first.

A formula is a sum with small whole factors, as `tau_1 + 2 * tau_2`, or a product of
powers and exponentials,

$$c = \prod_k S_k^{e_k} \prod_l \exp(g_l S_l),$$

where S is a parameter, or a sum or difference of two, e a small whole number and g any
number or another parameter: `a / K`, `k * (a + b)`, `k * exp(-m * tau)`.

The logarithm of a product is linear in features of the parameters: the logarithms of
the S_k, the S_l, and products of two parameters. A formula is constant if a combination
of its features is; so it is found as the singular vector of a matrix that has a row for
each place and a column for each feature."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

# The largest whole number in a formula.
_LARGEST_WHOLE = 6
# A number this close to a whole number, as a share, is taken for it.
_ROUNDING = 1e-2
# How much a formula may vary over the places, as a share of how much its features do.
_CONSTANT = 1e-3
# A parameter varies if it does by more than this share.
_NOTICEABLE = 0.05
# The largest number of parameters in one formula.
_MOST_MEMBERS = 4


class Part(NamedTuple):
    """Sum of parameters, by index, with a sign or a whole factor each."""

    members: tuple[int, ...]
    factors: tuple[int, ...]

    def value(self, theta: np.ndarray) -> np.ndarray:
        """Compute the sum; `theta` has the parameters along its last axis."""
        return theta[..., list(self.members)] @ np.array(self.factors, float)

    def text(self, names: Sequence[str]) -> str:
        texts = [
            f"{' - ' if factor < 0 else ' + '}"
            f"{'' if abs(factor) == 1 else f'{abs(factor)} * '}{names[j]}"
            for j, factor in zip(self.members, self.factors)
        ]
        joined = "".join(texts)
        return joined.removeprefix(" + ") if self.factors[0] > 0 else joined.strip()


class Formula(NamedTuple):
    """Sum (if `powers` has one part with the exponent 0) or product.

    `powers` are parts with whole exponents. `exponentials` are parts, each with the
    number that multiplies it, and the index of the parameter that equals this number up
    to its sign, or None."""

    powers: tuple[tuple[Part, int], ...]
    exponentials: tuple[tuple[Part, float, int | None], ...] = ()

    @property
    def is_sum(self) -> bool:
        return self.powers[0][1] == 0

    @property
    def members(self) -> tuple[int, ...]:
        """The indices of all parameters in the formula."""
        parts = [part for part, *_ in (*self.powers, *self.exponentials)]
        found = {j for part in parts for j in part.members}
        found |= {like for *_, like in self.exponentials if like is not None}
        return tuple(sorted(found))

    def value(self, theta: np.ndarray) -> np.ndarray:
        """Compute the sum, or the logarithm of the absolute value of the product."""
        if self.is_sum:
            return self.powers[0][0].value(theta)
        with np.errstate(divide="ignore"):
            logs = [e * np.log(np.abs(part.value(theta))) for part, e in self.powers]
        for part, slope, like in self.exponentials:
            rate = slope if like is None else np.sign(slope) * theta[..., like]
            logs.append(rate * part.value(theta))
        return np.sum(logs, axis=0)

    def sign(self, theta: np.ndarray) -> np.ndarray:
        """Compute the sign of a product; that of a sum counts as positive."""
        signs = [np.sign(part.value(theta)) ** abs(e) for part, e in self.powers]
        return np.prod(signs, axis=0)

    def text(self, names: Sequence[str]) -> str:
        if self.is_sum:
            return self.powers[0][0].text(names)
        above = [_power(part, e, names) for part, e in self.powers if e > 0]
        above += [_exponential(*each, names) for each in self.exponentials]
        below = [_power(part, -e, names) for part, e in self.powers if e < 0]
        text = " * ".join(above) or "1"
        if not below:
            return text
        divisor = " * ".join(below)
        return f"{text} / {divisor}" if len(below) == 1 else f"{text} / ({divisor})"


def _power(part: Part, exponent: int, names: Sequence[str]) -> str:
    text = part.text(names)
    text = f"({text})" if len(part.members) > 1 else text
    return text if exponent == 1 else f"{text}^{exponent}"


def _exponential(
    part: Part, slope: float, like: int | None, names: Sequence[str]
) -> str:
    size = f"{abs(slope):.4g}" if like is None else names[like]
    factor = "" if size == "1" else f" * {size}"
    return f"exp({'-' if slope < 0 else ''}{_power(part, 1, names)}{factor})"


def constant_formulas(places: np.ndarray, group: Sequence[int]) -> Iterator[Formula]:
    """Find formulas that are constant over the places, the simplest first."""
    for count in range(2, min(len(group), _MOST_MEMBERS) + 1):
        for members in combinations(group, count):
            for candidate in _of_members(places, members):
                if _is_constant(candidate, places):
                    yield candidate


def _is_constant(formula: Formula, places: np.ndarray) -> bool:
    """Whether the formula varies over the places much less than each of its varying
    members alone would make it vary."""
    values = formula.value(places)
    if not np.all(np.isfinite(values)) or np.ptp(formula.sign(places)) > 0:
        return False
    for j in varying(places, formula.members):
        moved = np.broadcast_to(places[0], places.shape).copy()
        moved[:, j] = places[:, j]
        alone = formula.value(moved)
        if not np.ptp(values) < _CONSTANT * np.ptp(alone[np.isfinite(alone)]):
            return False
    return True


def varying(places: np.ndarray, members: Sequence[int]) -> list[int]:
    """Return the members that vary over the places by a noticeable share."""
    sizes = np.max(np.abs(places), axis=0)
    return [j for j in members if np.ptp(places[:, j]) > _NOTICEABLE * sizes[j]]


def _of_members(places: np.ndarray, members: tuple[int, ...]) -> Iterator[Formula]:
    """Yield candidates with exactly these members: sums, products, products with a sum
    inside, products with exponentials."""
    single = [Part((j,), (1,)) for j in members]
    if (total := _sum(places, members)) is not None:
        yield total
    yield from _products(places, single)
    inner = [
        ([Part(pair, (1, sign))], _without(single, pair))
        for pair in combinations(members, 2)
        for sign in (1, -1)
        if len(members) > 2
    ]
    for sums, rest in inner:
        yield from _products(places, [*rest, *sums])
    for powers, slopes in _splits(single):
        yield from _with_exponentials(places, powers, slopes)
    for sums, rest in inner:
        yield from _with_exponentials(places, rest, sums)
        for powers, slopes in _splits(rest):
            yield from _with_exponentials(places, [*powers, *sums], slopes)
    for pair in combinations(members, 2):
        yield from _with_product(places, _without(single, pair), pair)


def _without(parts: list[Part], pair: tuple[int, ...]) -> list[Part]:
    """Return the parts of a single parameter that is not one of the pair."""
    return [part for part in parts if part.members[0] not in pair]


def _splits(parts: list[Part]) -> Iterator[tuple[list[Part], list[Part]]]:
    """Yield all ways to choose which parts are powers and which are exponentials."""
    for count in range(1, len(parts)):
        for chosen in combinations(range(len(parts)), count):
            rest = [part for i, part in enumerate(parts) if i not in chosen]
            yield rest, [parts[i] for i in chosen]


def _logs(places: np.ndarray, part: Part) -> np.ndarray:
    """Compute the logarithms of a part's absolute values."""
    with np.errstate(divide="ignore"):
        return np.log(np.abs(part.value(places)))


def _null_vector(features: Sequence[np.ndarray]) -> np.ndarray | None:
    """Find coefficients with which all features add up to a constant."""
    matrix = np.stack(features, axis=1)
    if not np.all(np.isfinite(matrix)):
        return None
    matrix = matrix - np.mean(matrix, axis=0)
    scale = np.max(np.abs(matrix), axis=0)
    if np.any(scale == 0):
        return None
    _, singular, right = np.linalg.svd(matrix / scale, full_matrices=False)
    if singular[-1] > _CONSTANT * singular[0]:
        return None
    vector = right[-1]
    if np.min(np.abs(vector)) < 1e-3 * np.max(np.abs(vector)):
        return None
    return vector / scale


def _whole(numbers: np.ndarray | None) -> tuple[int, ...] | None:
    """Find small whole numbers in the same ratios, the first one positive."""
    if numbers is None:
        return None
    for divisor in range(1, 4):
        ratios = numbers / np.min(np.abs(numbers)) * divisor * np.sign(numbers[0])
        whole = np.round(ratios)
        if np.max(np.abs(whole)) <= _LARGEST_WHOLE and np.all(
            np.abs(ratios - whole) <= _ROUNDING * np.abs(whole)
        ):
            return tuple(int(each) for each in whole)
    return None


def _sum(places: np.ndarray, members: tuple[int, ...]) -> Formula | None:
    factors = _whole(_null_vector([places[:, j] for j in members]))
    if factors is None:
        return None
    part = Part(members, factors)
    size = np.max(np.abs(places[:, list(members)]))
    # A sum that is zero everywhere is better written as a ratio.
    is_zero = np.max(np.abs(part.value(places))) < _CONSTANT * size
    return None if is_zero else Formula(((part, 0),))


def _products(places: np.ndarray, parts: list[Part]) -> Iterator[Formula]:
    exponents = _whole(_null_vector([_logs(places, part) for part in parts]))
    if exponents is not None:
        yield Formula(tuple(zip(parts, exponents)))


def _with_exponentials(
    places: np.ndarray, powers: list[Part], slopes: list[Part]
) -> Iterator[Formula]:
    """Yield products of powers and exponentials. A coefficient with the value of
    another parameter is taken for it in a first formula, and for a number in a second
    one. There is one number at most: with several to choose, some product is nearly
    constant on any small set."""
    features = [_logs(places, part) for part in powers]
    vector = _null_vector([*features, *(part.value(places) for part in slopes)])
    if vector is None:
        return
    count = len(powers)
    exponents = _whole(vector[:count])
    if exponents is None:
        return
    numbers = vector[count:] / vector[0] * exponents[0]
    raised = tuple(zip(powers, exponents))
    members = {j for part in (*powers, *slopes) for j in part.members}
    named = [_equal_parameter(places, members, number) for number in numbers]
    if all(like is not None for like in named):
        yield Formula(raised, tuple(zip(slopes, numbers.tolist(), named)))
    if len(slopes) == 1:
        yield Formula(raised, ((slopes[0], float(numbers[0]), None),))


def _equal_parameter(
    places: np.ndarray, members: set[int], number: float
) -> int | None:
    """Find another parameter that has the size of a number at all places."""
    for j in range(places.shape[1]):
        values = np.abs(places[:, j])
        if j not in members and np.allclose(values, abs(number), rtol=_ROUNDING):
            return j
    return None


def _with_product(
    places: np.ndarray, powers: list[Part], pair: tuple[int, int]
) -> Iterator[Formula]:
    """Yield products of powers and the exponential of a product of two parameters, as
    `k * exp(-m * tau)` where `tau` varies, too."""
    if not powers:
        return
    features = [_logs(places, part) for part in powers]
    vector = _null_vector([*features, places[:, pair[0]] * places[:, pair[1]]])
    exponents = None if vector is None else _whole(vector[:-1])
    if vector is None or exponents is None:
        return
    number = float(vector[-1] / vector[0] * exponents[0])
    if abs(abs(number) - 1) < _ROUNDING:
        exponential = (Part(pair[:1], (1,)), float(np.sign(number)), pair[1])
        yield Formula(tuple(zip(powers, exponents)), (exponential,))
