// What is chosen, what follows from it, and the address that keeps it.
const LENGTHS = [20, 40, 60, 80, 100, 120, 200, 400, 1000, 2000];
const SHOWN = Object.fromEntries(data.strategies.map(one => [one.name, one]));
const GAMES = Object.fromEntries(data.games.map(one => [one.name, one]));
const DEFAULTS = Object.fromEntries(data.strategies.filter(one => one.coefficient).map(one => [one.name, one.coefficient.default]));
const still = matchMedia("(prefers-reduced-motion: reduce)");

const state = {
  game: "bilinear",
  strategies: ["joint", "detach", "extragradient", "lookahead"].filter(name => SHOWN[name]),
  rate: 0.1,
  momentum: 0,
  steps: "1:1",
  length: 200,
  start: [1.2, 0.6],
  own: { ...DEFAULTS },
  speed: 20,
  apart: false,
};

// What tapes.js reads.
function optionsOf(name) {
  const [d_steps, g_steps] = state.steps.split(":").map(Number);
  return { rate: state.rate, momentum: state.momentum, d_steps, g_steps, coefficient: state.own[name] ?? null };
}

// The paths of all chosen strategies, until a setting changes.
let paths = {};
function follow() {
  paths = {};
  for (const name of state.strategies)
    paths[name] = tapes.path(data, GAMES[state.game], name, optionsOf(name), state.start, state.length);
}

const last = path => path.points.length - 1;
const distance = ([theta, psi]) => Math.hypot(theta, psi);

// Where a path is at a moment between two iterations: on the way along the legs that are walked and not only tried.
function at(path, moment) {
  const i = Math.min(Math.floor(moment), last(path)), share = moment - i;
  if (share <= 0 || i >= last(path)) return path.points[i];
  const legs = path.legs[i + 1].filter(leg => leg.kind !== "ahead");
  const leg = legs[Math.min(Math.floor(share * legs.length), legs.length - 1)];
  const along = share * legs.length - legs.indexOf(leg);
  return leg.from.map((x, i) => x + along * (leg.to[i] - x));
}

// The factor per iteration over the second half of a path: the slope of the logarithm of the distance, by least squares.
function factorOf(path) {
  const from = Math.floor(last(path) / 2), n = last(path) - from + 1;
  if (n < 5) return null;
  let up = 0, down = 0;
  for (let i = 0; i < n; i++) {
    up += (i - (n - 1) / 2) * Math.log(Math.max(1e-300, distance(path.points[from + i])));
    down += (i - (n - 1) / 2) ** 2;
  }
  return { factor: Math.exp(up / down), whole: (n * up) / down };
}

// What an iteration does near the solution; it is kept, since no path depends on it.
const radii = new Map();
function atSolution(name) {
  const key = JSON.stringify([state.game, name, optionsOf(name)]);
  if (!radii.has(key)) radii.set(key, tapes.radius(data, GAMES[state.game], name, optionsOf(name)));
  return radii.get(key);
}

// What becomes of a path: by its factor at the solution where that holds in the whole plane, else by more than a sixth in its
// second half.
function fate(name, measured) {
  const ahead = atSolution(name);
  if (ahead !== null && Math.abs(ahead - 1) < 1e-7) return "round";
  if (ahead !== null && !GAMES[state.game].bounded) return ahead > 1 ? "out" : "in";
  return measured === null ? "" : measured.whole > 0.15 ? "out" : measured.whole < -0.15 ? "in" : "round";
}

const hue = name => SHOWN[name].colors[document.documentElement.dataset.theme === "dark" ? 1 : 0];
const tint = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function toAddress() {
  const own = Object.entries(state.own).map(([name, value]) => `${name}:${value}`).join(",");
  const { game, rate, momentum, steps, length, start, apart } = state;
  const parts = { game, strategies: state.strategies.join(","), rate, momentum, steps, length, start: start.map(x => +x.toFixed(3)).join(","), own, apart: +apart };
  history.replaceState(null, "", "#" + Object.entries(parts).map(([key, value]) => `${key}=${value}`).join("&"));
}

// Read an address; what it does not say, or says wrongly, stays as it is. `at` is the moment to stop at.
function fromAddress() {
  const parts = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  const among = (key, allowed) => {
    const value = typeof allowed[0] === "number" ? Number(parts.get(key)) : parts.get(key);
    if (parts.has(key) && allowed.includes(value)) state[key] = value;
  };
  among("game", Object.keys(GAMES));
  among("rate", data.rates);
  among("momentum", data.momenta);
  among("steps", data.steps);
  among("length", LENGTHS);
  if (parts.has("strategies")) state.strategies = Object.keys(SHOWN).filter(name => parts.get("strategies").split(",").includes(name));
  if (parts.has("apart")) state.apart = parts.get("apart") === "1";
  const start = (parts.get("start") ?? "").split(",").map(Number);
  if (parts.has("start") && start.length === 2 && start.every(x => Math.abs(x) <= 2)) state.start = start;
  for (const part of (parts.get("own") ?? "").split(",")) {
    const [name, value] = part.split(":"), range = SHOWN[name]?.coefficient;
    const stop = range && +((value - range.low) / range.step).toFixed(6); // only stops of its slider may be recorded
    if (range && value <= range.high && stop >= 0 && Number.isInteger(stop)) state.own[name] = Number(value);
  }
  const moment = parseFloat(parts.get("at"));
  return Number.isFinite(moment) ? moment : null;
}
