"use strict";
// The page while a flight goes on: asks the server that it came from what is new, and follows the newest frame.
(() => {
  const report = window.aerialVprReport, told = document.getElementById("live");
  const MOST = 20000;
  let flight = -1, next = 0, first = 0;

  function take(answer) {
    const frames = report.run.frames, before = frames.t.length;
    const anew = answer.flight !== flight;
    const follow = anew || report.current >= before - 1;
    if (!anew && answer.next === next) return;
    for (const key of Object.keys(answer.frames)) {
      const values = anew ? answer.frames[key] : frames[key].concat(answer.frames[key]);
      frames[key] = values.slice(-MOST);
    }
    [flight, next] = [answer.flight, answer.next];
    first = next - frames.t.length;
    report.parsed.set(report.run, answer.pictures.filter(({ number }) => number >= first).map(({ number, kinds }) => ({
      frame: number - first, ...Object.fromEntries(kinds.map((kind) => [`${kind}_url`, `${kind}.jpg?flight=${flight}&number=${number}`])),
    })));
    const answered = frames.x.filter((x) => x !== null).length;
    report.run.summary = `${answered} of ${frames.t.length} frames got a position`;
    report.grown(follow);
  }

  async function ask() {
    try {
      const response = await fetch(`moments?flight=${flight}&number=${next}`, { cache: "no-store" });
      const answer = await response.json();
      take(answer);
      const silent = answer.silent_s;
      told.textContent = `${answer.words}${silent === null ? "" : silent > 5 ? `; nothing since ${Math.round(silent)} s` : ""}`;
      told.className = silent === null || silent > 5 ? "away" : "";
    } catch (error) {
      told.textContent = "the page's server has ended";
      told.className = "away";
    }
    setTimeout(ask, 1000 * report.data.live_s);
  }

  told.hidden = false;
  ask();
})();
