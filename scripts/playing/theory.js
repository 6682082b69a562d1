// How much closer one iteration brings the weights near the solution, in closed form: with plain descent and one update each.
"use strict";
const theory = (() => {
  const times = (a, b) => [0, 1].map(i => [0, 1].map(j => a[i][0] * b[0][j] + a[i][1] * b[1][j]));
  const plus = (a, b, scale = 1) => a.map((row, i) => row.map((x, j) => x + scale * b[i][j]));
  const ONE = [[1, 0], [0, 1]];

  // The larger modulus of the two eigenvalues.
  function radius([[a, b], [c, d]]) {
    const half = (a + d) / 2, determinant = a * d - b * c, under = half * half - determinant;
    return under < 0 ? Math.sqrt(determinant) : Math.abs(half) + Math.sqrt(under);
  }

  // J of the joint gradient at the solution is [[0, −a], [a, c]]: `a` turns, `c` is the curvature of D's loss, the brake.
  const ITERATIONS = {
    joint: (j, eta) => plus(ONE, j, -eta),
    detach: ([[, b], [a, c]], eta) => times([[1, -eta * b], [0, 1]], [[1, 0], [-eta * a, 1 - eta * c]]),
    g_first_resample: ([[, b], [a, c]], eta) => times([[1, 0], [-eta * a, 1 - eta * c]], [[1, -eta * b], [0, 1]]),
    extragradient: (j, eta) => plus(ONE, times(j, plus(ONE, j, -eta)), -eta),
    consensus: (j, eta, gamma) => plus(ONE, plus(j, times([j[0].map((_, i) => j[i][0]), j[0].map((_, i) => j[i][1])], j), gamma), -eta),
    symplectic: (j, eta, lambda) => plus(ONE, plus(j, times([[0, j[1][0]], [j[0][1], 0]], j), lambda), -eta),
    competitive([[, b], [a, c]], eta) {
      const scale = -eta / (1 + eta * eta * a * a);
      return plus(ONE, [[eta * a * a, b * (1 - eta * c)], [a, c + eta * a * a]], scale);
    },
    unrolled: ([[, b], [a, c]], eta, k) => (c === 0 ? plus(ONE, [[2 * k * eta * a * a, b], [a, 0]], -eta) : null),
  };

  function factor(game, strategy, o) {
    if (o.momentum !== 0 || o.dSteps !== 1 || o.gSteps !== 1) return null;
    const n = game.points.length, square = game.points.reduce((sum, x) => sum + x * x, 0) / n;
    const a = game.bounded ? 0.5 : 1, j = [[0, -a], [a, game.bounded ? square / 2 : 0]];
    if (strategy === "lookahead") {
      const once = ITERATIONS.joint(j, o.rate), twice = times(once, once);
      const five = times(once, times(twice, twice)), alpha = o.coefficient;
      return radius(plus(five.map(row => row.map(x => alpha * x)), ONE, 1 - alpha)) ** 0.2;
    }
    const matrix = ITERATIONS[strategy]?.(j, o.rate, o.coefficient);
    return matrix ? radius(matrix) : null;
  }
  return { factor };
})();
if (typeof module !== "undefined") module.exports = theory;
