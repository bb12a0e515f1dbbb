"""The problems A to D of DDETST, a set for tests of DDE solvers (Enright and Hayashi).

Where a problem has no closed solution, the values were computed by the collocation of
`tests/support/collocation.py` at two tolerances. `source` says how many digits agree,
and with what else they were compared. Time begins at zero here: B1 and D1 begin at 0.1
in the collection, and are shifted."""

import jax.numpy as jnp
import numpy as np

import ddefind as dd

from .known import Known, after, stack, table


def _mackey_glass(x, y, tau, t):
    return 0.2 * y / (1 + y**10) - 0.1 * x


def _leukemia(x, y, tau, t):
    loss = x[0] / (1 + 40 * x[1])
    made = 1.1 / (1 + jnp.sqrt(10.0) * y[0] ** 1.25)
    return stack(made - 10 * loss, 100 * loss - 2.43 * x[1])


def _logarithm_delay(t, x):
    """The delayed time is exp(1 - 1/t), which touches t at t = 1."""
    return t - jnp.exp(1 - 1 / t)


def _paul(x, y, tau, t):
    return -2 * y * (1 - x**2)


def _paul_two(x, y, tau, t):
    before = jnp.abs(y[0])
    return stack(-2 * y[0], (before - jnp.abs(x[0])) / (1 + before))


def _hematopoiesis(s0, T1, g, Q, k, a, K, r):
    def rhs(x, y, tau, t):
        released, lost = s0 * y[0][1], s0 * y[1][1]
        return stack(
            released - g * x[0] - Q,
            a / (1 + K * x[0] ** r) - k * x[1],
            1 - Q * jnp.exp(g * x[2]) / lost,
        )

    return rhs, (dd.Delay(lambda t, x: T1), dd.Delay(lambda t, x: T1 + x[2]))


def _C3():
    rhs, tau = _hematopoiesis(0.0031, 6.0, 0.001, 0.0275, 2.8, 6570.0, 0.0382, 6.96)

    def history(t):
        return stack(3.325, jnp.where(t < -6, 9.5, 10.0), 120.0)

    return dd.Problem(rhs, history, tau, switches=(-6.0,))


def _C4():
    rhs, tau = _hematopoiesis(0.00372, 3.0, 0.1, 0.00178, 6.65, 15600.0, 0.0382, 6.96)
    return dd.Problem(rhs, dd.Constant([3.5, 10.0, 50.0]), tau)


def _neves(x, y, tau, t):
    return stack(x[1], -y[1] * x[1] ** 2 * jnp.exp(1 - x[1]))


def _antigen(x, y, tau, t):
    r1, r2, alpha, delta = 0.02, 0.005, 3.0, 0.01
    bound, before = r1 * x[0] * x[1], y[0] * y[1]
    supply = (3 * delta - x[0] * x[1] - x[2]) / (before + y[2])
    return stack(
        -bound + r2 * x[2],
        -bound + alpha * r1 * before,
        bound - r2 * x[2],
        1 + supply * jnp.exp(delta * x[3]),
    )


def _B2(t):
    """u' = -1 - u + 2 [u(t/2) < 0]."""
    parts = [2 * np.exp(-t) - 1, 1 - 6 * np.exp(-t), 66 * np.exp(-t) - 1]
    return np.select([t < 2 * np.log(2), t < 2 * np.log(6)], parts[:2], parts[2])


# Times, each with the components of the state.
_ANTIGEN = """
1 4.988975687287663 0.12192867603847148 0.0110243127123377 0.048456537763726035
5 4.916803390780659 0.26415329451338804 0.08319660921934219 0.10702541292558708
10 4.709528179383499 0.6765281046485643 0.2904718206165028 0.08274679474220131
20 3.3256317228440073 3.5003917325848666 1.674368277155994 0.04091069930189043
25 2.1139821971434776 6.034633421740727 2.8860178028565238 0.04242268244464207
30 1.0885557459325166 8.268569202164507 3.911444254067485 0.06012794372642684
35 0.5109140110008836 9.65395320592458 4.4890859889991175 0.09381720000647292
40 0.2596194731965727 10.403212256644094 4.740380526803428 0.13269550693809753
"""
_MACKEY_GLASS = """
14 0.8759664906769447 50 0.5122030457554682 100 0.8281877478105839
150 1.0328172042647636 200 1.2627331651569025 300 0.5438836375250066
400 1.0338060918693872 500 1.010443111700143
"""
_PAUL = """
1 -0.42246918845518755 2 -0.8936623728453809 5 0.9693755829173444
8 -0.43414687995815765 10 -0.9963293799960173 15 0.8917623028458387
20 0.524707678354927 25 -0.9876751038593361 30 0.9955320638032655
"""
PROBLEMS = [
    Known(
        "A1",
        "constant delay (Mackey-Glass)",
        dd.Problem(_mackey_glass, dd.Constant(0.5), 14.0),
        500.0,
        values=table(_MACKEY_GLASS, 1),
        goal=1e-6,
    ),
    Known(
        "A2",
        "constant delay (leukemia)",
        dd.Problem(_leukemia, dd.Constant([1.05767027 / 3, 1.030713491 / 3]), 20.0),
        100.0,
        values={
            1: [0.7405315090192104, 0.8115442235029182],
            10: [2.9596834778164394, 1.7220630623144977],
            30: [1.7492734512591697, 1.3479713117950234],
            50: [0.20348356706792398, 0.43633141616817733],
            70: [5.503441398831682, 2.357890700657297],
            80: [4.167269990772656, 2.0759112905943558],
            90: [1.110220147676059, 1.07779553066812],
            100: [0.08768011074439114, 0.29376859433354024],
        },
        goal=1e-6,
    ),
    Known(
        "B1",
        "delay of time, which vanishes at one time",
        dd.Problem(
            lambda x, y, tau, t: 1 - y,
            lambda t: stack(jnp.log(t + 0.1)),
            dd.Delay(after(0.1, _logarithm_delay)),
        ),
        9.9,
        "exact: u = log t",
        exact=after(0.1, np.log),
        goal=1e-6,
    ),
    Known(
        "B2",
        "proportional delay, and a right-hand side that jumps with the sign of u(t/2)",
        dd.Problem(
            lambda x, y, tau, t: -1 - x + 2 * (y < 0),
            dd.Constant(1.0),
            dd.Delay(lambda t, x: t / 2),
        ),
        2 * np.log(66),
        "exact, in three parts",
        exact=_B2,
        goal=1e-6,
    ),
    Known(
        "C1",
        "delay of the state",
        dd.Problem(_paul, dd.Constant(0.5), dd.Delay(lambda t, x: 1 + jnp.abs(x[0]))),
        30.0,
        "collocation at two tolerances: 13 digits agree",
        values=table(_PAUL, 1),
    ),
    Known(
        "C2",
        "delay of the state",
        dd.Problem(_paul_two, dd.Constant([1.0, 0.5]), dd.Delay(lambda t, x: x[1])),
        40.0,
        values={
            1: [-0.8504652135771839, 0.7168358211748029],
            2: [0.32129526101883504, 0.7201122263628911],
            5: [0.613852117892209, 0.7730855437702787],
            8: [0.6871127495898447, 0.7277054277981893],
            10: [-0.2284930556984403, 0.6504941784449509],
            15: [-0.6002169155095437, 0.7821845563473042],
            20: [0.22283940823886816, 0.6605345943808754],
            25: [0.5679652954165211, 0.7923749111270983],
            30: [-0.27793953134448074, 0.6517404063953209],
            35: [-0.5287793619459651, 0.799576951961],
            40: [0.3390576869272145, 0.6428966678646162],
        },
    ),
    Known(
        "C3",
        "constant delay and delay of the state; the history jumps (hematopoiesis)",
        _C3(),
        300.0,
        "collocation at two tolerances: 13 digits agree",
        values={
            1: [3.3251749125291585, 13.99465631622214, 119.9471869431563],
            5: [3.32587281614128, 14.232946344736266, 119.73648981764667],
            10: [3.3746189351866005, 12.994523004710553, 119.47436279871293],
            20: [3.476134472683468, 10.521937834426877, 118.9542278173064],
            50: [3.5001562030015587, 9.991399889007754, 117.42623567129351],
            100: [3.4997441129420235, 9.99992114836873, 114.98412758058367],
            150: [3.4997442904555753, 9.999917511724536, 119.9438746531621],
            200: [3.4997442903907445, 9.999917513029585, 119.94762592407936],
            250: [3.49974429039076, 9.99991751302929, 119.94003168311578],
            300: [3.4997442903907605, 9.999917513029281, 119.93285802286341],
        },
    ),
    Known(
        "C4",
        "constant delay and delay of the state (hematopoiesis)",
        _C4(),
        100.0,
        values={
            1: [3.200637549657522, 16.979973497867366, 45.421742650012725],
            5: [2.3192810034835056, 155.33064167781262, 37.7600424137899],
            10: [3.3333924488898754, 15.82626952523943, 34.19604322736016],
            20: [2.546039692333337, 100.22155634686266, 31.63308113836447],
            30: [2.2528822918063818, 195.41436915658892, 30.83413535826688],
            40: [2.4504641917703625, 106.27607819410143, 34.07585172313689],
            50: [2.8754530609311586, 35.55894042754814, 41.93374402539702],
            60: [3.3632637253852753, 12.422863070026459, 49.24557163875064],
            70: [3.392136941931173, 13.671372403546714, 49.25434847729897],
            80: [2.646404303722049, 78.62425935419937, 48.5618853283063],
            90: [2.258032310119911, 195.76486322269884, 48.29211051540442],
            100: [2.4001857055610496, 122.54177861858697, 52.7509883175408],
        },
    ),
    Known(
        "D1",
        "delay of the state, which vanishes at one time",
        dd.Problem(
            _neves,
            lambda t: stack(jnp.log(t + 0.1), 1 / (t + 0.1)),
            dd.Delay(after(0.1, lambda t, x: t - jnp.exp(1 - x[1]))),
        ),
        4.9,
        "exact: u = log t and 1 / t",
        exact=after(0.1, lambda t: np.stack([np.log(t), 1 / t], axis=-1)),
        goal=1e-6,
    ),
    Known(
        "D2",
        "delay of the state, which vanishes at the start (antigen and antibody)",
        dd.Problem(
            _antigen, dd.Constant([5.0, 0.1, 0.0, 0.0]), dd.Delay(lambda t, x: x[3])
        ),
        40.0,
        values=table(_ANTIGEN, 4),
        goal=1e-6,
    ),
]
