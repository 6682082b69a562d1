// The games and the strategies, worked out by hand: tests/scripts/test_playground.py holds each to ganexp's own.
"use strict";
const recurrences = (() => {
  const sigmoid = s => (s >= 0 ? 1 / (1 + Math.exp(-s)) : Math.exp(s) / (1 + Math.exp(s)));

  // First and second derivatives of L_D and L_G at (θ, ψ). `derivative` is the derivative of D's loss on a fake by its score.
  function derivatives(game, theta, psi) {
    const n = game.points.length;
    const at = { d: 0, g: 0, gByPsi: 0, dPsi: 0, dTheta: 0, gTheta: 0, gPsi: 0 };
    for (const point of game.points) {
      const x = theta + point, score = psi * x;
      const derivative = game.bounded ? sigmoid(score) : 1, bend = game.bounded ? derivative * (1 - derivative) : 0;
      const ofReal = game.bounded ? sigmoid(-psi * point) : 1, bendOfReal = game.bounded ? ofReal * (1 - ofReal) : 0;
      at.d += (x * derivative - point * ofReal) / n; // ∂L_D/∂ψ
      at.g -= (psi * derivative) / n; // ∂L_G/∂θ
      at.gByPsi -= (x * derivative) / n; // ∂L_G/∂ψ
      at.dPsi += (x * x * bend + point * point * bendOfReal) / n; // ∂²L_D/∂ψ²
      at.dTheta += (derivative + score * bend) / n; // ∂²L_D/∂ψ∂θ
      at.gTheta -= (psi * psi * bend) / n; // ∂²L_G/∂θ²
      at.gPsi -= (derivative + score * bend) / n; // ∂²L_G/∂θ∂ψ
    }
    return at;
  }

  const here = s => ({ theta: s.theta, psi: s.psi });
  function moveD(s, gradient, o) {
    s.speedD = o.momentum * s.speedD - o.rate * gradient;
    s.psi += s.speedD;
  }
  function moveG(s, gradient, o) {
    s.speedG = o.momentum * s.speedG - o.rate * gradient;
    s.theta += s.speedG;
  }
  function moveBoth(s, g, d, o) {
    moveG(s, g, o);
    moveD(s, d, o);
  }
  // One network by itself, a leg of its own in the drawing.
  function stepD(game, s, o, legs) {
    const from = here(s);
    moveD(s, derivatives(game, s.theta, s.psi).d, o);
    legs.push({ kind: "d", from, to: here(s) });
  }
  function stepG(game, s, o, legs) {
    const from = here(s);
    moveG(s, derivatives(game, s.theta, s.psi).g, o);
    legs.push({ kind: "g", from, to: here(s) });
  }
  // Rounds that move both networks, and then the steps that only one of them has left.
  function rounds(game, s, o, legs, round, lastG = stepG) {
    const both = Math.min(o.dSteps, o.gSteps);
    for (let i = 0; i < both; i++) {
      const from = here(s);
      round(from);
      legs.push({ kind: "both", from, to: here(s) });
    }
    for (let i = both; i < o.dSteps; i++) stepD(game, s, o, legs);
    for (let i = both; i < o.gSteps; i++) lastG(game, s, o, legs);
  }

  // ∂/∂θ of L_G against the D that k plain steps of L_D would make, by the chain rule.
  function unrolledGradient(game, s, o) {
    let psi = s.psi, byTheta = 0;
    for (let i = 0; i < o.coefficient; i++) {
      const at = derivatives(game, s.theta, psi);
      byTheta -= o.rate * (at.dTheta + at.dPsi * byTheta);
      psi -= o.rate * at.d;
    }
    const ahead = derivatives(game, s.theta, psi);
    return { gradient: ahead.g + ahead.gByPsi * byTheta, psi };
  }

  // Jᵀv, for the joint gradient v = (g, d) and its Jacobian J.
  const transposed = at => ({ g: at.gTheta * at.g + at.dTheta * at.d, d: at.gPsi * at.g + at.dPsi * at.d });

  const STRATEGIES = {
    joint(game, s, o, legs) {
      rounds(game, s, o, legs, () => {
        const at = derivatives(game, s.theta, s.psi);
        moveBoth(s, at.g, at.d, o);
      });
    },
    detach(game, s, o, legs) {
      for (let i = 0; i < o.dSteps; i++) stepD(game, s, o, legs);
      for (let i = 0; i < o.gSteps; i++) stepG(game, s, o, legs);
    },
    g_first_resample(game, s, o, legs) {
      for (let i = 0; i < o.gSteps; i++) stepG(game, s, o, legs);
      for (let i = 0; i < o.dSteps; i++) stepD(game, s, o, legs);
    },
    extragradient(game, s, o, legs) {
      rounds(game, s, o, legs, from => {
        const at = derivatives(game, s.theta, s.psi);
        moveBoth(s, at.g, at.d, o);
        legs.push({ kind: "ahead", from, to: here(s) });
        const there = derivatives(game, s.theta, s.psi);
        s.theta = from.theta;
        s.psi = from.psi;
        moveBoth(s, there.g, there.d, o);
      });
    },
    past_extragradient(game, s, o, legs) {
      rounds(game, s, o, legs, from => {
        if (s.past) {
          moveBoth(s, s.past.g, s.past.d, o);
          legs.push({ kind: "ahead", from, to: here(s) });
        }
        const there = derivatives(game, s.theta, s.psi);
        s.theta = from.theta;
        s.psi = from.psi;
        moveBoth(s, there.g, there.d, o);
        s.past = there;
      });
    },
    consensus(game, s, o, legs) {
      rounds(game, s, o, legs, () => {
        const at = derivatives(game, s.theta, s.psi), back = transposed(at);
        moveBoth(s, at.g + o.coefficient * back.g, at.d + o.coefficient * back.d, o);
      });
    },
    symplectic(game, s, o, legs) {
      rounds(game, s, o, legs, () => {
        const at = derivatives(game, s.theta, s.psi), back = transposed(at);
        const along = { g: at.gTheta * at.g + at.gPsi * at.d, d: at.dTheta * at.g + at.dPsi * at.d };
        const turn = { g: (back.g - along.g) / 2, d: (back.d - along.d) / 2 };
        const aligned = ((at.g * back.g + at.d * back.d) * (turn.g * back.g + turn.d * back.d)) / 2 + 0.1;
        const strength = o.coefficient * Math.sign(aligned);
        moveBoth(s, at.g + strength * turn.g, at.d + strength * turn.d, o);
      });
    },
    competitive(game, s, o, legs) {
      rounds(game, s, o, legs, () => {
        const at = derivatives(game, s.theta, s.psi), mixed = o.rate * at.gPsi, scale = 1 + mixed * mixed;
        moveBoth(s, (at.g - mixed * at.d) / scale, (at.d + mixed * at.g) / scale, o);
      });
    },
    lookahead(game, s, o, legs) {
      s.slow ??= here(s);
      STRATEGIES.joint(game, s, o, legs);
      s.count = (s.count ?? 0) + 1;
      if (s.count % 5 === 0) {
        const from = here(s);
        s.theta = s.slow.theta + o.coefficient * (s.theta - s.slow.theta);
        s.psi = s.slow.psi + o.coefficient * (s.psi - s.slow.psi);
        s.slow = here(s);
        legs.push({ kind: "pull", from, to: here(s) });
      }
    },
    unrolled(game, s, o, legs) {
      const lastG = (game, s, o, legs) => {
        const from = here(s);
        moveG(s, unrolledGradient(game, s, o).gradient, o);
        legs.push({ kind: "g", from, to: here(s) });
      };
      rounds(game, s, o, legs, from => {
        const at = derivatives(game, s.theta, s.psi), ahead = unrolledGradient(game, s, o);
        legs.push({ kind: "ahead", from, to: { theta: s.theta, psi: ahead.psi } });
        moveBoth(s, ahead.gradient, at.d, o);
      }, lastG);
    },
  };

  // (θ, ψ) before the first and after each iteration, and the legs of each; it ends early where numbers grow out of bounds.
  function path(game, strategy, options, start, iterations, bound = 1e9) {
    const s = { theta: start[0], psi: start[1], speedD: 0, speedG: 0 };
    const points = [[s.theta, s.psi]], legs = [[]];
    for (let i = 0; i < iterations; i++) {
      const own = [];
      STRATEGIES[strategy](game, s, options, own);
      if (!(Math.hypot(s.theta, s.psi) < bound)) break;
      points.push([s.theta, s.psi]);
      legs.push(own);
    }
    return { points, legs };
  }

  return { derivatives, path, names: Object.keys(STRATEGIES) };
})();
if (typeof module !== "undefined") module.exports = recurrences;
