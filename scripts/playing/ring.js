// The ring of eight Gaussians: samples and what D believes, from frame to frame.
const bytes = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
const RUNS = Object.entries(data.ring.runs).map(([name, run]) => ({
  ...run, name, points: new Uint16Array(bytes(run.points).buffer), field: bytes(run.field),
}));
const FRAMES = data.ring.iterations.length;
const rings = clockOf(() => FRAMES - 1, () => 7, drawRings);
if (still.matches) rings.moment = FRAMES - 1;

// From what D takes for generated to what it takes for real: violet over grey to amber, told apart in any kind of colour vision.
function belief(share) {
  const dark = document.documentElement.dataset.theme === "dark";
  const ends = dark ? [[70, 52, 130], [38, 44, 58], [150, 104, 22]] : [[205, 196, 240], [247, 246, 243], [255, 222, 150]];
  const [from, to] = share < 0.5 ? [ends[0], ends[1]] : [ends[1], ends[2]], along = (share % 0.5) * 2;
  return (share === 1 ? ends[2] : from.map((part, i) => part + along * (to[i] - part)));
}

const sheet = document.createElement("canvas");
function drawRing(canvas, run, moment) {
  const [pen, width] = prepared(canvas), { cells, reach, samples, std } = data.ring;
  const i = Math.min(Math.floor(moment), FRAMES - 1), next = Math.min(i + 1, FRAMES - 1), share = moment - i;
  const mix = (values, at, stride) => values[i * stride + at] * (1 - share) + values[next * stride + at] * share;
  Object.assign(sheet, { width: cells, height: cells });
  const brush = sheet.getContext("2d"), picture = brush.createImageData(cells, cells);
  for (let row = 0; row < cells; row++)
    for (let column = 0; column < cells; column++) {
      const color = belief(mix(run.field, row * cells + column, cells * cells) / 255);
      picture.data.set([...color, 255], 4 * ((cells - 1 - row) * cells + column));
    }
  brush.putImageData(picture, 0, 0);
  pen.imageSmoothingEnabled = true;
  const rim = width / (cells - 1) / 2; // the outermost points of the grid lie on the edge
  pen.drawImage(sheet, -rim, -rim, width + 2 * rim, width + 2 * rim);
  pen.strokeStyle = tint("mark");
  pen.globalAlpha = 0.55;
  pen.lineWidth = 1;
  const x = value => (0.5 + value / reach / 2) * width;
  for (let mode = 0; mode < 8; mode++) {
    const angle = (mode * Math.PI) / 4;
    circle(pen, x(Math.cos(angle)), x(-Math.sin(angle)), Math.max(3.5, (3 * std * width) / reach / 2)).stroke();
  }
  pen.globalAlpha = 0.75;
  pen.fillStyle = hue(run.name);
  for (let sample = 0; sample < samples; sample++) {
    const [px, py] = [0, 1].map(axis => (mix(run.points, 2 * sample + axis, 2 * samples) / 65535) * width);
    circle(pen, px, width - py, 1.9).fill();
  }
  pen.globalAlpha = 1;
}

function drawRings() {
  const i = Math.floor(rings.moment), colors = [0, 0.25, 0.5, 0.75, 1].map(share => `rgb(${belief(share).map(Math.round)})`);
  document.getElementById("scale").style.background = `linear-gradient(90deg, ${colors})`;
  for (const run of RUNS) {
    drawRing(run.canvas, run, rings.moment);
    run.caption.textContent = `${run.modes[i]} of 8 modes, ${Math.round(100 * run.near[i])} % of samples near one`;
    run.canvas.setAttribute("aria-label", `${run.title} after ${data.ring.iterations[i]} iterations: ${run.caption.textContent}`);
  }
  document.getElementById("ring-moment").value = i;
  document.getElementById("ring-now").textContent = `iteration ${data.ring.iterations[i]}`;
  document.getElementById("ring-play").textContent = rings.running ? "❚❚ Pause" : "▶ Play";
}

function setUpRings() {
  for (const run of RUNS) {
    const figure = document.createElement("figure");
    figure.className = "card";
    figure.innerHTML = '<canvas role="img"></canvas><figcaption><b></b><br><span></span></figcaption>';
    [run.canvas, run.caption] = [figure.querySelector("canvas"), figure.querySelector("span")];
    figure.querySelector("b").textContent = run.title;
    document.getElementById("rings").append(figure);
  }
  const slider = document.getElementById("ring-moment");
  slider.max = FRAMES - 1;
  slider.addEventListener("input", () => rings.go(Number(slider.value)));
  document.getElementById("ring-play").addEventListener("click", () => rings.play());
  const seen = new IntersectionObserver(([place]) => {
    if (!place.isIntersecting || still.matches) return;
    seen.disconnect(); // it starts once, when it comes into view
    rings.play(true);
  }, { threshold: 0.6 });
  seen.observe(document.getElementById("rings"));
}
