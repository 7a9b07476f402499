// Asks for the status every two seconds while the page is seen, and draws it.
// Everything is set as text: nothing that comes from a record is ever markup.
"use strict";

(() => {
  const every = 2000;
  let before = null;

  const number = (n) => Number(n).toLocaleString("en");
  const bytes = (n) => {
    let unit = 0;
    for (; n >= 1000 && unit < 4; unit++) n /= 1000;
    return `${n.toFixed(unit && n < 100 ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB"][unit]}`;
  };
  const age = (iso, now) => {
    const s = Math.max(0, (Date.parse(now) - Date.parse(iso)) / 1000);
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
    table("services", ["service", "state"], d.services.map((s) =>
      [cell(s.name), s.ready ? cell("ready", "good") : cell(s.reason, "bad")]), "");
    rates(d);
    table("topics", ["topic", "consumer", "messages#", "not done#", "seconds behind#", "lost#"], (d.topics ?? []).map((t) =>
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
    table("letters", ["topic", "kept#"], (d.letters ?? []).map((l) =>
      [cell(l.topic), count(l.kept, l.kept ? "warn" : "")]), "none");
    table("deliveries", ["status", "deliveries#"], (d.deliveries ?? []).map((x) =>
      [cell(x.status), count(x.count, x.status === "dead" ? "bad" : "")]), "none");
    before = d;
  }

  async function ask() {
    if (!document.hidden) {
      try {
        const answer = await fetch("/status.json", { cache: "no-store", signal: AbortSignal.timeout(15000) });
        if (!answer.ok) throw new Error(`status ${answer.status}`);
        draw(await answer.json());
      } catch (e) {
        const summary = document.getElementById("summary");
        summary.textContent = `No answer: ${e.message}`;
        summary.className = "bad";
        document.title = "✗ muster status";
      }
    }
    setTimeout(ask, every);
  }
  document.addEventListener("DOMContentLoaded", ask);
})();
