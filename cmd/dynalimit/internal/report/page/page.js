(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const starts = data.starts, last = starts.length - 1;
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const full = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
  const drawn = new Map(); // what was drawn, by the panel's element

  const tokens = (n) => n / 1000;
  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const colourOf = (series, i) => (series.rest ? "rest" : "s" + i);

  function element(name, attributes, ...children) {
    const e = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    e.append(...children);
    return e;
  }

  // The zone, or UTC where the browser does not know it.
  const zone = (() => {
    try {
      new Intl.DateTimeFormat("en", { timeZone: data.zone });
      return data.zone;
    } catch (_) {
      return "UTC";
    }
  })();

  // The window that a time is in.
  function windowAt(time) {
    let low = 0, high = last;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle] <= time) low = middle; else high = middle - 1;
    }
    return low;
  }
  const endOf = (i) => (i < last ? starts[i + 1] : data.to);

  // Each series on top of those before it, what is below zero below it; the topmost first,
  // as those below are drawn over it.
  function stacked(series, hidden) {
    const up = new Array(starts.length).fill(0), down = new Array(starts.length).fill(0);
    const layers = series.map((s, i) => s.values.map((v, w) => {
      if (hidden.has(i)) return null;
      if (v < 0) return (down[w] += tokens(v));
      return (up[w] += tokens(v));
    }));
    return [starts, ...layers.reverse()];
  }

  const month = 28 * 86400, day = 86400, hour = 3600;
  const times = [
    [365 * day, "{YYYY}", null, null, null, null, null, null, 1],
    [month, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
    [day, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
    [hour, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
    [60, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
  ];

  // Windows that are open, below the series; gaps, above them.
  function shade(u, marks) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.fillStyle = colour("open");
    for (const m of marks) {
      if (!m.open) continue;
      const from = u.valToPos(starts[m.window], "x", true), to = u.valToPos(endOf(m.window), "x", true);
      const left = Math.max(bbox.left, from), right = Math.min(bbox.left + bbox.width, Math.max(to, from + 1));
      if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height);
    }
    ctx.restore();
  }
  function flag(u, marks) {
    const { ctx, bbox } = u, size = 5 * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = colour("gap");
    for (const m of marks) {
      if (!m.unseen) continue;
      const x = u.valToPos((starts[m.window] + endOf(m.window)) / 2, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x - size, bbox.top - size);
      ctx.lineTo(x + size, bbox.top - size);
      ctx.lineTo(x, bbox.top + size * 0.6);
      ctx.fill();
    }
    ctx.restore();
  }

  // What is to be said of a window besides its values.
  function remarks(m) {
    const said = [];
    if (!m) return said;
    if (m.open) said.push("open: more may come");
    if (m.pending) said.push(full.format(tokens(m.pending)) + " not in the stream yet");
    if (m.unseen) said.push("gap: " + full.format(m.unseen) + (m.unseen === 1 ? " counter" : " counters") + " ended unseen");
    if (m.unrecorded) said.push(full.format(tokens(m.unrecorded)) + " without records");
    return said;
  }

  const idle = "Point at the chart or tap it, or use the arrow keys, to read values. Drag to zoom, double-click to see all.";

  function Panel(panel) {
    const chart = data.charts[panel.id];
    const box = panel.querySelector(".chart"), reading = panel.querySelector(".reading"), legend = panel.querySelector(".legend");
    const marks = new Map(chart.marks.map((m) => [m.window, m]));
    const hidden = new Set();
    let at = null, plot = null;

    const values = chart.series.map((s, i) => {
      const value = element("b", {});
      const button = element("button", { type: "button", "aria-pressed": "true", class: colourOf(s, i), title: s.name },
        element("i", {}), element("bdi", {}, s.name), value);
      button.addEventListener("click", () => {
        if (hidden.delete(i)) button.setAttribute("aria-pressed", "true");
        else {
          hidden.add(i);
          button.setAttribute("aria-pressed", "false");
        }
        plot.setData(stacked(chart.series, hidden));
      });
      legend.append(element("li", {}, button));
      return value;
    });
    const sums = chart.series.map((s) => s.values.reduce((a, b) => a + b, 0));

    function read(i) {
      if (i === at && reading.textContent) return;
      at = i;
      values.forEach((value, n) => {
        value.textContent = full.format(tokens(i === null ? sums[n] : chart.series[n].values[i]));
      });
      if (i === null) {
        reading.textContent = idle;
        return;
      }
      const total = chart.series.reduce((sum, s) => sum + s.values[i], 0);
      reading.textContent = [data.labels[i], full.format(tokens(total)) + " " + chart.limit, ...remarks(marks.get(i))].join(" · ");
    }

    const size = () => ({ width: box.clientWidth, height: box.clientWidth < 500 ? 200 : 240 });

    function draw() {
      if (plot) plot.destroy();
      const n = chart.series.length, line = colour("grid"), ink = colour("soft");
      const font = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
      const axis = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
      plot = new uPlot({
        ...size(),
        padding: [14, 30, 0, 0],
        legend: { show: false },
        tzDate: (time) => uPlot.tzDate(new Date(time * 1e3), zone),
        cursor: {
          y: false, points: { show: false }, drag: { x: true, y: false },
          dataIdx: (u, series, closest, time) => windowAt(time),
        },
        scales: {
          x: { range: (u, min, max) => (min === null || (min <= starts[0] && max >= starts[last]) ? [starts[0], data.to] : [min, max]) },
          y: { range: (u, min, max) => (min === null || (min >= 0 && max <= 0) ? [0, 1] : uPlot.rangeNum(Math.min(0, min), Math.max(0, max), { min: { pad: 0.1, soft: 0, mode: 1 }, max: { pad: 0.1, soft: 0, mode: 1 } })) },
        },
        axes: [
          { ...axis, values: times, space: 60, gap: 6 },
          { ...axis, size: 54, gap: 6, values: (u, splits) => splits.map((v) => short.format(v)) },
        ],
        series: [{}].concat(chart.series.map((_, i) => {
          const s = n - 1 - i; // the topmost is drawn first
          return { label: String(s), width: 0, pxAlign: box.clientWidth < 2 * starts.length ? 0 : 1, fill: colour(colourOf(chart.series[s], s)), points: { show: false }, paths: uPlot.paths.stepped({ align: 1, extend: true }) };
        })),
        hooks: {
          drawClear: [(u) => shade(u, chart.marks)],
          draw: [(u) => flag(u, chart.marks)],
          setCursor: [(u) => read(u.cursor.left < 0 ? null : windowAt(u.posToVal(u.cursor.left, "x")))],
        },
      }, stacked(chart.series, hidden), box);
      box.plot = plot;
      read(null);
    }

    // The cursor at the middle of a window.
    function point(i) {
      const { min, max } = plot.scales.x;
      if (starts[i] < min || endOf(i) > max) plot.setScale("x", { min: starts[0], max: data.to });
      plot.setCursor({ left: plot.valToPos((starts[i] + endOf(i)) / 2, "x"), top: 0 });
    }
    box.addEventListener("keydown", (event) => {
      const to = {
        ArrowLeft: at === null ? last : Math.max(0, at - 1), ArrowRight: at === null ? 0 : Math.min(last, at + 1),
        PageUp: Math.max(0, (at === null ? last : at) - 24), PageDown: Math.min(last, (at === null ? 0 : at) + 24), Home: 0, End: last,
      }[event.key];
      if (event.key === "Escape") plot.setCursor({ left: -10, top: -10 });
      else if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      else point(to);
      event.preventDefault();
    });

    const details = panel.querySelector("details");
    details.hidden = false;
    details.addEventListener("toggle", () => {
      const place = details.querySelector("div");
      if (details.open && !place.firstChild) place.append(table(chart, marks));
    });
    new ResizeObserver(() => requestAnimationFrame(() => {
      if (box.clientWidth > 0 && box.clientWidth !== plot.width) plot.setSize(size());
    })).observe(box);
    draw();
    return { draw, resize: (width) => plot.setSize({ ...size(), width: Math.min(width, box.clientWidth || width) }) };
  }

  function table(chart, marks) {
    const head = element("tr", {}, element("th", { scope: "col" }, "Begins, " + data.zone));
    for (const s of chart.series) head.append(element("th", { scope: "col", class: "n", title: s.name }, element("bdi", {}, s.name)));
    head.append(element("th", { scope: "col", class: "n" }, "Total"), element("th", { scope: "col" }, "Remarks"));
    const body = element("tbody", {});
    data.labels.forEach((label, i) => {
      const cells = chart.series.map((s) => s.values[i]);
      body.append(element("tr", {}, element("th", { scope: "row" }, label),
        ...[...cells, cells.reduce((a, b) => a + b, 0)].map((v) => element("td", { class: "n" }, full.format(tokens(v)))),
        element("td", {}, remarks(marks.get(i)).join(", "))));
    });
    return element("table", {}, element("caption", {}, chart.limit + " consumed"), element("thead", {}, head), body);
  }

  function show(panel) {
    panel.hidden = false;
    if (!drawn.has(panel)) drawn.set(panel, Panel(panel));
  }
  for (const section of document.querySelectorAll("section")) {
    const panels = [...section.querySelectorAll(".panel")], choice = section.querySelector("fieldset");
    if (choice) {
      choice.hidden = false;
      choice.addEventListener("change", (event) => {
        for (const p of panels) p.hidden = true;
        show(document.getElementById(event.target.value));
      });
    }
    const chosen = choice ? choice.querySelector("input:checked").value : panels.length && panels[0].id;
    for (const p of panels) {
      if (p.id === chosen) show(p); else p.hidden = true;
    }
  }

  const again = () => { for (const p of drawn.values()) p.draw(); };
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  function name() {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", "Switch to " + (isDark() ? "light" : "dark") + " colours");
  }
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
    again();
  });
  dark.addEventListener("change", () => { name(); again(); });
  name();

  // Paper is light, and narrower.
  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    again();
    for (const p of drawn.values()) p.resize(680);
  });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before; else delete root.dataset.theme;
    again();
  });
})();
