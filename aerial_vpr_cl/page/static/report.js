"use strict";
// The report of one or several flights. Everything is in the page; positions are metres from the map's south-west corner.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const element = (id) => document.getElementById(id);
  const COLOURS = ["#c2255c", "#e8590c", "#f2b705", "#7048e8", "#0b7285", "#5c940d", "#868e96", "#a61e4d"];
  const RUN_COLOURS = ["#0a7cff", "#e8590c", "#2f9e44", "#7048e8", "#c2255c", "#0b7285", "#f2b705", "#868e96"];
  const MOST_ELLIPSES = 400;
  const KEYS = [
    ["error_m", "error", "m"], ["sigma_m", "sigma", "m"], ["z", "peak z", ""], ["confidence", "confidence", ""],
    ["latency_ms", "latency", "ms"],
  ];
  const PLOTS = [
    ["error and sigma, m", [["error", "error_m", "#111"], ["sigma", "sigma_m", "#0a7cff"]]],
    ["peak z", [["z", "z", "#7048e8"]]],
    ["confidence", [["confidence", "confidence", "#0b7285"]]],
    ["latency, ms", [["latency", "latency_ms", "#e8590c"]]],
  ];
  let run = data.runs[0];
  let current = 0;

  const at = (x, y) => L.latLng(y, x);
  const known = (value) => value !== null && value !== undefined;
  const text = (value, digits, unit) => (known(value) ? `${value.toFixed(digits)}${unit ? ` ${unit}` : ""}` : "–");
  const percent = (share) => (known(share) ? `${Math.round(100 * share)} %` : "–");
  const reasons = [];
  const colourOf = (reason) => COLOURS[reasons.indexOf(reason) % COLOURS.length];

  function make(kind, words, ...children) {
    const made = document.createElement(kind);
    if (words) made.textContent = words;
    made.append(...children);
    return made;
  }

  // Map

  const map = L.map("map", { crs: L.CRS.Simple, minZoom: -6, maxZoom: 4, zoomSnap: 0.25, preferCanvas: true, attributionControl: false });
  const ground = L.latLngBounds(at(0, 0), at(data.map.width_m, data.map.height_m));
  if (data.map.image) L.imageOverlay(data.map.image, ground, { alt: "satellite map" }).addTo(map);
  L.control.scale({ imperial: false }).addTo(map);
  map.fitBounds(ground);
  const control = L.control.layers(null, null, { collapsed: window.innerWidth < 600 }).addTo(map);
  let layers = [];
  const shown = { "other flights": false };  // layers as they were switched last
  map.on("overlayadd", (event) => { shown[event.name] = true; });
  map.on("overlayremove", (event) => { shown[event.name] = false; });
  const marker = L.circleMarker(at(0, 0), { radius: 8, color: "#000", weight: 2, fillColor: "#fff", fillOpacity: 0.9 });

  function pieces(xs, ys) {
    const parts = [[]];
    xs.forEach((x, k) => {
      if (known(x)) parts[parts.length - 1].push(at(x, ys[k]));
      else if (parts[parts.length - 1].length) parts.push([]);
    });
    return parts.filter((part) => part.length);
  }

  function ellipse(frames, k) {
    // Axes of the 95 % region of a normal distribution: the covariance's eigenvalues times 5.99.
    const [a, b, c] = [frames.cov_xx[k], frames.cov_xy[k], frames.cov_yy[k]];
    const middle = (a + c) / 2, spread = Math.hypot((a - c) / 2, b), turn = Math.atan2(2 * b, a - c) / 2;
    const [long, short] = [Math.sqrt(5.99 * (middle + spread)), Math.sqrt(5.99 * Math.max(middle - spread, 0))];
    return Array.from({ length: 32 }, (_, j) => {
      const [u, v] = [long * Math.cos((j * Math.PI) / 16), short * Math.sin((j * Math.PI) / 16)];
      return at(frames.x[k] + u * Math.cos(turn) - v * Math.sin(turn), frames.y[k] + u * Math.sin(turn) + v * Math.cos(turn));
    });
  }

  // Where a frame is to be drawn: its answer, else the truth, else GNSS.
  function place(frames, k) {
    for (const prefix of ["", "truth_", "gnss_"]) if (known(frames[`${prefix}x`][k])) return [frames[`${prefix}x`][k], frames[`${prefix}y`][k]];
    return null;
  }

  function layer(name, members) {
    const group = L.layerGroup(members);
    control.addOverlay(group, name);
    if (shown[name] !== false) group.addTo(map);
    layers.push(group);
  }

  function line(xs, ys, options) {
    return pieces(xs, ys).map((part) => L.polyline(part, { weight: 3, smoothFactor: 1.5, interactive: false, ...options }));
  }

  function drawMap() {
    const before = { ...shown };
    for (const old of layers) { control.removeLayer(old); old.remove(); }
    Object.assign(shown, before);
    layers = [];
    const frames = run.frames;
    const step = Math.max(1, Math.ceil(frames.x.length / MOST_ELLIPSES));
    const ellipses = [];
    frames.x.forEach((x, k) => {
      if (known(x) && known(frames.cov_xx[k]) && k % step === 0) ellipses.push(L.polygon(ellipse(frames, k), { color: "#0a7cff", weight: 1, fillOpacity: 0.08, interactive: false }));
    });
    const others = data.runs.filter((one) => one !== run).flatMap((one) => line(one.frames.x, one.frames.y, { color: "#868e96", weight: 2 }));
    if (others.length) layer("other flights", others);
    layer("95 % regions", ellipses);
    layer("GNSS", line(frames.gnss_x, frames.gnss_y, { color: "#d9480f", weight: 2, dashArray: "4 5" }));
    layer("truth", line(frames.truth_x, frames.truth_y, { color: "#111" }));
    layer("answers", line(frames.x, frames.y, { color: "#0a7cff" }));
    const silent = [];
    frames.reason.forEach((reason, k) => {
      const where = reason && place(frames, k);
      if (where) silent.push(L.circleMarker(at(...where), { radius: 4, weight: 1, color: "#fff", fillColor: colourOf(reason), fillOpacity: 1 }).bindTooltip(reason).on("click", () => show(k)));
    });
    layer("silences", silent);
    const kept = (run.kept || []).filter((k) => place(frames, k));
    if (kept.length) layer("frames kept by the learner", kept.map((k) => L.circleMarker(at(...place(frames, k)), { radius: 6, weight: 2, color: "#2f9e44", fill: false, interactive: false })));
    marker.addTo(map);
    drawLegend();
  }

  map.on("click", (event) => {
    const { lng: x, lat: y } = event.latlng;
    let best = 0, least = Infinity;
    if (!run) return;
    run.frames.x.forEach((_, k) => {
      const where = place(run.frames, k);
      const distance = where ? Math.hypot(where[0] - x, where[1] - y) : Infinity;
      if (distance < least) [best, least] = [k, distance];
    });
    show(best);
  });

  function drawLegend() {
    const entries = [["#0a7cff", "answer"], ["#111", "truth"], ["#d9480f", "GNSS"], ...reasons.map((reason) => [colourOf(reason), `silent: ${reason}`])];
    element("legend").replaceChildren(...entries.map(([colour, name]) => {
      const dot = make("i");
      dot.style.background = colour;
      return make("li", "", dot, name);
    }));
  }

  // One moment

  function show(index) {
    const frames = run.frames;
    if (!frames.t.length) return;
    current = Math.min(Math.max(index, 0), frames.t.length - 1);
    element("time").value = current;
    element("when").textContent = `${frames.t[current].toFixed(1)} s`;
    element("time").setAttribute("aria-valuetext", `frame ${current + 1}, ${element("when").textContent}`);
    const answered = known(frames.x[current]);
    const number = run.every > 1 ? `${current * run.every + 1} of ${run.of}, shown every ${run.every}` : `${current + 1} of ${frames.t.length}`;
    const facts = [
      ["frame", number], ["state", frames.state[current] || "–"],
      ["answer", answered ? "position" : `silent: ${frames.reason[current] || "no reason noted"}`],
      ...KEYS.map(([key, name, unit]) => [name, text(frames[key][current], key === "confidence" ? 3 : 1, unit)]),
    ];
    element("facts").replaceChildren(...facts.map(([name, value]) => make("div", "", make("dt", name), make("dd", value))));
    const where = place(frames, current);
    if (where) marker.setLatLng(at(...where));
    marker.setStyle({ fillColor: answered ? "#0a7cff" : colourOf(frames.reason[current]) || "#fff", opacity: where ? 1 : 0, fillOpacity: where ? 0.9 : 0 });
    showPictures();
    // After the charts have drawn themselves, which they do when this is done.
    queueMicrotask(() => { for (const chart of charts) chart.setCursor({ left: chart.valToPos(frames.t[current], "x"), top: 10 }, false); });
  }

  // Pictures are thinned: the nearest one is shown. Those of a flight are read when it is looked at first.
  const parsed = new Map();
  function picturesOf(one) {
    if (!parsed.has(one)) {
      const source = element(`images-${data.runs.indexOf(one)}`);
      parsed.set(one, source ? JSON.parse(source.textContent) : []);
    }
    return parsed.get(one);
  }

  function showPictures() {
    let best = null;
    for (const picture of picturesOf(run)) if (!best || Math.abs(picture.frame - current) < Math.abs(best.frame - current)) best = picture;
    element("pictures").hidden = !best;
    for (const kind of ["frame", "view", "map", "peak"]) {
      const inside = best && best[`${kind}_jpeg`];
      const source = inside ? `data:image/jpeg;base64,${inside}` : best && best[`${kind}_url`];
      const image = element(`picture-${kind}`);
      if (source) image.src = source;
      else image.removeAttribute("src");
      image.style.visibility = source ? "visible" : "hidden";
      image.parentElement.hidden = Boolean(data.live_s) && !source;
    }
    if (!best) return;
    element("caption-frame").textContent = best.frame === current ? "camera" : `camera at frame ${best.frame + 1}`;
    element("caption-peak").textContent = known(best.searched_m) ? `registration, ${best.searched_m} m across` : "not laid on the map";
  }

  // Figures over time

  let charts = [];
  const plotsOf = (frames) => PLOTS.filter(([, series]) => series.some(([, key]) => frames[key].some(known)));
  const valuesOf = (frames, series) => [frames.t, ...series.map(([, key]) => frames[key])];

  function drawCharts() {
    for (const chart of charts) chart.destroy();
    charts = [];
    const frames = run.frames, sync = uPlot.sync("flight");
    const width = Math.max(element("charts").clientWidth - 26, 260);
    element("charts").replaceChildren();
    for (const [title, series] of plotsOf(frames)) {
      const box = make("div");
      box.className = "chart";
      element("charts").append(box);
      const options = {
        title, width, height: 170, cursor: { sync: { key: sync.key }, drag: { x: true, y: false } }, scales: { x: { time: false } },
        series: [{ label: "seconds" }, ...series.map(([label, , stroke]) => ({ label, stroke, width: 1.5, spanGaps: false, points: { show: frames.t.length < 400, size: 4 } }))],
        axes: [{}, { size: 60 }],
      };
      const chart = new uPlot(options, valuesOf(frames, series), box);
      chart.over.addEventListener("click", () => { if (known(chart.cursor.idx)) show(chart.cursor.idx); });
      charts.push(chart);
    }
  }

  // All flights and results

  function tableOf(head, rows) {
    const row = (cells, kind) => make("tr", "", ...cells.map((cell) => make(kind, cell)));
    return [row(head, "th"), ...rows.map((cells) => row(cells, "td"))];
  }

  function drawTable() {
    const every = [...data.runs, ...data.results];
    const columns = [...new Set(every.flatMap((one) => Object.keys(one.figures)))];
    element("table").replaceChildren(...tableOf(["", ...columns], every.map((one) => [one.name, ...columns.map((key) => one.figures[key] ?? "–")])));
    if (run) element("table").rows[1 + data.runs.indexOf(run)].className = "chosen";
    element("summary").textContent = run ? run.summary : "";
    const silences = Object.entries(run ? run.silences : {});
    element("silences").textContent = silences.length ? `${run.name} silent: ${silences.map(([reason, count]) => `${reason} ${count}`).join(", ")}` : "";
  }

  function curves(id, title, axes, xs, lines) {
    element(id).replaceChildren();
    if (!lines.length) return;
    const options = {
      title, legend: { live: false }, width: Math.min(480, Math.max(element("figures").clientWidth - 26, 240)), height: 260, axes: [{ label: axes[0], labelSize: 20 }, { label: axes[1], labelSize: 20, size: 60 }],
      scales: { x: { time: false, range: [0, 100] }, y: axes[2] },
      series: [{ label: axes[0] }, ...lines.map(({ label, stroke, dash }) => ({ label, stroke, dash, width: 2, points: { show: !dash, size: 5 } }))],
    };
    new uPlot(options, [xs, ...lines.map(({ values }) => values)], element(id));
  }

  function drawComparison() {
    const colour = (k) => RUN_COLOURS[k % RUN_COLOURS.length];
    const covered = data.runs.map((one, k) => ({ one, label: one.name, stroke: colour(k) })).filter(({ one }) => Object.values(one.coverage || {}).some(known));
    const stated = [...new Set(covered.flatMap(({ one }) => Object.keys(one.coverage).map(Number)))].sort((a, b) => a - b);
    const held = covered.map(({ one, ...look }) => ({ ...look, values: stated.map((share) => (known(one.coverage[share]) ? 100 * one.coverage[share] : null)) }));
    curves("reliability", "are the stated regions honest?", ["stated region, %", "held the truth, %", { range: [0, 100] }], stated,
      held.length ? [...held, { label: "honest", stroke: "#868e96", dash: [4, 4], values: stated }] : []);
    const measured = [...data.runs, ...data.results].map((one, k) => ({ label: one.name, stroke: colour(k), values: one.within_m || [] })).filter(({ values }) => values.some(known));
    const shares = measured.length ? measured[0].values.map((_, k) => (100 * (k + 1)) / measured[0].values.length) : [];
    curves("errors", "how near? all frames whose place is known", ["of all frames, %", "within, m", { distr: 3 }], shares, measured);
    const matrices = data.results.filter((one) => one.matrix.length).map((one) => {
      const table = make("table", "", ...tableOf(["after learning", ...one.missions], one.matrix.map((row, k) => [k ? one.missions[k - 1] : "nothing", ...row.map(percent)])));
      one.matrix.forEach((row, i) => row.forEach((share, j) => { if (known(share)) table.rows[i + 1].cells[j + 1].style.background = `rgba(47, 158, 68, ${0.6 * share})`; }));
      const scroll = make("div", "", table);
      scroll.className = "scroll";
      scroll.tabIndex = 0;
      return make("div", "", make("h3", `${one.name}: recall on every mission`), scroll);
    });
    element("matrices").replaceChildren(...matrices);
  }

  function drawLearning() {
    element("learning").hidden = !data.learning.length;
    if (!data.learning.length) return;
    const counts = (numbers) => Object.entries(numbers).map(([name, count]) => `${name} ${count}`).join(", ") || "–";
    const places = Object.keys(data.learning[0].before);
    const rows = data.learning.map((one) => [
      String(one.generation), one.mission, String(one.flown), counts(one.labels), counts(one.refused), String(one.used), String(one.kept),
      ...places.map((where) => `${percent(one.before[where])} → ${percent(one.after[where])}`),
    ]);
    const head = ["generation", "mission", "frames flown", "labels by", "left out", "used", "kept", ...places.map((where) => `recall on ${where}`)];
    const table = make("table", "", ...tableOf(head, rows));
    const scroll = make("div", "", table);
    scroll.className = "scroll";
    scroll.tabIndex = 0;
    const lines = make("ul", "", ...data.learning.map((one) => make("li", one.summary)));
    element("learning").replaceChildren(make("h2", "What was learnt, of the generations that are kept"), scroll, lines);
  }

  function noteReasons() {
    const found = new Set(data.runs.flatMap((one) => one.frames.reason));
    for (const reason of [...found].sort()) if (reason && !reasons.includes(reason)) reasons.push(reason);
  }

  function choose(index) {
    run = data.runs[index];
    element("run").value = index;
    element("time").max = Math.max(run.frames.t.length - 1, 0);
    drawMap(); drawCharts(); drawTable(); show(0);
  }

  // What is new in a live flight: columns have grown, or begun anew.
  function grown(follow) {
    noteReasons();
    element("time").max = Math.max(run.frames.t.length - 1, 0);
    const plots = plotsOf(run.frames);
    if (plots.length !== charts.length) drawCharts();
    else charts.forEach((chart, k) => chart.setData(valuesOf(run.frames, plots[k][1])));
    drawMap(); drawTable(); show(follow ? run.frames.t.length - 1 : current);
  }

  data.runs.forEach((one, k) => element("run").append(new Option(one.name, k)));
  element("run").parentElement.hidden = data.runs.length < 2;
  element("run").addEventListener("change", (event) => choose(Number(event.target.value)));
  element("time").addEventListener("input", (event) => show(Number(event.target.value)));
  element("back").addEventListener("click", () => show(current - 1));
  element("forth").addEventListener("click", () => show(current + 1));
  let resizing = 0;
  window.addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => { if (run) { drawCharts(); show(current); } drawComparison(); }, 150); });
  noteReasons(); drawLearning(); drawComparison();
  if (run) choose(0);
  else { for (const id of ["ground", "moment", "charts"]) element(id).hidden = true; drawTable(); }
  window.aerialVprReport = { data, show, choose, grown, parsed, get run() { return run; }, get current() { return current; }, get charts() { return charts.length; }, map };
})();
