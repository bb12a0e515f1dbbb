"""The three examples of RADAR5 (Guglielmi and Hairer): stiff, or with a layer.

All values are by collocation, as in `ddetst_retarded.py`. Two notes on them:

- Waltman: the values that were printed with RADAR5, found at a relative tolerance of
  1e-6, differ by 1e-4 from those here, which agree to 1e-11.
- Robertson: the values are those of the smooth solution, to which every method with
  steps much longer than the delay is led. From t = 6 or so on it is unstable: there
  b u3 > 2 c u2, and a disturbance with a period of about two delays grows by orders of
  magnitude within a unit of time. A method that resolves the delay finds that instead.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

import ddefind as dd

from .known import Known, stack, table


def _waltman():
    alpha, beta, g, r, s, t0, t1 = 1.8, 20.0, 0.002, 5e4, 1e5, 35.0, 197.0

    def rhs(x, y, tau, t):
        first, second = y
        met = r * x[0] * x[1]
        made = r * first[0] * first[1]
        released = r * second[0] * second[1]
        late, later = t >= t0, t >= t1
        speed = (x[0] * x[1] + x[2]) / (first[0] * first[1] + first[2])
        pace = (1e-12 + x[1] + x[2]) / (1e-12 + second[1] + second[2])
        return stack(
            -met - s * x[0] * x[3],
            -met + jnp.where(late, alpha * made, 0.0),
            met,
            -s * x[0] * x[3] - g * x[3] + jnp.where(later, beta * released, 0.0),
            jnp.where(late, speed, 0.0),
            jnp.where(later, pace, 0.0),
        )

    delays = (dd.Delay(lambda t, x: t - x[4]), dd.Delay(lambda t, x: t - x[5]))
    start = dd.Constant([5e-6, 1e-15, 0.0, 0.0, 0.0, 0.0])
    return dd.Problem(rhs, start, delays, switches=(t0, t1))


def _oregonator(sign):
    """With `sign` = -1, as in the collection, the solution settles; with +1, as in the
    chemistry, it would oscillate."""
    k1, k2, k3, k4, f, A, B = 1.34, 1.6e9, 8000.0, 4e7, 1.0, 0.06, 0.06

    def rhs(x, y, tau, t):
        slow, fast, grown = k1 * A * x[1], k2 * x[0] * y[1], k3 * B * x[0]
        return stack(
            sign * slow - fast + grown - 2 * k4 * x[0] ** 2, -slow - fast + f * grown
        )

    return dd.Problem(rhs, dd.Constant([1e-10, 1e-5]), 0.15)


@final
class _Robertson(eqx.Module):
    a: jax.Array
    b: jax.Array
    c: jax.Array

    def __call__(self, x, y, tau, t):
        slow, fast = self.a * x[0], self.c * x[1] ** 2
        back = self.b * y[1] * x[2]
        return stack(-slow + back, slow - back - fast, fast)


def robertson(a: Any = 0.04, b: Any = 1e4, c: Any = 3e7, tau: Any = 0.01) -> dd.Problem:
    """Robertson's equation, with its rates and its delay as parameters."""
    rhs = _Robertson(*map(jnp.asarray, (a, b, c)))
    return dd.Problem(rhs, dd.Constant([1.0, 0.0, 0.0]), tau)


# t and the six components, a state in two lines.
_WALTMAN = """
30 4.999999999000553e-06 5.530843708668567e-19 9.994469156291334e-16
    0.0 0.0 0.0
35.5 4.999999998989898e-06 1.4890512614688918e-16 1.010101211585474e-15
    0.0 2.18558204212861 0.0
40 4.9999999986377936e-06 3.1059235067662134e-16 1.362204930131012e-15
    0.0 9.41060955258173 0.0
60 4.9999999979673585e-06 3.654123738736112e-16 2.0326402222056805e-15
    0.0 42.16537895420193 0.0
100 4.999999992775189e-06 1.3255181585119169e-15 7.224808665492092e-15
    0.0 95.25081240817993 0.0
150 4.9999974137216266e-06 2.0113638723838263e-12 2.586278370928628e-12
    0.0 149.98799946959141 0.0
190 4.992556990224904e-06 5.9542613658721894e-09 7.443009775094683e-09
    0.0 189.99999583494528 0.0
200 4.90079872324519e-06 4.3521632067649126e-08 5.440225049509741e-08
    8.738454144358974e-08 199.99999943016064 195.9842416771294
205 4.14430158096504e-06 1.0950433285360529e-07 1.3688063627079614e-07
    5.900471602392156e-07 204.99999977352113 203.78033282303093
210 2.401574263788721e-06 2.127138310798576e-07 2.658925104877151e-07
    1.4549343061191093e-06 209.99999988340917 209.41633210659333
215 9.034208711113862e-07 2.916755013216137e-07 3.645945956066197e-07
    2.1256907218249177e-06 214.99999991497222 214.58317977160388
220 2.667668905105681e-07 3.241603748998723e-07 4.052006859773513e-07
    2.3907459316209604e-06 219.999999923493 219.62708555849878
250 1.1177199917980112e-10 3.3774434704619273e-07 4.221806504316235e-07
    2.3681766267228835e-06 249.9999999265701 249.64281796656104
300 6.135395095556524e-16 3.377503432743483e-07 4.221881457165061e-07
    2.1428693235766165e-06 299.9999999265713 299.64282460176076
"""
PROBLEMS = [
    Known(
        "Waltman",
        "delays of the state, which begin at thresholds with a layer and almost vanish",
        _waltman(),
        300.0,
        "collocation at two tolerances: 10 digits agree",
        values=table(_WALTMAN, 6),
        stiff=True,
    ),
    Known(
        "Oregonator",
        "constant delay",
        _oregonator(-1.0),
        100.5,
        values={
            1: [-5.180416200479517e-11, 9.99984841050901e-06],
            5: [-5.180416186719755e-11, 9.99984926928393e-06],
            10: [-5.180416169520059e-11, 9.999850342752574e-06],
            20: [-5.180416135120674e-11, 9.999852489689838e-06],
            40: [-5.1804160663219536e-11, 9.999856783564281e-06],
            60: [-5.180415997523296e-11, 9.999861077438612e-06],
            80: [-5.180415928724701e-11, 9.999865371312828e-06],
            100.5: [-5.180415858206207e-11, 9.99986977253378e-06],
        },
        stiff=True,
    ),
    Known(
        "Robertson",
        "constant delay, far shorter than the steps",
        robertson(),
        1e10,
        values={
            0.1: [0.9960772163700253, 3.580303092179766e-05, 0.003886980599052157],
            1: [0.9664668003900904, 3.0740424977112326e-05, 0.033502459184931686],
            10: [0.8414128361820769, 1.6233429375238498e-05, 0.15857093038854725],
            100: [0.6172586511695172, 6.153915667023729e-06, 0.3827351949148151],
            1000: [0.3368796762811205, 2.0137375068181425e-06, 0.6631183099813722],
            10000: [0.10730091750615156, 4.8001879858197e-07, 0.8926986024750495],
            100000: [0.017865938355661356, 7.274757945655638e-08, 0.9821339888967586],
            1e06: [0.0020314842277063603, 8.142278919291272e-09, 0.9979685076300143],
            1e07: [0.0002076093479968707, 8.30607764066185e-10, 0.9997923898213948],
            1e08: [2.082417517255563e-05, 8.329841449381539e-11, 0.9999791757415287],
            1e09: [2.0832294722508336e-06, 8.33293504009273e-12, 0.9999979167621944],
            1e10: [2.0833284719500892e-07, 8.333315603069174e-13, 0.999999791666319],
        },
        stiff=True,
    ),
]
