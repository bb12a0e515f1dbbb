"""`DOP853`, the adaptive solver for small tolerances.

Stages 0 to 11 are those of the method of order 8, stage 12 is the slope at the end of
the step, and stages 13 to 15 are for the piece, of order 7 and degree 7.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import Polynomial

from .explicit import AbstractExplicit, Stages
from .methods import check_atol, check_rtol

# Hairer, Norsett and Wanner (1993), section II.5 and the program DOP853. Row s holds
# the weights of the slopes before stage s, without zeros.
# fmt: off
_A = [
    {},
    {0: 0.05260015195876773},
    {0: 0.0197250569845379, 1: 0.0591751709536137},
    {0: 0.02958758547680685, 2: 0.08876275643042054},
    {0: 0.2413651341592667, 2: -0.8845494793282861, 3: 0.924834003261792},
    {0: 0.037037037037037035, 3: 0.17082860872947386, 4: 0.12546768756682242},
    {0: 0.037109375, 3: 0.17025221101954405, 4: 0.06021653898045596, 5: -0.017578125},
    {0: 0.03709200011850479, 3: 0.17038392571223998, 4: 0.10726203044637328,
     5: -0.015319437748624402, 6: 0.008273789163814023},
    {0: 0.6241109587160757, 3: -3.3608926294469414, 4: -0.868219346841726,
     5: 27.59209969944671, 6: 20.154067550477894, 7: -43.48988418106996},
    {0: 0.47766253643826434, 3: -2.4881146199716677, 4: -0.590290826836843,
     5: 21.230051448181193, 6: 15.279233632882423, 7: -33.28821096898486,
     8: -0.020331201708508627},
    {0: -0.9371424300859873, 3: 5.186372428844064, 4: 1.0914373489967295,
     5: -8.149787010746927, 6: -18.52006565999696, 7: 22.739487099350505,
     8: 2.4936055526796523, 9: -3.0467644718982196},
    {0: 2.273310147516538, 3: -10.53449546673725, 4: -2.0008720582248625,
     5: -17.9589318631188, 6: 27.94888452941996, 7: -2.8589982771350235,
     8: -8.87285693353063, 9: 12.360567175794303, 10: 0.6433927460157636},
    {0: 0.054293734116568765, 5: 4.450312892752409, 6: 1.8915178993145003,
     7: -5.801203960010585, 8: 0.3111643669578199, 9: -0.1521609496625161,
     10: 0.20136540080403034, 11: 0.04471061572777259},
    {0: 0.056167502283047954, 6: 0.25350021021662483, 7: -0.2462390374708025,
     8: -0.12419142326381637, 9: 0.15329179827876568, 10: 0.00820105229563469,
     11: 0.007567897660545699, 12: -0.008298},
    {0: 0.03183464816350214, 5: 0.028300909672366776, 6: 0.053541988307438566,
     7: -0.05492374857139099, 10: -0.00010834732869724932, 11: 0.0003825710908356584,
     12: -0.00034046500868740456, 13: 0.1413124436746325},
    {0: -0.42889630158379194, 5: -4.697621415361164, 6: 7.683421196062599,
     7: 4.06898981839711, 8: 0.3567271874552811, 12: -0.0013990241651590145,
     13: 2.9475147891527724, 14: -9.15095847217987},
]
_C = [0.0, 0.05260015195876773, 0.0789002279381516, 0.1183503419072274,
      0.2816496580927726, 0.3333333333333333, 0.25, 0.3076923076923077,
      0.6512820512820513, 0.6, 0.8571428571428571, 1.0, 1.0, 0.1, 0.2,
      0.7777777777777778]
# The result of order 3 that the error is estimated with, and the difference of the
# results of order 8 and 5.
_OTHER = {0: 0.2440944881889764, 8: 0.7338466882816118, 11: 0.022058823529411766}
_ERROR = {0: 0.01312004499419488, 5: -1.2251564463762044, 6: -0.4957589496572502,
          7: 1.6643771824549864, 8: -0.35032884874997366, 9: 0.3341791187130175,
          10: 0.08192320648511571, 11: -0.022355307863886294}
# The solution within a step is x + u (F_0 + (1 - u) (F_1 + u (F_2 + (1 - u) (...)))).
# The first three F follow from the values and slopes at both ends of the step; these
# are the weights of the slopes for F_3 to F_6.
_INSIDE = [
    {0: -8.428938276109013, 5: 0.5667149535193777, 6: -3.0689499459498917,
     7: 2.38466765651207, 8: 2.117034582445028, 9: -0.871391583777973,
     10: 2.2404374302607883, 11: 0.6315787787694688, 12: -0.08899033645133331,
     13: 18.148505520854727, 14: -9.194632392478356, 15: -4.436036387594894},
    {0: 10.427508642579134, 5: 242.28349177525817, 6: 165.20045171727028,
     7: -374.5467547226902, 8: -22.113666853125306, 9: 7.733432668472264,
     10: -30.674084731089398, 11: -9.332130526430229, 12: 15.697238121770845,
     13: -31.139403219565178, 14: -9.35292435884448, 15: 35.81684148639408},
    {0: 19.985053242002433, 5: -387.0373087493518, 6: -189.17813819516758,
     7: 527.8081592054236, 8: -11.57390253995963, 9: 6.8812326946963,
     10: -1.0006050966910838, 11: 0.7777137798053443, 12: -2.778205752353508,
     13: -60.19669523126412, 14: 84.32040550667716, 15: 11.99229113618279},
    {0: -25.69393346270375, 5: -154.18974869023643, 6: -231.5293791760455,
     7: 357.6391179106141, 8: 93.40532418362432, 9: -37.45832313645163,
     10: 104.0996495089623, 11: 29.8402934266605, 12: -43.53345659001114,
     13: 96.32455395918828, 14: -39.17726167561544, 15: -149.72683625798564},
]
# fmt: on


def _rows(rows: Sequence[Mapping[int, float]]) -> np.ndarray:
    """Return rows of weights for all stages, with their zeros."""
    table = np.zeros((len(rows), 16))
    for row, weights in zip(table, rows):
        row[list(weights)] = list(weights.values())
    return table


def _pair() -> Stages:
    """Return all stages, and the weights of the piece in powers of u."""
    a, unit = _rows(_A), np.eye(16)
    first = [a[12], unit[0] - a[12], 2 * a[12] - unit[12] - unit[0]]
    factors = Polynomial([0.0, 1.0]), Polynomial([1.0, -1.0])
    powers, product = [], Polynomial([1.0])
    for number in range(7):
        product = product * factors[number % 2]
        powers.append(np.pad(product.coef[1:], (0, 6 - number)))
    weights = np.concatenate([first, _rows(_INSIDE)])
    return Stages(a, np.array(_C), weights.T @ np.array(powers))


@final
class DOP853(AbstractExplicit):
    """The explicit method of order 8 by Dormand and Prince, with adaptive steps: for
    smooth solutions and small tolerances.

    The solution between the nodes is a polynomial of degree 7 and of order 7, so that
    delayed states are about as accurate as the solution itself.

    >>> DOP853(rtol=1e-10).rtol
    1e-10
    """

    rtol: float = eqx.field(converter=check_rtol, default=1e-6)
    atol: float | None = eqx.field(converter=check_atol, default=None)
    order: ClassVar[int] = 8
    power: ClassVar[int] = 8
    highest: ClassVar[int] = 7
    pair: ClassVar[Stages] = _pair()

    def error(self, slopes: jax.Array) -> jax.Array:
        """Return the difference from the result of order 5, reduced by the ratio of it
        to that from order 3, so that it falls with the 8th power of the step."""
        fifth, third = _rows([_ERROR])[0], self.pair.a[12] - _rows([_OTHER])[0]
        fifth = jnp.abs(jnp.sum(fifth[:, None] * slopes, axis=0))
        third = jnp.abs(jnp.sum(third[:, None] * slopes, axis=0))
        return fifth * fifth / jnp.maximum(jnp.hypot(fifth, 0.1 * third), 1e-300)
