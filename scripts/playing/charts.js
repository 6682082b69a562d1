// Two smaller pictures of the same moment: the distance so far on a log axis, and what the two networks do to points.
function drawDistance(canvas, moment) {
  const [pen, width, height] = prepared(canvas);
  const left = 46, right = 10, top = 10, bottom = 30;
  const all = Object.values(paths).flatMap(path => path.points.map(distance)).filter(x => x > 0);
  let low = Math.max(-9, Math.floor(Math.log10(Math.min(...all, 1)))), high = Math.min(4, Math.ceil(Math.log10(Math.max(...all, 1.01))));
  if (high - low < 2) low = high - 2;
  const x = i => left + (i / state.length) * (width - left - right);
  const y = value => top + ((high - Math.log10(Math.max(1e-300, value))) / (high - low)) * (height - top - bottom);
  pen.font = "12px system-ui, sans-serif";
  pen.lineWidth = 1;
  const stride = high - low > 8 ? 2 : 1;
  for (let power = low; power <= high; power += stride) {
    pen.strokeStyle = power === 0 ? tint("soft") : tint("grid");
    polyline(pen, [[left, y(10 ** power)], [width - right, y(10 ** power)]]).stroke();
    pen.fillStyle = tint("soft");
    const text = power >= -2 && power <= 3 ? String(10 ** power) : `1e${power}`.replace("-", "−");
    write(pen, text, left - 6, y(10 ** power), "right", "middle");
  }
  const ticks = width < 420 ? 2 : 4;
  for (let i = 0; i <= ticks; i++) {
    const iteration = (i * state.length) / ticks, text = i === ticks ? `${state.length} iterations` : String(Math.round(iteration));
    write(pen, text, x(iteration), height - bottom + 8, i === 0 ? "left" : i === ticks ? "right" : "center", "top");
  }
  pen.save();
  pen.beginPath();
  pen.rect(left, top - 4, width - left, height - top - bottom + 8);
  pen.clip();
  for (const name of state.strategies) {
    const path = paths[name];
    for (const whole of [true, false]) {
      pen.globalAlpha = whole ? 0.25 : 1;
      pen.strokeStyle = hue(name);
      pen.lineWidth = whole ? 1.3 : 2.4;
      pen.setLineDash(SHOWN[name].dash);
      const points = whole ? path.points : path.points.slice(0, Math.floor(moment) + 1);
      polyline(pen, points.map((point, i) => [x(i), y(distance(point))])).stroke();
    }
    pen.setLineDash([]);
    const now = Math.min(moment, last(path));
    pen.fillStyle = hue(name);
    circle(pen, x(now), y(distance(at(path, now))), 4.5).fill();
  }
  pen.restore();
}

function drawDensities(canvas, moment) {
  const [pen, width, height] = prepared(canvas);
  const reach = 2.1, game = GAMES[state.game], base = height * 0.62, unit = height * 0.27;
  const x = value => (0.5 + value / reach / 2) * width;
  pen.strokeStyle = tint("line");
  pen.lineWidth = 1;
  polyline(pen, [[0, base], [width, base]]).stroke();
  const spread = Math.sqrt(game.points.reduce((sum, one) => sum + one * one, 0) / game.points.length);
  const cloud = (center, color, alpha) => {
    pen.fillStyle = pen.strokeStyle = color;
    if (spread === 0) {
      pen.lineWidth = 3;
      const top = [x(center), base - 1.5 * unit];
      polyline(pen, [[x(center), base], top]).stroke();
      circle(pen, ...top, 4.5).fill();
      return;
    }
    const bell = Array.from({ length: 81 }, (_, i) => (i / 80) * 6 - 3);
    polyline(pen, bell.map(u => [x(center + u * spread), base - 1.6 * unit * Math.exp((-u * u) / 2)]));
    pen.globalAlpha = alpha;
    pen.fill();
    pen.globalAlpha = 1;
    pen.lineWidth = 1.8;
    pen.stroke();
  };
  cloud(0, tint("real"), 0.3);
  for (const name of state.strategies) {
    const [theta, psi] = at(paths[name], moment);
    if (Math.abs(theta) > 50) continue;
    cloud(theta, hue(name), 0.12);
    pen.setLineDash([6, 5]);
    pen.lineWidth = 1.6;
    polyline(pen, [-reach, reach].map(at => [x(at), base - unit * psi * at])).stroke();
    pen.setLineDash([]);
  }
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = tint("soft");
  const ticks = [-2, -1, 0, 1, 2]; // after the lines, which would cross them
  for (const tick of ticks) write(pen, String(tick).replace("-", "−"), x(tick), base + 3, "center", "top");
}
