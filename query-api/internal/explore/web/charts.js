// Charts as SVG. They are hidden from screen readers; each has a table of its values.
import { h, number, table } from "./dom.js";

const maxBars = 30;
export const colors = 6; // classes s0 to s5 of the style sheet

// figure returns a chart with its legend and a table of its values.
function figure(title, svg, legend, head, rows) {
  return h(
    "figure",
    {},
    h("figcaption", {}, title),
    legend,
    h("div", { class: "plot" }, svg),
    h("details", {}, h("summary", {}, "Values"), table(title, head, rows)),
  );
}

function svg(width, height, ...children) {
  return h(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      "aria-hidden": "true",
      focusable: "false",
      class: height > width ? "tall" : null,
    },
    children,
  );
}

function short(value, max = 34) {
  const all = [...String(value)];
  return all.length > max ? all.slice(0, max - 1).join("") + "…" : all.join("");
}

// label returns SVG text, isolated so that its direction does not affect the text around it.
function label(attributes, value) {
  return h("text", { direction: "ltr", ...attributes }, "\u2068" + value + "\u2069");
}

// round returns the smallest 1, 2, 2.5 or 5 times a power of ten that is at least max.
function round(max) {
  if (!(max > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(max));
  return [1, 2, 2.5, 5, 10].find((n) => n * power >= max) * power;
}

// bars returns a horizontal bar chart. rows are pairs [label, value].
export function bars(title, unit, rows) {
  const shown = rows.filter(([, v]) => Number.isFinite(v)).slice(0, maxBars);
  const most = Math.max(0, ...shown.map(([, v]) => v));
  const least = Math.min(0, ...shown.map(([, v]) => v));
  const range = most - least || 1;
  const left = 230,
    width = 640,
    line = 22,
    plot = width - left - 60;
  const x = (v) => left + ((v - least) / range) * plot;
  const drawn = shown.map(([name, v], i) => {
    const from = Math.min(x(0), x(v)),
      wide = Math.max(1, Math.abs(x(v) - x(0)));
    return h(
      "g",
      {},
      label({ x: left - 8, y: i * line + 15, "text-anchor": "end", class: "name" }, short(name)),
      h("rect", { x: from, y: i * line + 4, width: wide, height: line - 8, class: "s0", rx: 2 }),
      h("text", { x: from + wide + 6, y: i * line + 15 }, number(v)),
    );
  });
  return figure(
    title,
    svg(width, Math.max(1, shown.length) * line, drawn),
    null,
    ["", unit],
    rows.map(([n, v]) => [String(n), v]),
  );
}

function axis(x0, y0, width, height, most) {
  return [0, 0.5, 1].map((part) => {
    const y = y0 + height - part * height;
    return h(
      "g",
      {},
      h("line", { x1: x0, x2: x0 + width, y1: y, y2: y, class: "grid" }),
      h("text", { x: x0 - 6, y: y + 4, "text-anchor": "end" }, number(most * part)),
    );
  });
}

function legendOf(names) {
  if (names.length < 2) return null;
  return h(
    "ul",
    { class: "legend" },
    names.map((name, i) => h("li", {}, h("span", { class: `key s${i % colors}` }), h("bdi", {}, name))),
  );
}

// labels returns labels of the x axis, at most about 10.
function labels(values, x, y, size) {
  const step = Math.max(1, Math.ceil(values.length / 10));
  return values
    .map((v, i) => (i % step ? null : label({ x: x(i) + size / 2, y, "text-anchor": "middle" }, short(v, 10))))
    .filter(Boolean);
}

// columns returns a stacked column chart. xs are the labels of the columns, series are {name, values}.
export function columns(title, xs, series) {
  const totals = xs.map((_, i) => series.reduce((sum, s) => sum + (s.values[i] ?? 0), 0));
  const most = round(Math.max(0, ...totals));
  const width = 640,
    height = 240,
    left = 60,
    top = 10,
    plot = 190,
    wide = (width - left - 10) / Math.max(1, xs.length);
  const x = (i) => left + i * wide;
  const drawn = xs.map((_, i) => {
    let y = top + plot;
    return series.map((s, k) => {
      const tall = ((s.values[i] ?? 0) / most) * plot;
      y -= tall;
      return tall > 0
        ? h("rect", { x: x(i) + 1, y, width: Math.max(1, wide - 2), height: tall, class: `s${k % colors}` })
        : null;
    });
  });
  return figure(
    title,
    svg(width, height, axis(left, top, width - left - 10, plot, most), drawn, labels(xs, x, top + plot + 18, wide)),
    legendOf(series.map((s) => s.name)),
    ["", ...series.map((s) => s.name)],
    xs.map((value, i) => [String(value), ...series.map((s) => s.values[i] ?? 0)]),
  );
}

// lines returns a line chart with a line for each series.
export function lines(title, xs, series) {
  const most = round(Math.max(0, ...series.flatMap((s) => s.values.filter((v) => Number.isFinite(v)))));
  const width = 640,
    height = 240,
    left = 60,
    top = 10,
    plot = 190,
    span = width - left - 20;
  const x = (i) => left + (xs.length > 1 ? (i / (xs.length - 1)) * span : span / 2);
  const y = (v) => top + plot - (v / most) * plot;
  const drawn = series.map((s, k) => {
    const points = s.values.map((v, i) => (Number.isFinite(v) ? [x(i), y(v)] : null)).filter(Boolean);
    return h(
      "g",
      { class: `line s${k % colors}` },
      h("path", { d: points.map(([a, b], i) => `${i ? "L" : "M"}${a} ${b}`).join("") }),
      points.length < 40 ? points.map(([a, b]) => h("circle", { cx: a, cy: b, r: 2.5 })) : null,
    );
  });
  return figure(
    title,
    svg(width, height, axis(left, top, span, plot, most), drawn, labels(xs, x, top + plot + 18, 0)),
    legendOf(series.map((s) => s.name)),
    ["", ...series.map((s) => s.name)],
    xs.map((value, i) => [String(value), ...series.map((s) => s.values[i] ?? "")]),
  );
}

// year returns a date as a fractional year, or null if it has none.
function year(date) {
  const m = /^(\d{4})(?:-(\d{2}))?/.exec(date ?? "");
  return m ? Number(m[1]) + (m[2] ? (Number(m[2]) - 1) / 12 : 0) : null;
}

// timeline returns a chart of periods. entries are {label, start, end, className}; an end of null means ongoing. It
// returns null if no entry has a start.
export function timeline(title, entries, now = new Date()) {
  const today = now.getFullYear() + now.getMonth() / 12;
  const all = entries
    .map((e) => ({ ...e, from: year(e.start), to: e.end === null ? today : (year(e.end) ?? year(e.start)) }))
    .filter((e) => e.from !== null && e.to !== null && e.from <= today + 1);
  if (!all.length) return null;
  const shown = all.slice(0, maxBars);
  const first = Math.max(1950, Math.floor(Math.min(...shown.map((e) => e.from))));
  const last = Math.max(first + 1, Math.ceil(Math.max(...shown.map((e) => Math.min(e.to, today + 1)))));
  const width = 640,
    line = 24,
    left = 230,
    plot = width - left - 20,
    height = shown.length * line + 24;
  const x = (v) => left + ((Math.min(Math.max(v, first), last) - first) / (last - first)) * plot;
  const step = Math.max(1, Math.ceil((last - first) / 8));
  const marks = [];
  for (let v = first; v <= last; v += step) {
    marks.push(
      h(
        "g",
        {},
        h("line", { x1: x(v), x2: x(v), y1: 0, y2: height - 20, class: "grid" }),
        h("text", { x: x(v), y: height - 5, "text-anchor": "middle" }, String(v)),
      ),
    );
  }
  const drawn = shown.map((e, i) =>
    h(
      "g",
      {},
      label({ x: left - 8, y: i * line + 16, "text-anchor": "end", class: "name" }, short(e.label)),
      h("rect", {
        x: x(e.from),
        y: i * line + 5,
        width: Math.max(3, x(e.to) - x(e.from)),
        height: line - 10,
        rx: 3,
        class: e.className ?? (e.end === null ? "s0" : "s1"),
      }),
    ),
  );
  return figure(
    title,
    svg(width, height, marks, drawn),
    null,
    ["", "from", "to"],
    all.map((e) => [e.label, e.start ?? "", e.end ?? "now"]),
  );
}
