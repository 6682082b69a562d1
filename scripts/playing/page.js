// What can be pressed, dragged and typed.
const by = id => document.getElementById(id);
const clock = clockOf(() => state.length, () => state.speed, draw);
const signed = (x, digits) => x.toFixed(digits).replace("-", "−");
const FATES = { out: "goes out", in: "comes in", round: "goes round" }, ARROWS = { out: "↗", in: "↘", round: "↻" };
const rows = {};

function describe(x) {
  if (x >= 1e-3 && x < 1e4) return x.toPrecision(3);
  return x >= 1e9 ? "> 1e9" : x.toExponential(1).replace("-", "−");
}

// Draw everything at the present moment.
function draw() {
  const moment = clock.moment;
  drawField(by("field"), moment);
  drawDistance(by("distance"), moment);
  drawDensities(by("densities"), moment);
  for (const name of state.strategies) {
    const path = paths[name];
    rows[name].distance.textContent = moment > last(path) ? "> 1e9" : describe(distance(at(path, moment)));
  }
  by("moment").value = Math.floor(moment);
  by("now").textContent = `iteration ${Math.floor(moment)} / ${state.length}`;
  by("play").textContent = clock.running ? "❚❚ Pause" : "▶ Play";
}

// A setting has changed: follow the paths anew, and say what came of it.
function refresh() {
  follow();
  by("moment").max = state.length;
  clock.moment = Math.min(clock.moment, state.length);
  const said = [];
  for (const one of data.strategies) {
    const chosen = state.strategies.includes(one.name), row = rows[one.name];
    row.line.className = chosen ? "" : "off";
    row.box.checked = chosen;
    row.swatch.style.stroke = hue(one.name);
    const measured = chosen ? factorOf(paths[one.name]) : null, ahead = chosen ? atSolution(one.name) : null;
    const turn = chosen ? fate(one.name, measured) : "";
    row.factor.textContent = measured === null || turn === "" ? "–" : `${measured.factor.toFixed(4)} ${ARROWS[turn]} ${FATES[turn]}`;
    row.factor.className = `number ${turn}`;
    row.atSolution.textContent = chosen && ahead !== null ? ahead.toFixed(4) : "–";
    if (!chosen) row.distance.textContent = "–";
    else if (turn) said.push(`${one.name} ${FATES[turn]}`);
    if (row.own) {
      row.own.value = state.own[one.name];
      row.value.textContent = `${one.coefficient.symbol} = ${state.own[one.name]}`;
    }
  }
  by("legend").innerHTML = state.strategies.map(name => `<span style="color: ${hue(name)}"><svg width="26" height="8" aria-hidden="true"><path d="M1 4h24" fill="none" stroke="currentColor" stroke-width="3" stroke-dasharray="${SHOWN[name].dash.join(" ")}"/></svg>${name}</span>`).join("");
  by("field").setAttribute("aria-label", `Paths of ${state.strategies.join(", ") || "no strategy"} in the plane of both weights.`);
  by("distance").setAttribute("aria-label", `Distance to the solution over ${state.length} iterations: ${said.join(", ")}.`);
  by("densities").setAttribute("aria-label", "Data, fakes and the discriminator's line at this moment.");
  by("said").textContent = said.join(", ");
  by("legs-help").textContent = state.rate >= 0.15 ? "Thick arrows: the step being made; dashed: only tried." : "With a larger learning rate the single steps can be seen.";
  for (const part of document.querySelectorAll("[data-about]")) part.hidden = part.dataset.about !== state.game;
  for (const radio of document.querySelectorAll("[name=game]")) radio.checked = radio.value === state.game;
  by("together").setAttribute("aria-pressed", !state.apart);
  by("apart").setAttribute("aria-pressed", state.apart);
  by("speed").value = state.speed;
  for (const show of dials) show();
  toAddress();
  draw();
}

// A setting was changed by hand, and not by a question.
function changed() {
  asked(null);
  refresh();
}

// Set up a slider over a list of values, and return what shows its value.
function dial(key, values, words) {
  const slider = by(key), output = by(`${key}-value`);
  Object.assign(slider, { min: 0, max: values.length - 1, step: 1 });
  slider.addEventListener("input", () => {
    const whole = clock.moment >= state.length;
    state[key] = values[slider.value];
    if (key === "length" && whole) clock.moment = state.length;
    changed();
  });
  return () => {
    slider.value = values.indexOf(state[key]);
    output.textContent = words(state[key]);
    slider.setAttribute("aria-valuetext", words(state[key]));
  };
}
const dials = [
  dial("rate", data.rates, String),
  dial("momentum", data.momenta, x => signed(x, 1)),
  dial("steps", data.steps, x => x.replace(":", " : ")),
  dial("length", LENGTHS, String),
];

function setUpStrategies() {
  for (const one of data.strategies) {
    const line = document.createElement("tr"), range = one.coefficient;
    line.innerHTML =
      '<td><label class="choose"><input type="checkbox"><svg width="34" height="12" aria-hidden="true"><path d="M1 6h32" fill="none" stroke-width="3"/></svg>' +
      '<span><b></b><small></small></span></label></td><td class="of-own"></td>' +
      '<td class="number" data-label="distance"></td><td class="number"></td><td class="number" data-label="at the solution"></td>';
    const [, own, distanceNow, factor, near] = line.children;
    line.querySelector("b").textContent = one.name;
    line.querySelector("small").textContent = one.words + (one.also.length ? `; same path here: ${one.also.join(", ")}` : "");
    const swatch = line.querySelector("path");
    swatch.style.strokeDasharray = one.dash.join(" ");
    const row = (rows[one.name] = { line, swatch, box: line.querySelector("input"), distance: distanceNow, factor, atSolution: near });
    row.box.addEventListener("change", () => {
      state.strategies = data.strategies.map(other => other.name).filter(name => rows[name].box.checked);
      changed();
    });
    if (range) {
      own.innerHTML = '<label class="own"><output></output><input type="range"></label>';
      row.own = own.querySelector("input");
      row.value = own.querySelector("output");
      Object.assign(row.own, { min: range.low, max: range.high, step: range.step });
      row.own.setAttribute("aria-label", `${range.key} of ${one.name}`);
      row.own.addEventListener("input", () => {
        state.own[one.name] = Number(row.own.value);
        changed();
      });
    }
    by("strategies").append(line);
  }
}

// Mark the question that is being answered, or none.
function asked(question) {
  for (const button of by("questions").children) button.setAttribute("aria-pressed", button.textContent === question?.ask);
  by("answer").textContent = question?.say ?? "Your own settings. The table below says what each strategy does with them.";
}

function setUpQuestions() {
  for (const question of QUESTIONS) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = question.ask;
    button.addEventListener("click", () => ask(question));
    by("questions").append(button);
  }
}

function ask(question) {
  Object.assign(state, { apart: false, start: [1.2, 0.6] }, question.set, { own: { ...DEFAULTS } });
  state.strategies = question.set.strategies?.filter(name => SHOWN[name]) ?? Object.keys(SHOWN);
  clock.moment = still.matches ? state.length : 0;
  refresh();
  asked(question);
  clock.play(!still.matches);
}

function setUpField() {
  const field = by("field");
  const move = event => {
    const box = field.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const panel = panels(box.width).find(one => x >= one.x && x <= one.x + one.size && y >= one.y && y <= one.y + one.size);
    if (panel) startAt(...unplace(panel, x, y));
  };
  field.addEventListener("pointerdown", event => {
    field.setPointerCapture(event.pointerId);
    move(event);
  });
  field.addEventListener("pointermove", event => event.buttons && move(event));
  field.addEventListener("keydown", event => {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    startAt(state.start[0] + 0.05 * by[0], state.start[1] + 0.05 * by[1]);
  });
}
function startAt(theta, psi) {
  state.start = [theta, psi].map(x => Math.round(Math.max(-2, Math.min(2, x)) * 1000) / 1000);
  refresh();
}

function setUpKeys() {
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input, select, textarea"), pressing = event.target.matches("button, input[type=checkbox], summary, a");
    if (event.key === " " && !typing && !pressing) clock.play();
    else if (event.key === "ArrowRight" && !typing) clock.go(Math.floor(clock.moment) + 1);
    else if (event.key === "ArrowLeft" && !typing) clock.go(Math.ceil(clock.moment) - 1);
    else if (event.key === "Home" && !typing) clock.go(0);
    else if (data.games[event.key - 1] && !typing) choose(data.games[event.key - 1].name);
    else if (event.key === "s" && !typing) apart(!state.apart);
    else return;
    event.preventDefault();
  });
}
function choose(game) {
  state.game = game;
  changed();
}
function apart(value) {
  state.apart = value;
  refresh();
}

// Follow every path that ganexp's own strategies went, and say how far the two are apart at most.
function held() {
  let worst = 0;
  for (const one of data.references) {
    const end = tapes.path(data, GAMES[one.game], one.strategy, one, data.start, data.iterations, Infinity).points.at(-1);
    const size = Math.max(1, distance(one.end));
    worst = Math.max(worst, Math.abs(end[0] - one.end[0]) / size, Math.abs(end[1] - one.end[1]) / size);
  }
  const far = worst < 1e-9 ? `the two differ by ${describe(worst)} at most` : `THEY DIFFER, by up to ${describe(worst)}`;
  by("held").textContent = `on ${data.references.length} paths of ${data.iterations} iterations, at every end of every slider, ${far}.`;
  document.documentElement.dataset.worst = worst;
}

function themed(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  by("theme").textContent = dark ? "☀ Light" : "☾ Dark";
}
function toTheme(dark) {
  themed(dark);
  refresh();
  drawRings();
}

const moment = fromAddress(), dark = matchMedia("(prefers-color-scheme: dark)");
themed(dark.matches);
dark.addEventListener("change", () => toTheme(dark.matches));
by("theme").addEventListener("click", () => toTheme(document.documentElement.dataset.theme !== "dark"));
for (const radio of document.querySelectorAll("[name=game]")) radio.addEventListener("change", () => choose(radio.value));
by("together").addEventListener("click", () => apart(false));
by("apart").addEventListener("click", () => apart(true));
by("play").addEventListener("click", () => clock.play());
by("step").addEventListener("click", () => clock.go(Math.floor(clock.moment) + 1));
by("restart").addEventListener("click", () => clock.go(0));
by("moment").addEventListener("input", () => clock.go(Number(by("moment").value)));
by("speed").addEventListener("change", () => (state.speed = Number(by("speed").value)));
by("ring-settings").textContent = data.ring.words;
by("judged").textContent = data.ring.judged;
setUpStrategies();
setUpQuestions();
setUpField();
setUpKeys();
setUpRings();
new ResizeObserver(() => {
  draw();
  drawRings();
}).observe(document.body);
held();
drawRings();
if (location.hash.length > 1) {
  refresh();
  asked(null);
  clock.go(moment ?? (still.matches ? state.length : 0));
} else ask(QUESTIONS[0]);
