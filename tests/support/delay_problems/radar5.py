"""The three examples of RADAR5 (Guglielmi and Hairer): stiff, or with a layer."""

import jax.numpy as jnp

import ddefind as dd

from .known import Known, stack


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


def _robertson(x, y, tau, t):
    a, b, c = 0.04, 1e4, 3e7
    slow, back, fast = a * x[0], b * y[1] * x[2], c * x[1] ** 2
    return stack(-slow + back, slow - back - fast, fast)


PROBLEMS = [
    Known(
        "Waltman",
        "delays of the state, which begin at thresholds with a layer and almost vanish",
        _waltman(),
        300.0,
        "SOURCE_Waltman",
        values={},
        stiff=True,
        sizes=(5e-6, 1e-15, 1e-15, 1e-9, 1.0, 1.0),
    ),
    Known(
        "Oregonator",
        "constant delay",
        _oregonator(-1.0),
        100.5,
        "collocation at two tolerances: 14 digits agree",
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
        sizes=(1e-10, 1e-8),
    ),
    Known(
        "Robertson",
        "constant delay, far shorter than the steps",
        dd.Problem(_robertson, dd.Constant([1.0, 0.0, 0.0]), 0.01),
        1e10,
        "collocation at two tolerances: 14 digits agree",
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
        sizes=(1.0, 1e-6, 1.0),
    ),
]
