const hidden = new Set();
const axisOf = () => document.querySelector('#axis')?.value ?? 'iterations';
const options = {
  displaylogo: false, modeBarButtons: [['toImage', 'zoom2d', 'pan2d', 'resetScale2d']],
};

function draw(place) {
  const figure = figures[place.dataset.figure];
  figure.data.forEach((trace, i) => {
    trace.visible = !hidden.has(trace.meta);
    trace.x = figure.axes[axisOf()][i];
  });
  figure.layout.xaxis.title.text = axisOf();
  Plotly.react(place, figure.data, figure.layout, options);
  place.classList.add('drawn');
  fitted.observe(place);
}

// A chart follows its place whatever has changed the width: a turned telephone, a frame, paper; not only the window.
const fitted = new ResizeObserver((changed) => changed.forEach(({target}) => Plotly.Plots.resize(target)));

// Only what is looked at is drawn: a page may have hundreds of charts.
const watch = new IntersectionObserver((seen) => {
  for (const one of seen) {
    if (!one.isIntersecting) continue;
    watch.unobserve(one.target);
    draw(one.target);
  }
}, {rootMargin: '300px'});
// plotly.js is a third as large when it is compressed.
const packed = Uint8Array.from(atob(document.querySelector('#plotly').textContent), (one) => one.charCodeAt(0));
new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).text().then((source) => {
  const script = document.createElement('script');
  script.textContent = source;
  document.head.append(script);
  for (const place of document.querySelectorAll('.chart')) watch.observe(place);
});
const redraw = () => document.querySelectorAll('.chart.drawn').forEach(draw);

document.querySelector('#axis')?.addEventListener('change', redraw);

for (const button of document.querySelectorAll('.legend button')) {
  const group = Number(button.dataset.group);
  button.addEventListener('click', () => {
    const hide = !hidden.has(group);
    if (hide) hidden.add(group); else hidden.delete(group);
    button.setAttribute('aria-pressed', String(!hide));
    for (const part of document.querySelectorAll(`[data-of="${group}"]`)) part.hidden = hide;
    redraw();
  });
}

const slider = document.querySelector('#turn');
const iterations = slider && JSON.parse(slider.dataset.iterations);
const turns = [...document.querySelectorAll('figure')].map((figure) => {
  const image = figure.querySelector('img'), told = figure.querySelector('output');
  const frames = JSON.parse(figure.querySelector('script').textContent), newest = image.src;
  return () => {
    const now = slider ? iterations[slider.value] : Infinity;
    const [at, source] = frames.findLast(([at]) => at <= now) ?? frames[0];
    if (image.src !== (source ?? newest)) image.src = source ?? newest;
    told.textContent = 'iteration ' + at.toLocaleString('en');
  };
});
const turnAll = () => {
  if (slider) document.querySelector('#turned').textContent = iterations[slider.value].toLocaleString('en');
  turns.forEach((turn) => turn());
};
slider?.addEventListener('input', turnAll);
turnAll();
