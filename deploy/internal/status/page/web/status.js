// Reads the status every two seconds and the history every 15 while the page is visible, and draws them.
// Everything is set as text: nothing that comes from a record is ever markup.
"use strict";

(() => {
  const every = 2000;
  let before = null;
  let historyDue = 0;

  const number = (n) => Number(n).toLocaleString("en");
  const bytes = (n) => {
    let unit = 0;
    for (; n >= 1000 && unit < 4; unit++) n /= 1000;
    return `${n.toFixed(unit && n < 100 ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB"][unit]}`;
  };
  const age = (iso, now) => {
    const s = Math.max(0, (new Date(now) - new Date(iso)) / 1000);
    if (s < 120) return `${Math.round(s)} s`;
    if (s < 7200) return `${Math.round(s / 60)} min`;
    if (s < 172800) return `${Math.round(s / 3600)} h`;
    return `${Math.round(s / 86400)} days`;
  };
  const cell = (text, cls = "") => ({ text: String(text ?? ""), cls });
  const count = (n, cls = "") => cell(number(n), `n ${cls}`);

  // table draws rows under headings; a heading that ends with # is of numbers.
  function table(id, headings, rows, none) {
    const t = document.getElementById(id);
    const body = document.createElement("tbody");
    for (const row of rows) {
      const tr = body.insertRow();
      for (const c of row) {
        const td = tr.insertCell();
        td.className = c.cls;
        if (c.progress !== undefined) {
          const bar = document.createElement("progress");
          bar.max = 100;
          bar.value = c.progress;
          bar.setAttribute("aria-label", c.text);
          td.append(bar, " ");
        }
        td.append(c.text);
      }
    }
    if (rows.length === 0) {
      const td = body.insertRow().insertCell();
      td.colSpan = headings.length;
      td.className = "none";
      td.textContent = none;
    }
    const head = document.createElement("thead");
    const tr = head.insertRow();
    for (const h of headings) {
      const th = document.createElement("th");
      th.scope = "col";
      th.textContent = h.replace("#", "");
      if (h.endsWith("#")) th.className = "n";
      tr.append(th);
    }
    t.replaceChildren(head, body);
  }

  function rates(d) {
    const seconds = before ? (Date.parse(d.at) - Date.parse(before.at)) / 1000 : 0;
    const rate = (name) => {
      if (seconds <= 0 || before.began !== d.began) return cell("", "n");
      return cell(`${number(Math.max(0, (d.counters[name] - before.counters[name]) / seconds).toFixed(1))} /s`, "n");
    };
    table("rates", ["", "now#", "in all#"], [
      [cell("records published"), rate("published"), count(d.counters.published)],
      [cell("records projected"), rate("projected"), count(d.counters.projected)],
      [cell("API requests"), rate("requests"), count(d.counters.requests)],
      [cell("answered with 5xx"), rate("errors"), count(d.counters.errors, d.counters.errors ? "warn" : "")],
    ], "");
  }

  // The smallest of 1, 2, 5, 10, 20, ... that is not less than n.
  const niceMax = (n) => {
    const power = 10 ** Math.floor(Math.log10(n));
    return [1, 2, 5, 10].find((f) => f * power >= n) * power;
  };
  const perSecond = (n) => `${number(n.toFixed(n < 10 ? 1 : 0))} /s`;
  const seconds = (n) => (n < 1 ? `${(n * 1000).toFixed(n < 0.01 ? 1 : 0)} ms` : `${n.toFixed(1)} s`);
  const charts = [
    ["Records", perSecond, { records_in: "in", projected: "projected" }],
    ["Lag, messages", number, { lag: "lag" }],
    ["API requests", perSecond, { requests: "requests" }],
    ["API latency", seconds, { p50_seconds: "p50", p99_seconds: "p99" }],
    ["API errors (5xx)", perSecond, { errors: "errors" }],
    ["Free disk space", bytes, { disk_free_bytes: "free" }],
  ];

  // chart draws one line for each series of points between the times from and to. It returns null without values.
  function chart([title, format, series], points, from, to) {
    const values = Object.keys(series).flatMap((key) => points.map((p) => p[key])).filter((v) => v !== undefined);
    if (values.length === 0) return null;
    const top = Math.max(...values);
    const scale = top > 0 ? (format === bytes ? top * 1.25 : niceMax(top)) : 1;
    const make = (name, parent, text = "", cls = "") => {
      const e = document.createElement(name);
      e.textContent = text;
      e.className = cls;
      parent.append(e);
      return e;
    };
    const figure = document.createElement("figure");
    const caption = make("figcaption", figure);
    make("b", caption, title);
    const plot = make("div", figure, "", "plot");
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 240 76");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    const said = [];
    Object.entries(series).forEach(([key, label], i) => {
      const cls = i ? "second" : "first";
      const known = points.filter((p) => p[key] !== undefined);
      if (known.length === 0) return;
      const now = points.at(-1)[key];
      const text = `${label} ${now === undefined ? "–" : format(now)}`;
      make("span", caption, text, cls);
      said.push(`${text}, at most ${format(Math.max(...known.map((p) => p[key])))}`);
      let line = "";
      let drawing = false;
      for (const [at, p] of points.entries()) {
        if (p[key] !== undefined) {
          const x = (240 * (Date.parse(p.at) - from)) / (to - from);
          line += `${drawing ? "L" : "M"}${x.toFixed(1)} ${(75 - 71 * p[key] / scale).toFixed(1)}`;
          if (!drawing && points[at + 1]?.[key] === undefined) line += "h-2"; // a point alone is a dash
        }
        drawing = p[key] !== undefined;
      }
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("class", cls);
      path.setAttribute("d", line);
      svg.append(path);
    });
    svg.setAttribute("aria-label", `${title}, now: ${said.join("; ")}`);
    plot.append(svg);
    make("span", plot, format(top > 0 && format !== bytes ? scale : top));
    const times = make("div", figure, "", "times");
    make("span", times, `${age(new Date(from), new Date(to))} ago`);
    make("span", times, "now");
    return figure;
  }

  function drawHistory(h) {
    const to = Date.parse(h.points.at(-1)?.at);
    const from = Math.min(Date.parse(h.points[0]?.at), to - 60000); // a minute at least
    document.getElementById("no-history").hidden = h.points.length > 0;
    document.getElementById("charts").replaceChildren(
      ...charts.map((c) => chart(c, h.points, from, to)).filter((figure) => figure));
  }

  function draw(d) {
    const down = d.services.filter((s) => !s.ready);
    const lost = d.topics?.reduce((n, t) => n + t.lost, 0) ?? 0;
    const open = (d.breakers ?? []).filter((b) => b.state !== "closed");
    const summary = document.getElementById("summary");
    const text = down.length ? `${down.length} of ${d.services.length} services not ready`
      : lost ? `${number(lost)} messages lost` : open.length ? `${open.length} circuit breakers not closed` : d.service ? "Ready" : "All services ready";
    if (summary.textContent !== text) summary.textContent = text; // said aloud only when it changes
    summary.className = down.length || lost ? "bad" : open.length ? "warn" : "good";
    const name = d.service ? `muster ${d.service}` : "muster";
    document.title = `${down.length || lost ? "✗" : "✓"} ${name} status`;
    document.querySelector("h1").textContent = name;
    document.getElementById("when").textContent = `version ${d.version}, up ${age(d.began, d.at)}, ${new Date(d.at).toLocaleTimeString()}`;

    document.getElementById("problems").replaceChildren(...d.problems.map((p) => {
      const li = document.createElement("li");
      li.textContent = p;
      return li;
    }));
    table("services", ["service", "state", "since"], d.services.map((s) =>
      [cell(s.name), s.ready ? cell("ready", "good") : cell(`not ready: ${s.reason}`, "bad"), cell(age(s.since, d.at))]), "");
    rates(d);
    table("topics", ["topic", "consumer", "messages#", "lag#", "seconds behind#", "lost#"], (d.topics ?? []).map((t) =>
      [cell(t.topic.replace(/^muster\./, "")), cell(t.group.replace(/^muster\./, "")), count(t.end_offset), count(t.lag, t.lag > 0 ? "warn" : ""),
        cell(t.behind_seconds.toFixed(1), t.behind_seconds > 60 ? "n bad" : "n"),
        count(t.lost, t.lost ? "bad" : "")]), "no topics");
    table("models", ["read model", "records#", "parts#", "on disk#", "newest version"], (d.read_models ?? []).map((m) =>
      [cell(m.table), count(m.records), count(m.parts), cell(bytes(m.bytes), "n"), cell(m.newest ? `${age(m.newest, d.at)} old` : "")]), d.counted_at ? "none" : "not counted here");
    table("fresh", ["kind", "records#", "newest", "oldest"], (d.freshness ?? []).map((f) =>
      [cell(f.kind), count(f.records), cell(`${age(f.newest, d.at)} old`), cell(`${age(f.oldest, d.at)} old`)]), "no records");
    table("runs", ["run", "kind", "state", "began", "lines#", "rejected#", "progress"], (d.runs ?? []).map((r) =>
      [cell(r.id.slice(0, 13)), cell(r.kind), cell(r.error ? `${r.state}: ${r.error}` : r.state, r.state === "done" ? "good" : "warn"),
        cell(`${age(r.began, d.at)} ago`), count(r.lines), count(r.rejected, r.rejected ? "warn" : ""),
        r.percent === undefined ? cell("") : { text: `${Math.floor(r.percent)}%`, cls: "", progress: r.percent }]), "no runs on this machine");
    table("breakers", ["set", "of", "state"], (d.breakers ?? []).map((b) =>
      [cell(b.set), cell(b.key), cell(b.state, { closed: "good", open: "bad" }[b.state] ?? "warn")]), "none was needed yet");
    table("letters", ["topic", "retained#", "unresolved#"], (d.letters ?? []).map((l) =>
      [cell(l.topic.replace(/^muster\./, "")), count(l.kept), l.unresolved === undefined ? cell("not counted", "n none")
        : count(l.unresolved, l.unresolved ? "warn" : "")]), "none");
    const e = d.erasures;
    table("erasures", ["state", "requests#"], [
      [cell("requested: suppressed, data is searched"), count(e.requested)],
      [cell("in force: data found, deletion is due"), count(e.in_force)],
      [cell("deleted"), count(e.deleted)],
      [cell("withdrawn"), count(e.withdrawn)],
      [cell("overdue"), count(e.overdue, e.overdue ? "bad" : "")],
    ], "");
    table("deliveries", ["status", "deliveries#"], (d.deliveries ?? []).map((x) =>
      [cell(x.status), count(x.count, x.status === "dead" ? "bad" : "")]), "none");
    before = d;
  }

  async function read(path) {
    const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(15000) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return answer.json();
  }

  async function refresh() {
    if (!document.hidden) {
      try {
        if (Date.now() >= historyDue) {
          const h = await read("/history.json");
          drawHistory(h);
          historyDue = Date.now() + (h.points.length ? 1000 * h.interval_seconds : every) - 500;
        }
        draw(await read("/status.json"));
      } catch (e) {
        const summary = document.getElementById("summary");
        summary.textContent = `No response: ${e.message}`;
        summary.className = "bad";
        document.title = "✗ muster status";
      }
    }
    setTimeout(refresh, every);
  }
  document.addEventListener("DOMContentLoaded", refresh);
})();
