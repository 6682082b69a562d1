// Plays what tape.py has recorded of each strategy: operations on numbers, and on one number for each point of the data.
"use strict";
const tapes = (() => {
  const sigmoid = s => (s >= 0 ? 1 / (1 + Math.exp(-s)) : Math.exp(s) / (1 + Math.exp(s)));
  const total = a => (typeof a === "number" ? a : a.reduce((sum, x) => sum + x, 0));
  const ONE_BY_ONE = {
    add: (a, b, scale = 1) => a + scale * b,
    sub: (a, b, scale = 1) => a - scale * b,
    mul: (a, b) => a * b,
    div: (a, b) => a / b,
    neg: a => -a,
    reciprocal: a => 1 / a,
    lerp: (a, b, share) => a + share * (b - a),
    copy: a => a,
    sigmoid,
    sign: Math.sign,
    log_sigmoid_backward: (gradient, a) => gradient * sigmoid(-a),
    gt: (a, b) => +(a > b),
    le: (a, b) => +(a <= b),
    and: (a, b) => +(a && b),
    not: a => +!a,
    where: (which, a, b) => (which ? a : b),
    zeros_like: () => 0,
  };
  const OPERATIONS = {
    sum: (a, times = 1) => total(a) * times,
    mean: a => total(a) / (a.length ?? 1),
    stack: (...all) => all,
  };
  for (const [name, f] of Object.entries(ONE_BY_ONE))
    OPERATIONS[name] = (a, b, c) => {
      if (typeof a !== "object" && typeof b !== "object" && typeof c !== "object") return f(a, b, c);
      const n = a?.length ?? b?.length ?? c.length, made = new Array(n);
      const [ofA, ofB, ofC] = [a, b, c].map(x => typeof x === "object");
      for (let i = 0; i < n; i++) made[i] = f(ofA ? a[i] : a, ofB ? b[i] : b, ofC ? c[i] : c);
      return made;
    };

  // The tapes of a strategy in a game, and what lies at the places that nothing fills.
  function programOf(data, game, strategy, o) {
    const found = data.programs[game.name][strategy][`${o.d_steps}:${o.g_steps}`];
    const program = Array.isArray(found) ? found.find(one => one.coefficient === o.coefficient) : found;
    const tapes = i => data.tapes[i];
    return { first: tapes(program.first), loop: program.loop.map(tapes), start: program.start, names: data.names };
  }

  // Places: 0 is θ, 1 is ψ, then the rate, the momentum, the data and the latents. The others are the strategy's own.
  function memory(program, game, o, theta, psi) {
    const points = game.points.length === 1 ? game.points[0] : game.points, at = [theta, psi, o.rate, o.momentum, points, points];
    for (const [place, value] of Object.entries(program.start)) at[place] = value;
    return at;
  }

  // An operation is a name, a place and operands: places, or numbers [a], and [a, b] for a + b·coefficient.
  function play(tape, names, at, coefficient, leg = () => {}) {
    const value = one => {
      if (typeof one === "number") return at[one];
      const [a, b] = one;
      return b === undefined ? a : a + b * coefficient;
    };
    for (const [name, place, ...given] of tape)
      if (place === undefined) leg();
      else at[place] = OPERATIONS[names[name]](...given.map(value));
  }

  // (θ, ψ) before the first and after each iteration, and the legs of each; it ends early where numbers grow out of bounds.
  function path(data, game, strategy, o, start, iterations, bound = 1e9) {
    const program = programOf(data, game, strategy, o), at = memory(program, game, o, ...start);
    const points = [[...start]], legs = [[]];
    for (let k = 0; k < iterations; k++) {
      const tape = k ? program.loop[(k - 1) % program.loop.length] : program.first, places = [points[k]];
      play(tape, program.names, at, o.coefficient, () => places.push([at[0], at[1]]));
      if (!(Math.hypot(at[0], at[1]) < bound)) break;
      points.push([at[0], at[1]]);
      legs.push(walked(places));
    }
    return { points, legs };
  }

  // The ways from place to place. Where the weights come back to a place, what lies between was only tried.
  function walked(places) {
    const legs = [];
    for (let i = 1; i < places.length; i++) {
      const [from, to] = [places[i - 1], places[i]], back = legs.findIndex(leg => leg.from[0] === to[0] && leg.from[1] === to[1]);
      if (back >= 0) for (const leg of legs.slice(back)) leg.kind = "ahead";
      else if (from[0] !== to[0] || from[1] !== to[1])
        legs.push({ kind: from[0] === to[0] ? "d" : from[1] === to[1] ? "g" : "both", from, to });
    }
    return legs;
  }

  // −∇ of each network's own loss: where a step of joint leads.
  function descent(data, game, theta, psi) {
    const o = { rate: 1e-3, momentum: 0, d_steps: 1, g_steps: 1, coefficient: null };
    const [, to] = path(data, game, "joint", o, [theta, psi], 1, Infinity).points;
    return [(to[0] - theta) / o.rate, (to[1] - psi) / o.rate];
  }

  // By what factor an iteration brings the weights away from the solution in the long run: the largest modulus of the
  // eigenvalues of its derivative there, by squaring that again and again. None if iterations differ for ever.
  function radius(data, game, strategy, o) {
    const program = programOf(data, game, strategy, o), operations = program.loop.flat();
    if (Object.keys(program.start).some(place => place < 100)) return null;  // it counts its iterations
    const places = operations.flatMap(([, ...rest]) => rest).filter(one => typeof one === "number" && one < 100);
    const own = [...new Set([0, 1, ...places])].filter(place => place < 2 || place > 5), h = 1e-5;
    const from = (place, value) => {
      const at = memory(program, game, o, 0, 0);
      for (const one of own) at[one] = 0;
      at[place] = value;
      for (const tape of program.loop) play(tape, program.names, at, o.coefficient);
      return own.map(one => at[one]);
    };
    const columns = own.map(place => [from(place, h), from(place, -h)]);
    let matrix = own.map((_, i) => columns.map(([up, down]) => (up[i] - down[i]) / (2 * h))), log = 0;
    const squarings = 40;
    for (let i = 0; i < squarings; i++) {
      const norm = Math.hypot(...matrix.flat());
      if (!(norm > 0 && norm < Infinity)) return norm === 0 ? 0 : null;
      log = 2 * (log + Math.log(norm));
      const m = matrix.map(row => row.map(x => x / norm));
      matrix = m.map(row => m[0].map((_, j) => row.reduce((sum, x, l) => sum + x * m[l][j], 0)));
    }
    return Math.exp((log + Math.log(Math.hypot(...matrix.flat()))) / 2 ** squarings / program.loop.length);
  }

  return { path, descent, radius };
})();
if (typeof module !== "undefined") module.exports = tapes;
