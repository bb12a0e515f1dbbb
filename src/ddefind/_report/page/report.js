"use strict";
// Draws each chart again so that it can be zoomed and read off, and lets the reader
// choose among quantities, experiments, light and dark.
(() => {
  const root = document.documentElement;
  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const charts = new Map();

  const number = (value) => {
    if (value == null) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(3);
    return String(+value.toPrecision(5));
  };
  const date = (seconds) => {
    if (seconds == null) return "–";
    const text = new Date(seconds * 1000).toISOString();
    return text.endsWith("T00:00:00.000Z") ? text.slice(0, 10) : text.slice(0, 16).replace("T", " ");
  };

  // One column of times for all series, as the library wants it.
  const joined = (series) => {
    const tables = [];
    for (const each of series) {
      tables.push([each.x, each.y]);
      if (each.high) tables.push([each.x, each.high]);
    }
    // A gap of a series stays one where only other series have values (2: expand).
    return uPlot.join(tables, tables.map(() => [0, 2]));
  };

  // A measured value with its own time, which may be another one than that of the cursor.
  const measured = (plot, value, series) => {
    const row = plot.cursor.idxs && plot.cursor.idxs[series];
    if (value == null || row == null) return "–";
    const time = plot.data[0][row];
    return number(value) + (row === plot.cursor.idx ? "" : " at " + (plot.axes[0].isDate ? date(time) : number(time)));
  };

  const style = (each) => {
    const isDots = each.kind === "dots" || each.kind === "limits";
    const drawn = {
      label: each.label,
      stroke: () => colour(each.role),
      width: each.high ? 0 : isDots ? 0 : 1.7,
      spanGaps: false,
      value: isDots ? measured : (_, value) => number(value),
      pxAlign: 0,
      points: { show: isDots, size: 5, width: 0, fill: () => colour(each.role) },
    };
    if (isDots) drawn.paths = () => null;
    if (each.kind === "dashed") drawn.dash = [6, 4];
    if (each.kind === "dotted") drawn.dash = [2, 4];
    if (!each.high) return [drawn];
    // A band is a lower and an upper edge with a colour between them, and one entry of
    // the legend for both.
    const edge = { ...drawn, points: { show: false } };
    const both = (plot, low, index) => {
      const row = plot.cursor.idxs && plot.cursor.idxs[index];
      return row == null ? "–" : number(low) + " to " + number(plot.data[index + 1][row]);
    };
    return [{ ...edge, value: both }, { ...edge, class: "edge" }];
  };

  const bands = (series) => {
    const found = [];
    let index = 1;
    for (const each of series) {
      if (each.high) found.push({ series: [index + 1, index], fill: () => colour(each.role) });
      index += each.high ? 2 : 1;
    }
    return found;
  };

  // Straight lines across a chart.
  const drawMarks = (marks) => (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const mark of marks) {
      const at = plot.valToPos(mark.value, mark.along, true);
      ctx.strokeStyle = colour(mark.role);
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.beginPath();
      if (mark.along === "x") { ctx.moveTo(at, bbox.top); ctx.lineTo(at, bbox.top + bbox.height); }
      else { ctx.moveTo(bbox.left, at); ctx.lineTo(bbox.left + bbox.width, at); }
      ctx.stroke();
      ctx.textAlign = "left";
      ctx.font = 12 * devicePixelRatio + "px system-ui, sans-serif";
      ctx.fillStyle = colour("quiet");
      if (mark.along === "x") {
        const away = 4 * devicePixelRatio;
        const fits = at + away + ctx.measureText(mark.label).width < bbox.left + bbox.width;
        ctx.textAlign = fits ? "left" : "right";
        ctx.fillText(mark.label, at + (fits ? away : -away), bbox.top + 13 * devicePixelRatio);
      }
      else { ctx.textAlign = "right"; ctx.fillText(mark.label, bbox.left + bbox.width - 4, at - 4 * devicePixelRatio); }
    }
    ctx.restore();
  };

  const axis = (label, isDate) => ({
    label,
    isDate,
    stroke: () => colour("text"),
    grid: { stroke: () => colour("rule"), width: 0.7 },
    ticks: { stroke: () => colour("limit"), width: 1 },
    labelSize: 18,
    labelGap: 0,
    labelFont: "12px system-ui, sans-serif",
    size: 32,
    ...(isDate ? {} : { values: (_, splits) => splits.map((value) => (value == null ? "" : number(value))) }),
  });

  // The row nearest to the cursor in which a series has a value: the curve and the data
  // have times of their own.
  const nearest = (plot, series, row) => {
    const values = plot.data[series];
    for (let away = 0; away < 200; away++) {
      if (values[row - away] != null) return row - away;
      if (values[row + away] != null) return row + away;
    }
    return row;
  };

  const options = (content, width, isSmall) => {
    const roles = ["ground", ...content.series.flatMap((each) => (each.high ? [each.role, each.role] : [each.role]))];
    const wide = content.isWide ? { distr: 4, asinh: 1 } : {};
    const y = axis(content.y, false);
    y.size = 62;
    if (content.isWide) {
      y.splits = (_, __, low, high) => {
        const found = [0];
        for (let power = 1; power <= high; power *= 10) found.push(power);
        return found;
      };
    }
    return {
      width,
      height: isSmall ? 210 : 290,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: {
        x: { time: content.isDate, range: (_, low, high) => (low === content.first && high === content.last ? content.xRange : [low, high]) },
        y: { range: content.yRange, ...wide },
      },
      axes: [{ ...axis(content.x, content.isDate), ...(content.isWhole ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] } : {}) }, y],
      series: [
        { label: content.x, value: (_, value) => (content.isDate ? date(value) : number(value)) },
        ...content.series.flatMap(style),
      ],
      bands: bands(content.series),
      legend: {
        show: !isSmall,
        markers: { width: 0, fill: (_, index) => colour(roles[index]) },
      },
      cursor: { points: { size: 7 }, dataIdx: nearest },
      hooks: { draw: [drawMarks(content.marks)] },
    };
  };

  const draw = (figure) => {
    if (charts.has(figure)) return;
    const content = JSON.parse(figure.querySelector("script").textContent);
    const place = document.createElement("div");
    place.className = "chart";
    figure.insertBefore(place, figure.querySelector("script"));
    figure.classList.add("ready");
    const hint = document.createElement("p");
    hint.className = "hint";
    hint.textContent = "Drag across the chart to zoom, and click twice to see all of it again.";
    place.after(hint);
    const data = joined(content.series);
    content.first = data[0][0];
    content.last = data[0][data[0].length - 1];
    const isSmall = figure.classList.contains("small");
    const plot = new uPlot(options(content, Math.max(figure.clientWidth, 200), isSmall), data, place);
    charts.set(figure, plot);
  };

  const resize = () => {
    for (const [figure, plot] of charts) {
      const width = figure.clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: plot.height });
    }
  };

  // Charts are drawn when they come into sight.
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
  }, { rootMargin: "600px" });
  document.querySelectorAll("figure.drawn").forEach((figure) => seen.observe(figure));
  addEventListener("resize", resize);

  // A choice of quantity and experiment, where there are several.
  const values = (figures, key) => [...new Set(figures.map((figure) => figure.dataset[key]).filter(Boolean))];
  for (const group of document.querySelectorAll(".charts")) {
    const figures = [...group.querySelectorAll("figure")];
    const chosen = {};
    const apply = () => {
      for (const figure of figures) {
        const isShown = Object.entries(chosen).every(([key, value]) => !value || figure.dataset[key] === value);
        figure.classList.toggle("left-out", !isShown);
      }
      resize();
    };
    const choice = document.createElement("div");
    choice.className = "choice";
    for (const key of ["experiment", "quantity"]) {
      const found = values(figures, key);
      if (found.length < 2) continue;
      const label = document.createElement("label");
      label.append(key[0].toUpperCase() + key.slice(1) + ": ");
      const select = document.createElement("select");
      for (const value of ["", ...found]) select.append(new Option(value || "all", value));
      if (key === "experiment" && figures.length > 12) select.value = found[0];
      chosen[key] = select.value;
      select.addEventListener("change", () => { chosen[key] = select.value; apply(); });
      label.append(select);
      choice.append(label);
    }
    if (choice.children.length) { group.prepend(choice); apply(); }
  }

  // Light and dark.
  const button = document.getElementById("theme");
  const isDark = () => getComputedStyle(root).colorScheme.includes("dark");
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  const redraw = () => { name(); for (const plot of charts.values()) plot.redraw(false); };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; redraw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  name();
})();
