/* The floor: value and gradient of one fit, written by hand for one model.
 *
 * RK2 with steps of tau / LAG, then the discrete adjoint of these steps, in scalar code
 * with every size known to the compiler (-DEXPONENTIAL, -DCHEYNE or -DHIV picks the
 * model). The numbers are those of ddefind to rounding; the benchmarks check that.
 *
 * Parameters stand as [theta, history, tau], as a flattened `Problem` has them. */
#include <math.h>

#define LAG 10 /* steps per delay */
#define ROWS 1024
#define INLINE static inline __attribute__((always_inline))

#if defined(EXPONENTIAL) || defined(CHEYNE)
#define D 1
#define HISTORY 2 /* a, b of a t + b */

INLINE void history(const double *q, double t, double *x) { x[0] = q[0] * t + q[1]; }

INLINE double pull_history(const double *q, double t, const double *g, double *gq) {
  gq[0] += g[0] * t;
  gq[1] += g[0];
  return g[0] * q[0];
}
#endif

#ifdef EXPONENTIAL
#define THETA 2

INLINE void slope(const double *p, const double *x, const double *y, double tau,
                  double *f) {
  f[0] = p[0] * x[0] + p[1] * y[0];
}

INLINE void pull_slope(const double *p, const double *x, const double *y, double tau,
                       const double *g, double *gp, double *gx, double *gy,
                       double *gtau) {
  gp[0] += g[0] * x[0];
  gp[1] += g[0] * y[0];
  gx[0] += g[0] * p[0];
  gy[0] += g[0] * p[1];
}
#endif

#ifdef CHEYNE
#define THETA 3

INLINE double eighth(double y) { return y *= y, y *= y, y * y; }

INLINE void slope(const double *p, const double *x, const double *y, double tau,
                  double *f) {
  double power = eighth(y[0]);
  f[0] = p[0] - p[1] * x[0] * power / (p[2] + power);
}

INLINE void pull_slope(const double *p, const double *x, const double *y, double tau,
                       const double *g, double *gp, double *gx, double *gy,
                       double *gtau) {
  double square = y[0] * y[0], seventh = square * square * square * y[0];
  double power = seventh * y[0], inverse = 1 / (p[2] + power), part = power * inverse;
  double kept = p[1] * x[0] * inverse; /* V_0 x / (alpha + y^8) */
  gp[0] += g[0];
  gp[1] -= g[0] * x[0] * part;
  gp[2] += g[0] * kept * part;
  gx[0] -= g[0] * p[1] * part;
  gy[0] -= g[0] * kept * 8 * seventh * (1 - part);
}
#endif

#ifdef HIV
#define D 3
#define THETA 7 /* k, m, delta, c, T_0, n_p, N */
#define HISTORY 9 /* A, omega, b of A sin(omega t) + b */

INLINE void history(const double *q, double t, double *x) {
  for (int k = 0; k < D; k++) x[k] = q[k] * sin(q[3 + k] * t) + q[6 + k];
}

INLINE double pull_history(const double *q, double t, const double *g, double *gq) {
  double moved = 0;
  for (int k = 0; k < D; k++) {
    double swing = g[k] * q[k] * cos(q[3 + k] * t);
    gq[k] += g[k] * sin(q[3 + k] * t);
    gq[3 + k] += swing * t;
    gq[6 + k] += g[k];
    moved += swing * q[3 + k];
  }
  return moved;
}

INLINE void slope(const double *p, const double *x, const double *y, double tau,
                  double *f) {
  double made = p[6] * p[2] * x[0];
  f[0] = p[0] * p[4] * y[1] * exp(-p[1] * tau) - p[2] * x[0];
  f[1] = (1 - p[5]) * made - p[3] * x[1];
  f[2] = p[5] * made - p[3] * x[2];
}

INLINE void pull_slope(const double *p, const double *x, const double *y, double tau,
                       const double *g, double *gp, double *gx, double *gy,
                       double *gtau) {
  double living = exp(-p[1] * tau), born = p[0] * p[4] * y[1] * living;
  double made = p[6] * p[2] * x[0], g_made = g[1] * (1 - p[5]) + g[2] * p[5];
  gp[0] += g[0] * p[4] * y[1] * living;
  gp[1] -= g[0] * tau * born;
  gp[2] += (g_made * p[6] - g[0]) * x[0];
  gp[3] -= g[1] * x[1] + g[2] * x[2];
  gp[4] += g[0] * p[0] * y[1] * living;
  gp[5] += (g[2] - g[1]) * made;
  gp[6] += g_made * p[2] * x[0];
  gx[0] += (g_made * p[6] - g[0]) * p[2];
  gx[1] -= g[1] * p[3];
  gx[2] -= g[2] * p[3];
  gy[1] += g[0] * p[0] * p[4] * living;
  *gtau -= g[0] * p[1] * born;
}
#endif

#define PARAMETERS (THETA + HISTORY + 1)

typedef struct {
  double states[ROWS + LAG + 1][D]; /* row i + LAG is node i, row i its delayed state */
  double slopes[ROWS + 1][D];       /* of node i */
  double on_states[ROWS + LAG + 1][D], on_slopes[ROWS + 1][D]; /* cotangents */
} Work;

INLINE int march(const double *given, double T, double h, Work *restrict w) {
  int steps = ceil(T / h - 1e-9);
  double p[PARAMETERS], x[D], tau; /* locals: no store below can change them */
  for (int k = 0; k < PARAMETERS; k++) p[k] = given[k];
  tau = p[THETA + HISTORY];
  for (int i = 0; i <= LAG; i++) history(p + THETA, (i - LAG) * h, w->states[i]);
  for (int k = 0; k < D; k++) x[k] = w->states[LAG][k];
  for (int i = 0; i < steps; i++) {
    double first[D], second[D], after[D];
    slope(p, x, w->states[i], tau, first);
    for (int k = 0; k < D; k++)
      w->slopes[i][k] = first[k], after[k] = x[k] + h * first[k];
    slope(p, after, w->states[i + 1], tau, second);
    for (int k = 0; k < D; k++)
      w->states[i + 1 + LAG][k] = x[k] += 0.5 * h * (first[k] + second[k]);
  }
  slope(p, x, w->states[steps], tau, w->slopes[steps]);
  return steps;
}

/* The gradient, from the cotangents in `w` and that of h. */
INLINE void pull(const double *given, double h, int steps, int dense, double on_h,
                 Work *restrict w, double *restrict gradient) {
  double p[PARAMETERS], gp[THETA] = {0}, gq[HISTORY] = {0}, tau, gtau = 0;
  double a[D], on_past[D] = {0}; /* cotangents of node i + 1, and of row i + 1's past */
  for (int k = 0; k < PARAMETERS; k++) p[k] = given[k];
  tau = p[THETA + HISTORY];
  for (int k = 0; k < D; k++) a[k] = w->on_states[steps + LAG][k];
  if (dense)
    pull_slope(p, w->states[steps + LAG], w->states[steps], tau, w->on_slopes[steps],
               gp, a, on_past, &gtau);
  for (int i = steps - 1; i >= 0; i--) {
    const double *x = w->states[i + LAG], *first = w->slopes[i];
    double after[D], second[D], g_second[D], g_after[D] = {0}, g_first[D], on_x[D];
    for (int k = 0; k < D; k++)
      after[k] = x[k] + h * first[k], g_second[k] = 0.5 * h * a[k];
    slope(p, after, w->states[i + 1], tau, second);
    pull_slope(p, after, w->states[i + 1], tau, g_second, gp, g_after, on_past, &gtau);
    for (int k = 0; k < D; k++) {
      w->on_states[i + 1][k] += on_past[k];
      on_past[k] = 0;
      g_first[k] = g_second[k] + h * g_after[k] + (dense ? w->on_slopes[i][k] : 0);
      on_h += 0.5 * a[k] * (first[k] + second[k]) + g_after[k] * first[k];
      on_x[k] = w->on_states[i + LAG][k] + a[k] + g_after[k];
    }
    pull_slope(p, x, w->states[i], tau, g_first, gp, on_x, on_past, &gtau);
    for (int k = 0; k < D; k++) a[k] = on_x[k];
  }
  for (int k = 0; k < D; k++)
    w->on_states[0][k] += on_past[k], w->on_states[LAG][k] = a[k];
  for (int i = 0; i <= LAG; i++) {
    double t = (i - LAG) * h;
    on_h += (i - LAG) * pull_history(p + THETA, t, w->on_states[i], gq);
  }
  for (int k = 0; k < THETA; k++) gradient[k] = gp[k];
  for (int k = 0; k < HISTORY; k++) gradient[THETA + k] = gq[k];
  gradient[THETA + HISTORY] = gtau + on_h / LAG;
}

/* The trapezium rule on the nodes; the target and its slope there are a table, which
 * spares the floor the spline that ddefind evaluates. */
static double at_nodes(const double *p, double T, const double *target,
                       const double *target_slope, int count, Work *w,
                       double *gradient) {
  double h = p[THETA + HISTORY] / LAG, loss = 0, on_h = 0;
  int steps = march(p, T, h, w);
  for (int i = 0; i < LAG; i++)
    for (int k = 0; k < D; k++) w->on_states[i][k] = 0;
  for (int i = 0; i <= steps; i++) {
    double weight = i == 0 || i == steps ? 0.5 : 1;
    for (int k = 0; k < D; k++) {
      double r = w->states[i + LAG][k] - target[i * D + k];
      loss += weight * r * r;
      on_h -= 2 * weight * h * r * target_slope[i * D + k] * i;
      w->on_states[i + LAG][k] = 2 * weight * h * r;
    }
  }
  pull(p, h, steps, 0, on_h + loss, w, gradient);
  return h * loss;
}

/* Squared residuals at given times, through the cubic Hermite dense output. */
static double at_times(const double *p, double T, const double *times,
                       const double *values, int count, Work *w, double *gradient) {
  double h = p[THETA + HISTORY] / LAG, loss = 0, on_h = 0;
  int steps = march(p, T, h, w);
  for (int i = 0; i <= steps + LAG; i++)
    for (int k = 0; k < D; k++) w->on_states[i][k] = 0;
  for (int i = 0; i <= steps; i++)
    for (int k = 0; k < D; k++) w->on_slopes[i][k] = 0;
  for (int j = 0; j < count; j++) {
    int i = times[j] / h;
    if (i > steps - 1) i = steps - 1;
    double u = times[j] / h - i, v = 1 - u;
    double a1 = u * u * (3 - 2 * u), b0 = u * v * v, b1 = -u * u * v, a0 = 1 - a1;
    double da = 6 * u * v, db0 = v * (1 - 3 * u), db1 = u * (3 * u - 2);
    for (int k = 0; k < D; k++) {
      double x0 = w->states[i + LAG][k], x1 = w->states[i + 1 + LAG][k];
      double f0 = w->slopes[i][k], f1 = w->slopes[i + 1][k], bent = b0 * f0 + b1 * f1;
      double r = a0 * x0 + a1 * x1 + h * bent - values[j * D + k], g = 2 * r;
      loss += r * r;
      on_h += g * (bent - (da * (x1 - x0) / h + db0 * f0 + db1 * f1) * (u + i));
      w->on_states[i + LAG][k] += g * a0;
      w->on_states[i + 1 + LAG][k] += g * a1;
      w->on_slopes[i][k] += g * h * b0;
      w->on_slopes[i + 1][k] += g * h * b1;
    }
  }
  pull(p, h, steps, 1, on_h, w, gradient);
  return loss;
}

/* Gradient descent: `epochs` values and gradients, one after the other. Returns the
 * last loss; `gradient` is the last one, and `p` has moved. */
#define DESCEND(name, evaluate)                                                       \
  double name(long epochs, double rate, double *p, double T, const double *first,     \
              const double *second, int count, double *gradient) {                    \
    static Work work;                                                                 \
    double loss = 0;                                                                  \
    for (long epoch = 0; epoch < epochs; epoch++) {                                   \
      loss = evaluate(p, T, first, second, count, &work, gradient);                   \
      for (int k = 0; k < PARAMETERS; k++) p[k] -= rate * gradient[k];                \
    }                                                                                 \
    return loss;                                                                      \
  }

DESCEND(descend_at_nodes, at_nodes)
DESCEND(descend_at_times, at_times)
