// The analysts' saved questions: SQL, chart, table, downloads.
import { send } from "./api.js";
import { command, errorPanel } from "./call.js";
import { bars, colors, columns, lines } from "./charts.js";
import { h, list, say, table } from "./dom.js";

const maxShown = 200;

export function questionsView(params, signal) {
  const out = h(
    "div",
    {},
    h("h1", {}, "Questions"),
    h(
      "p",
      { class: "soft" },
      "Saved questions to all data, answered with SQL under the limits of analysts. They need a key with the scope ",
      h("code", {}, "analyze"),
      " and cost no credits. ",
      h("a", { href: "/docs/analysts" }, "SQL access"),
    ),
  );
  const place = h("div", { class: "columns" }, h("p", {}, "Loading…"));
  out.append(place);
  send({ method: "GET", path: "/explore/questions" }, signal)
    .then(({ answer }) => {
      const chosen = list(answer.questions).find((q) => String(q.number) === params.get("n"));
      const menu = h(
        "nav",
        { "aria-label": "Questions" },
        h(
          "ol",
          { class: "menu" },
          list(answer.questions).map((q) =>
            h(
              "li",
              {},
              h("a", { href: "#questions?n=" + q.number, "aria-current": q === chosen ? "page" : null }, q.title),
            ),
          ),
        ),
      );
      place.replaceChildren(menu, chosen ? question(chosen, signal) : h("p", { class: "soft" }, "Choose a question."));
    })
    .catch((e) => {
      if (e.name !== "AbortError") place.replaceChildren(errorPanel(e));
    });
  return out;
}

function question(q, signal) {
  const path = (format) => `/explore/questions/${q.number}.${format}`;
  const result = h("div", {}, h("p", {}, "Running the query…"));
  send({ method: "GET", path: path("json") }, signal)
    .then(({ answer }) => {
      const names = list(answer.meta).map((m) => m.name);
      const rows = list(answer.data).map((row) => row.map((v, i) => value(v, answer.meta[i].type)));
      const shown = rows.slice(0, maxShown).map((row) => row.map((v, i) => (names[i] === "year" ? String(v) : v)));
      result.replaceChildren(
        ...[
          chart(q, names, rows),
          table(q.title, names, shown),
          rows.length > maxShown
            ? h("p", { class: "soft" }, `The first ${maxShown} rows; a download has all.`)
            : null,
        ].filter(Boolean),
      );
      say(`${rows.length} rows`);
    })
    .catch((e) => {
      if (e.name !== "AbortError") result.replaceChildren(errorPanel(e));
    });
  const download = (format) =>
    h(
      "button",
      { type: "button", onclick: (e) => save(e.target, path(format), `question-${q.number}.${format}`, signal) },
      `Download ${format === "csv" ? "CSV" : "Parquet"}`,
    );
  return h(
    "article",
    {},
    h("h2", { class: "subject" }, q.title),
    q.note ? h("p", {}, q.note) : null,
    result,
    h("p", { class: "row" }, download("csv"), download("parquet")),
    h(
      "details",
      {},
      h("summary", {}, "SQL"),
      h("pre", { tabindex: "0", role: "region", "aria-label": "SQL" }, h("code", {}, q.statement)),
    ),
    command({ method: "GET", path: path("csv"), output: `question-${q.number}.csv` }),
  );
}

// value returns a value of a column of a type for display. 64-bit integers are strings in the response.
function value(v, type) {
  if (v === null || v === undefined) return "";
  return /Int|Float|Decimal/.test(type) && !/Array|Map|Tuple/.test(type) && v !== "" && Number.isFinite(Number(v))
    ? Number(v)
    : String(v);
}

async function save(button, path, name, signal) {
  button.disabled = true;
  try {
    const { answer } = await send({ method: "GET", path }, signal, (response) => response.blob());
    const url = URL.createObjectURL(answer);
    h("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    say(`${name} is downloaded.`);
  } catch (e) {
    if (e.name !== "AbortError") button.after(errorPanel(e));
  } finally {
    button.disabled = false;
  }
}

// largest returns at most `colors` series, the largest first. For stacked columns, the last one sums up the others.
function largest(series, kind) {
  const sum = (s) => s.values.reduce((a, v) => a + (v ?? 0), 0);
  const sorted = series.toSorted((a, b) => sum(b) - sum(a));
  if (sorted.length <= colors) return sorted;
  if (kind === "line") return sorted.slice(0, colors);
  const rest = sorted.slice(colors - 1);
  const other = rest[0].values.map((_, i) => rest.reduce((a, s) => a + (s.values[i] ?? 0), 0));
  return [...sorted.slice(0, colors - 1), { name: `${rest.length} others`, values: other }];
}

// chart returns the question's chart of the rows, or null if it has none.
function chart(q, names, rows) {
  const c = q.chart;
  if (!c || !rows.length) return null;
  const at = (name) => names.indexOf(name);
  const xOf = (row) => c.x.map((name) => String(row[at(name)])).join(" → ");
  if (c.kind === "bar")
    return bars(
      q.title,
      c.y[0],
      rows.map((row) => [xOf(row), row[at(c.y[0])]]),
    );
  const sorted = [...new Set(rows.map(xOf))].sort((a, b) => Number(a) - Number(b) || (a < b ? -1 : a > b ? 1 : 0));
  const xs = c.kind === "line" || c.series ? sorted : [...new Set(rows.map(xOf))];
  const series = new Map();
  for (const row of rows) {
    for (const y of c.y) {
      const name = c.series ? String(row[at(c.series)]) : y;
      if (!series.has(name)) series.set(name, new Array(xs.length).fill(undefined));
      series.get(name)[xs.indexOf(xOf(row))] = (series.get(name)[xs.indexOf(xOf(row))] ?? 0) + row[at(y)];
    }
  }
  const all = largest(
    [...series].map(([name, values]) => ({ name, values })),
    c.kind,
  );
  return c.kind === "line" ? lines(q.title, xs, all) : columns(q.title, xs, all);
}
