// The plane of the two weights: arrows, paths, and the legs of the step that is being made.
const REACH = 2.1;
const LEGS = { d: "D", g: "G", both: "", ahead: "look ahead" };

// Fit a canvas to its place on the screen, and return its context, width and height in CSS pixels.
function prepared(canvas) {
  const box = canvas.getBoundingClientRect(), scale = devicePixelRatio || 1;
  const width = Math.round(box.width * scale), height = Math.round(box.height * scale);
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, box.width, box.height);
  return [pen, box.width, box.height];
}

// Begin a path through points, or around one, and return the pen, which is to stroke or fill it.
function polyline(pen, points) {
  pen.beginPath();
  for (const point of points) pen.lineTo(...point);
  return pen;
}
function circle(pen, x, y, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 7);
  return pen;
}

// The head of an arrow in the direction (ux, uy), with its tip at (x, y); `half` is half its width.
function drawHead(pen, [x, y], ux, uy, length, half) {
  const [backX, backY] = [x - length * ux, y - length * uy];
  polyline(pen, [[x, y], [backX - half * uy, backY + half * ux], [backX + half * uy, backY - half * ux]]).fill();
}

// The panels of the picture: one for all, or one for each strategy.
function panels(width) {
  if (!state.apart || state.strategies.length < 2) return [{ x: 0, y: 0, size: width, names: state.strategies }];
  const { columns } = shapeOfField(), size = width / columns;
  return state.strategies.map((name, i) => ({ x: (i % columns) * size, y: Math.floor(i / columns) * size, size: size - 4, names: [name] }));
}
function shapeOfField() {
  const n = state.apart ? Math.max(1, state.strategies.length) : 1, columns = Math.ceil(Math.sqrt(n));
  return { columns, rows: Math.ceil(n / columns) };
}

const place = (panel, theta, psi) => [
  panel.x + (0.5 + theta / REACH / 2) * panel.size,
  panel.y + (0.5 - psi / REACH / 2) * panel.size,
];
const unplace = (panel, x, y) => [((x - panel.x) / panel.size - 0.5) * 2 * REACH, (0.5 - (y - panel.y) / panel.size) * 2 * REACH];

// Text that can be read on top of anything, with (x, y) at its `align` and its `baseline`.
function write(pen, text, x, y, align, baseline) {
  Object.assign(pen, { textAlign: align, textBaseline: baseline });
  pen.save();
  pen.strokeStyle = tint("card");
  pen.lineWidth = 4;
  pen.lineJoin = "round";
  pen.strokeText(text, x, y);
  pen.restore();
  pen.fillText(text, x, y);
}

// −∇ at the middles of so many cells a side, which stays the same from one frame to the next.
const grounds = new Map();
function arrowsOf(game, many) {
  const key = `${game.name} ${many}`;
  if (!grounds.has(key)) {
    const ticks = Array.from({ length: many }, (_, i) => ((i + 0.5) / many - 0.5) * 2 * REACH);
    grounds.set(key, ticks.flatMap(theta => ticks.map(psi => [theta, psi, ...tapes.descent(data, game, theta, psi)])));
  }
  return grounds.get(key);
}

function drawGround(pen, panel) {
  const game = GAMES[state.game], many = panel.size > 430 ? 19 : panel.size > 250 ? 13 : 9, [x0, y0] = place(panel, 0, 0);
  pen.strokeStyle = tint("grid");
  pen.lineWidth = 1;
  for (let r = 0.5; r < REACH; r += 0.5) circle(pen, x0, y0, (r / REACH / 2) * panel.size).stroke();
  polyline(pen, [place(panel, -REACH, 0), place(panel, REACH, 0)]).stroke();
  polyline(pen, [place(panel, 0, -REACH), place(panel, 0, REACH)]).stroke();
  const room = panel.size / many;
  pen.fillStyle = pen.strokeStyle = tint("arrow");
  for (const [theta, psi, ofG, ofD] of arrowsOf(game, many)) {
    const size = Math.hypot(ofG, ofD);
    if (size < 1e-9) continue;
    const strong = Math.sqrt(Math.min(1, size / 2)), length = room * (0.2 + 0.55 * strong), [x, y] = place(panel, theta, psi);
    const ux = ofG / size, uy = -ofD / size, head = Math.min(length * 0.5, 2.5 + 2 * strong);
    const end = [x - (ux * length) / 2, y - (uy * length) / 2], tip = [x + (ux * length) / 2, y + (uy * length) / 2];
    pen.globalAlpha = 0.3 + 0.6 * strong;
    pen.lineWidth = 1 + 0.5 * strong;
    polyline(pen, [end, [tip[0] - ux * head, tip[1] - uy * head]]).stroke();
    drawHead(pen, tip, ux, uy, 1.5 * head, 0.7 * head);
  }
  pen.globalAlpha = 1;
  pen.strokeStyle = tint("mark"); // the solution
  pen.lineWidth = 2;
  polyline(pen, [[x0 - 6, y0], [x0 + 6, y0]]).stroke();
  polyline(pen, [[x0, y0 - 6], [x0, y0 + 6]]).stroke();
}

// What the axes are, and their numbers: on top of the paths.
function drawLabels(pen, panel) {
  const [x0, y0] = place(panel, 0, 0);
  pen.fillStyle = tint("soft");
  pen.font = `${panel.size > 330 ? 13 : 11}px system-ui, sans-serif`;
  write(pen, panel.size > 330 ? "θ, weight of G →" : "θ →", panel.x + panel.size - 6, y0 - 4, "right", "bottom");
  write(pen, panel.size > 330 ? "↑ ψ, weight of D" : "↑ ψ", x0 + 6, panel.y + 6, "left", "top");
  if (panel.size > 330)
    for (const tick of [-2, -1, 1, 2]) {
      const [x, y] = place(panel, tick, tick), text = String(tick).replace("-", "−");
      write(pen, text, x, y0 + 4, "center", "top");
      write(pen, text, x0 - 12, y - 7, "center", "top");
    }
}

function drawPath(pen, panel, name, moment) {
  const path = paths[name], shown = Math.min(Math.floor(moment), last(path));
  pen.strokeStyle = pen.fillStyle = hue(name);
  pen.setLineDash(SHOWN[name].dash);
  pen.lineWidth = 1.8;
  pen.lineJoin = "round";
  const places = path.points.slice(Math.max(0, shown - 900), shown + 1).map(point => place(panel, ...point));
  polyline(pen, places).stroke();
  pen.setLineDash([]);
  if (shown < 120) for (const one of places) circle(pen, ...one, 2.1).fill();
  drawLegs(pen, panel, path, shown, panel.names.length < 3);
  circle(pen, ...place(panel, ...at(path, moment)), 6.5).fill();
  pen.lineWidth = 2;
  pen.strokeStyle = tint("card");
  pen.stroke();
}

// What the present iteration consists of, if its steps are long enough to be seen.
function drawLegs(pen, panel, path, shown, named) {
  for (const leg of path.legs[Math.min(shown + 1, last(path))] ?? []) {
    const a = place(panel, ...leg.from), b = place(panel, ...leg.to);
    const length = Math.hypot(b[0] - a[0], b[1] - a[1]);
    if (length < 14) continue;
    const ux = (b[0] - a[0]) / length, uy = (b[1] - a[1]) / length;
    pen.lineWidth = 2.4;
    pen.setLineDash(leg.kind === "ahead" ? [4, 4] : []);
    polyline(pen, [a, b]).stroke();
    pen.setLineDash([]);
    drawHead(pen, b, ux, uy, 9, 4);
    if (!named || !LEGS[leg.kind] || length < 22) continue;
    pen.font = "600 12px system-ui, sans-serif";
    const outwards = leg.kind === "ahead" ? 1 : -1;
    const [x, y] = [(a[0] + b[0]) / 2 + 13 * outwards * Math.abs(uy), (a[1] + b[1]) / 2 - 13 * outwards * Math.abs(ux)];
    write(pen, LEGS[leg.kind], x, y, ux * uy > 0 || Math.abs(uy) > 0.9 ? "left" : "center", "middle");
  }
}

function drawField(canvas, moment) {
  const { columns, rows } = shapeOfField();
  canvas.style.aspectRatio = `${columns} / ${rows}`;
  const [pen, width] = prepared(canvas);
  for (const panel of panels(width)) {
    pen.save();
    pen.beginPath();
    pen.rect(panel.x, panel.y, panel.size, panel.size);
    pen.clip();
    drawGround(pen, panel);
    pen.strokeStyle = tint("mark"); // the start
    pen.lineWidth = 1.5;
    circle(pen, ...place(panel, ...state.start), 10).stroke();
    for (const name of panel.names) drawPath(pen, panel, name, moment);
    drawLabels(pen, panel);
    if (state.apart && panel.names.length === 1) {
      pen.font = `600 ${Math.min(13, (panel.size - 12) / (0.62 * panel.names[0].length))}px ui-monospace, monospace`;
      pen.fillStyle = hue(panel.names[0]);
      write(pen, panel.names[0], panel.x + 6, panel.y + panel.size - 6, "left", "bottom");
      pen.strokeStyle = tint("line");
      pen.strokeRect(panel.x + 0.5, panel.y + 0.5, panel.size - 1, panel.size - 1);
    }
    pen.restore();
  }
}
