"use strict";
// The report of one or several flights. Everything is in the page; positions are metres from the map's south-west corner.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const images = JSON.parse(document.getElementById("images").textContent);
  const element = (id) => document.getElementById(id);
  const COLOURS = ["#c2255c", "#e8590c", "#f2b705", "#7048e8", "#0b7285", "#5c940d", "#868e96", "#a61e4d"];
  const MOST_ELLIPSES = 400;
  const KEYS = [
    ["error_m", "error", "m"], ["sigma_m", "sigma", "m"], ["z", "peak z", ""], ["confidence", "confidence", ""],
    ["latency_ms", "latency", "ms"],
  ];
  let run = data.runs[0];
  let current = 0;

  const at = (x, y) => L.latLng(y, x);
  const known = (value) => value !== null && value !== undefined;
  const text = (value, digits, unit) => (known(value) ? `${value.toFixed(digits)}${unit ? ` ${unit}` : ""}` : "–");
  const reasons = [...new Set(data.runs.flatMap((one) => one.frames.reason.filter((reason) => reason)))].sort();
  const colourOf = (reason) => COLOURS[reasons.indexOf(reason) % COLOURS.length];

  // Map

  const map = L.map("map", { crs: L.CRS.Simple, minZoom: -6, maxZoom: 4, zoomSnap: 0.25, preferCanvas: true, attributionControl: false });
  const ground = L.latLngBounds(at(0, 0), at(data.map.width_m, data.map.height_m));
  if (data.map.image) L.imageOverlay(data.map.image, ground, { alt: "satellite map" }).addTo(map);
  L.control.scale({ imperial: false }).addTo(map);
  map.fitBounds(ground);
  const control = L.control.layers(null, null, { collapsed: false }).addTo(map);
  let layers = [];
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

  function layer(name, members, shown = true) {
    const group = L.layerGroup(members);
    if (shown) group.addTo(map);
    control.addOverlay(group, name);
    layers.push(group);
  }

  function drawMap() {
    for (const old of layers) { control.removeLayer(old); old.remove(); }
    layers = [];
    const frames = run.frames;
    const step = Math.max(1, Math.ceil(frames.x.length / MOST_ELLIPSES));
    const ellipses = [];
    frames.x.forEach((x, k) => {
      if (known(x) && k % step === 0) ellipses.push(L.polygon(ellipse(frames, k), { color: "#0a7cff", weight: 1, fillOpacity: 0.08, interactive: false }));
    });
    const others = data.runs.filter((one) => one !== run).flatMap((one) => pieces(one.frames.x, one.frames.y).map((part) => L.polyline(part, { color: "#868e96", weight: 2 })));
    if (others.length) layer("other flights", others, false);
    layer("95 % regions", ellipses);
    layer("GNSS", pieces(frames.gnss_x, frames.gnss_y).map((part) => L.polyline(part, { color: "#d9480f", weight: 2, dashArray: "4 5" })));
    layer("truth", pieces(frames.truth_x, frames.truth_y).map((part) => L.polyline(part, { color: "#111", weight: 3 })));
    layer("answers", pieces(frames.x, frames.y).map((part) => L.polyline(part, { color: "#0a7cff", weight: 3 })));
    const silent = [];
    frames.reason.forEach((reason, k) => {
      if (!reason) return;
      const x = known(frames.truth_x[k]) ? frames.truth_x[k] : frames.gnss_x[k];
      const y = known(frames.truth_y[k]) ? frames.truth_y[k] : frames.gnss_y[k];
      if (known(x)) silent.push(L.circleMarker(at(x, y), { radius: 4, weight: 1, color: "#fff", fillColor: colourOf(reason), fillOpacity: 1 }).bindTooltip(reason).on("click", () => show(k)));
    });
    layer("silences", silent);
    marker.addTo(map);
  }

  map.on("click", (event) => {
    const { lng: x, lat: y } = event.latlng;
    const distances = run.frames.x.map((own, k) => {
      const [px, py] = known(own) ? [own, run.frames.y[k]] : [run.frames.truth_x[k], run.frames.truth_y[k]];
      return known(px) ? Math.hypot(px - x, py - y) : Infinity;
    });
    show(distances.indexOf(Math.min(...distances)));
  });

  function drawLegend() {
    const entries = [["#0a7cff", "answer"], ["#111", "truth"], ["#d9480f", "GNSS"], ...reasons.map((reason) => [colourOf(reason), `silent: ${reason}`])];
    element("legend").replaceChildren(...entries.map(([colour, name]) => {
      const item = document.createElement("li"), dot = document.createElement("i");
      dot.style.background = colour;
      item.append(dot, name);
      return item;
    }));
  }

  // One moment

  function show(index) {
    const frames = run.frames;
    current = Math.min(Math.max(index, 0), frames.t.length - 1);
    element("time").value = current;
    element("when").textContent = `${frames.t[current].toFixed(1)} s`;
    const answered = known(frames.x[current]);
    const facts = [
      ["frame", `${current + 1} of ${frames.t.length}`], ["state", frames.state[current] || "–"],
      ["answer", answered ? "position" : `silent: ${frames.reason[current] || "no reason noted"}`],
      ...KEYS.map(([key, name, unit]) => [name, text(frames[key][current], key === "confidence" ? 3 : 1, unit)]),
    ];
    element("facts").replaceChildren(...facts.map(([name, value]) => {
      const box = document.createElement("div"), term = document.createElement("dt"), detail = document.createElement("dd");
      term.textContent = name;
      detail.textContent = value;
      box.append(term, detail);
      return box;
    }));
    const [x, y] = answered ? [frames.x[current], frames.y[current]] : [frames.truth_x[current], frames.truth_y[current]];
    if (known(x)) marker.setLatLng(at(x, y));
    marker.setStyle({ fillColor: answered ? "#0a7cff" : colourOf(frames.reason[current]) || "#fff", opacity: known(x) ? 1 : 0, fillOpacity: known(x) ? 0.9 : 0 });
    showPictures();
    for (const chart of charts) {
      const left = chart.valToPos(frames.t[current], "x");
      chart.setCursor({ left, top: 10 }, false);
    }
  }

  function showPictures() {
    // Pictures are thinned: the nearest one is shown.
    const pictures = images[data.runs.indexOf(run)] || [];
    let best = null;
    for (const picture of pictures) if (!best || Math.abs(picture.frame - current) < Math.abs(best.frame - current)) best = picture;
    element("pictures").hidden = !best;
    for (const kind of ["frame", "view", "map"]) {
      const source = best && best[`${kind}_jpeg`];
      const image = element(`picture-${kind}`);
      if (source) image.src = `data:image/jpeg;base64,${source}`;
      else image.removeAttribute("src");
      image.style.visibility = source ? "visible" : "hidden";
    }
  }

  // Figures over time

  let charts = [];

  function drawCharts() {
    for (const chart of charts) chart.destroy();
    charts = [];
    const frames = run.frames, sync = uPlot.sync("flight");
    const plots = [
      ["error and sigma, m", [["error", frames.error_m, "#111"], ["sigma", frames.sigma_m, "#0a7cff"]]],
      ["peak z", [["z", frames.z, "#7048e8"]]],
      ["confidence", [["confidence", frames.confidence, "#0b7285"]]],
      ["latency, ms", [["latency", frames.latency_ms, "#e8590c"]]],
    ].filter(([, series]) => series.some(([, values]) => values.some(known)));
    const width = Math.max(element("charts").clientWidth - 26, 260);
    element("charts").replaceChildren();
    for (const [title, series] of plots) {
      const place = document.createElement("div");
      place.className = "chart";
      element("charts").append(place);
      const options = {
        title, width, height: 170, cursor: { sync: { key: sync.key }, drag: { x: true, y: false } }, scales: { x: { time: false } },
        series: [{ label: "seconds" }, ...series.map(([label, , stroke]) => ({ label, stroke, width: 1.5, spanGaps: false, points: { show: frames.t.length < 400, size: 4 } }))],
        axes: [{}, { size: 60 }],
      };
      const chart = new uPlot(options, [frames.t, ...series.map(([, values]) => values)], place);
      chart.over.addEventListener("click", () => { if (known(chart.cursor.idx)) show(chart.cursor.idx); });
      charts.push(chart);
    }
  }

  // All flights

  function drawTable() {
    const columns = [...new Set(data.runs.flatMap((one) => Object.keys(one.figures)))];
    const row = (cells, kind) => {
      const line = document.createElement("tr");
      for (const cell of cells) { const box = document.createElement(kind); box.textContent = cell; line.append(box); }
      return line;
    };
    element("table").replaceChildren(row(["flight", ...columns], "th"), ...data.runs.map((one) => row([one.name, ...columns.map((key) => one.figures[key] ?? "–")], "td")));
    element("summary").textContent = run.summary || "";
    const coverage = run.coverage || {};
    const stated = Object.keys(coverage).map(Number).sort((a, b) => a - b).filter((share) => known(coverage[share]));
    element("reliability").replaceChildren();
    if (stated.length) {
      const options = {
        title: "regions: stated and held, %", width: Math.min(420, Math.max(element("figures").clientWidth - 26, 240)), height: 240, scales: { x: { time: false, range: [0, 100] }, y: { range: [0, 100] } },
        series: [{ label: "stated" }, { label: "held", stroke: "#0a7cff", width: 2, points: { show: true, size: 8 } }, { label: "honest", stroke: "#868e96", dash: [4, 4] }],
      };
      const xs = [0, ...stated, 100];
      new uPlot(options, [xs, xs.map((share) => (share === 0 ? 0 : share === 100 ? 100 : 100 * coverage[share])), xs], element("reliability"));
    }
    const silences = Object.entries(run.silences || {});
    element("silences").textContent = silences.length ? `silent: ${silences.map(([reason, count]) => `${reason} ${count}`).join(", ")}` : "never silent";
  }

  function drawLearning() {
    element("learning").hidden = !(data.learning && data.learning.length);
    if (element("learning").hidden) return;
    const title = document.createElement("h2"), list = document.createElement("ul");
    title.textContent = "What was learnt";
    for (const line of data.learning) { const item = document.createElement("li"); item.textContent = line; list.append(item); }
    element("learning").replaceChildren(title, list);
  }

  function choose(index) {
    run = data.runs[index];
    element("time").max = run.frames.t.length - 1;
    drawMap(); drawCharts(); drawTable(); show(0);
  }

  data.runs.forEach((one, k) => element("run").append(new Option(one.name, k)));
  element("run").addEventListener("change", (event) => choose(Number(event.target.value)));
  element("time").addEventListener("input", (event) => show(Number(event.target.value)));
  element("back").addEventListener("click", () => show(current - 1));
  element("forth").addEventListener("click", () => show(current + 1));
  let resizing = 0;
  window.addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => { drawCharts(); drawTable(); show(current); }, 150); });
  drawLegend(); drawLearning(); choose(0);
  window.aerialVprReport = { show, choose, get current() { return current; }, get charts() { return charts.length; }, map };
})();
