// A moment that runs from 0 to `end()` by `speed()` per second, or is put somewhere, and is drawn wherever it is.
function clockOf(end, speed, draw) {
  const clock = { moment: 0, running: false, play, go };
  let since = null;

  function play(running = !clock.running) {
    if (running && clock.moment >= end()) clock.moment = 0;
    if (running && !clock.running) requestAnimationFrame(tick);
    clock.running = running;
    since = null;
    draw();
  }

  function go(moment) {
    clock.running = false;
    clock.moment = Math.max(0, Math.min(end(), moment));
    draw();
  }

  function tick(now) {
    if (!clock.running) return;
    clock.moment = Math.min(end(), clock.moment + (since === null ? 0 : Math.min(0.1, (now - since) / 1000) * speed()));
    since = now;
    clock.running = clock.moment < end();
    draw();
    if (clock.running) requestAnimationFrame(tick);
  }

  return clock;
}
