// The view of a search for people or companies: query, facets, results.
import { send } from "./api.js";
import { askFor, command, errorPanel } from "./call.js";
import { facts, h, link, list, marked, number, plural, say, text } from "./dom.js";
import { companyHash, go, personHash } from "./routes.js";

const pageSize = 10;

// A collection is what is searched: its path, facets by name with the field that is counted and filtered, the fields
// that words are searched in (all, if there are none), those whose matches are highlighted, whether values of filters are suggested, and how a result is shown.
const people = {
  name: "people",
  path: "/v1/person/search",
  one: "person",
  many: "people",
  facets: new Map([
    ["Country", "profile.location.country.keyword"],
    ["Title", "experience.title.keyword"],
    ["Company", "experience.company_name.keyword"],
    ["School", "education.school_name.keyword"],
    ["Language", "languages.language.keyword"],
  ]),
  // No e-mail addresses: counts of queries on these are limited to 10 a minute.
  searched: [
    "profile.full_name",
    "profile.headline",
    "profile.summary",
    "profile.location.raw_address",
    "experience.title",
    "experience.company_name",
    "experience.location",
    "experience.description",
    "education.school_name",
    "education.degree",
    "education.field_of_study",
    "certifications.name",
    "languages.language",
    "skills.skill",
    "network_username",
    "codehost.username",
    "codehost.languages",
  ],
  highlighted: [
    "profile.headline",
    "profile.summary",
    "experience.title",
    "experience.company_name",
    "experience.description",
  ],
  example: { match: { "profile.headline": "data engineer" } },
  suggests: true,
  show: person,
};
const companies = {
  name: "companies",
  path: "/v1/company/search",
  one: "company",
  many: "companies",
  facets: new Map([
    ["Industry", "profile.industry.keyword"],
    ["Country", "headquarters.country.keyword"],
    ["Size", "profile.company_size.keyword"],
  ]),
  highlighted: ["profile.name", "profile.tagline", "profile.description"],
  example: { range: { "profile.employees": { gte: 100 } } },
  suggests: false, // GET /v1/suggest has values of people only
  show: company,
};

function queryOf(state) {
  let query = { match_all: {} };
  if (state.dsl) query = JSON.parse(state.dsl);
  else if (state.q)
    query = { simple_query_string: { query: state.q, fields: state.in.searched, default_operator: "and" } };
  const filter = state.filters.map(([name, value]) => ({ term: { [state.in.facets.get(name)]: value } }));
  return filter.length ? { bool: { must: [query], filter } } : query;
}

function pageCall(collection, query, cursor) {
  const highlight = { fields: Object.fromEntries(collection.highlighted.map((f) => [f, {}])) };
  const body = { query, size: pageSize, highlight };
  if (cursor) body.cursor = cursor;
  return { method: "POST", path: collection.path, body };
}

// countCall returns the call for the total and the facets of a query.
function countCall(collection, query) {
  const aggs = Object.fromEntries(
    [...collection.facets].map(([name, field]) => [name, { terms: { field, size: 8 } }]),
  );
  return { method: "POST", path: collection.path, body: { query, size: 0, aggs } };
}

export function searchView(params, signal) {
  const state = {
    in: params.get("in") === companies.name ? companies : people,
    q: params.get("q") ?? "",
    dsl: params.get("dsl") ?? "",
    filters: [],
  };
  for (const f of params.getAll("f")) {
    const at = f.indexOf(":");
    if (state.in.facets.has(f.slice(0, at))) state.filters.push([f.slice(0, at), f.slice(at + 1)]);
  }
  const asked = params.has("q") || params.has("dsl") || state.filters.length > 0;
  const open = (change) => {
    const next = { ...state, ...change };
    const p = new URLSearchParams();
    if (next.in !== people) p.set("in", next.in.name);
    if (next.dsl) p.set("dsl", next.dsl);
    else p.set("q", next.q);
    for (const [name, value] of next.filters) p.append("f", `${name}:${value}`);
    go("search?" + p);
  };
  const out = h("div", { class: "search" });
  out.append(form(state, open, signal));
  if (asked) out.append(answerOf(state, open, signal));
  else
    out.append(
      h(
        "p",
        { class: "soft" },
        `Search ${state.in.many} by words, such as `,
        h("code", {}, "data engineer"),
        ", ",
        h("code", {}, '"compiler engineer" -intern'),
        " or ",
        h("code", {}, "infra*"),
        ", or with a query in Elasticsearch's language. Counts are free; the results of a page cost a credit each.",
      ),
    );
  return out;
}

function form(state, open, signal) {
  const dsl = h("textarea", { id: "dsl", rows: "8", spellcheck: "false", maxlength: "20000" });
  dsl.value = state.dsl || JSON.stringify(state.in.example, null, 2);
  const words = h("input", {
    id: "q",
    type: "search",
    maxlength: "1000",
    autocomplete: "off",
    placeholder: "data engineer",
  });
  words.value = state.q;
  const wrong = h("p", { class: "error", role: "alert", hidden: true });
  const advanced = h(
    "details",
    { open: state.dsl ? true : null },
    h("summary", {}, "Query language (JSON)"),
    h("label", { for: "dsl" }, "Query"),
    dsl,
    wrong,
    h(
      "button",
      {
        type: "button",
        onclick: () => {
          try {
            JSON.parse(dsl.value);
          } catch (e) {
            wrong.hidden = false;
            wrong.textContent = `Not valid JSON: ${e.message}`;
            return;
          }
          open({ dsl: dsl.value, q: "" });
        },
      },
      "Search with this query",
    ),
    " ",
    h("a", { href: "/docs/guides/search" }, "Clauses and fields"),
  );
  const other = state.in === people ? companies : people;
  return h(
    "div",
    {},
    h("h1", {}, `Search ${state.in.many}`),
    h(
      "form",
      {
        role: "search",
        class: "row",
        onsubmit: (e) => {
          e.preventDefault();
          open({ q: words.value.trim(), dsl: "" });
        },
      },
      h("label", { for: "q", class: "unseen" }, "Words"),
      words,
      h("button", { class: "main" }, "Search"),
    ),
    filterForm(state, open, signal),
    h("p", { class: "small" }, h("a", { href: `#search?in=${other.name}` }, `Search ${other.many}`)),
    advanced,
  );
}

// filterForm returns the form that adds a filter, with values suggested by the server.
function filterForm(state, open, signal) {
  const name = h(
    "select",
    { id: "filter-field" },
    [...state.in.facets.keys()].map((n) => h("option", {}, n)),
  );
  const options = h("datalist", { id: "filter-values" });
  const value = h("input", { id: "filter-value", list: "filter-values", maxlength: "256", autocomplete: "off" });
  let waiting = null;
  value.addEventListener("input", () => {
    clearTimeout(waiting);
    if (!state.in.suggests || !value.value) return;
    waiting = setTimeout(async () => {
      const p = new URLSearchParams({ field: state.in.facets.get(name.value), prefix: value.value });
      try {
        const { answer } = await send({ method: "GET", path: "/v1/suggest?" + p }, signal);
        options.replaceChildren(
          ...list(answer.values).map((v) =>
            h("option", { value: String(v.value) }, plural(v.count, "person", "people")),
          ),
        );
      } catch {
        options.replaceChildren(); // values can be written without suggestions
      }
    }, 200);
  });
  return h(
    "form",
    {
      class: "row small",
      onsubmit: (e) => {
        e.preventDefault();
        if (value.value.trim()) open({ filters: [...state.filters, [name.value, value.value.trim()]] });
      },
    },
    h("label", { for: "filter-field" }, "Filter"),
    name,
    h("label", { for: "filter-value", class: "unseen" }, "Value"),
    value,
    options,
    h("button", {}, "Add"),
  );
}

function answerOf(state, open, signal) {
  let query;
  try {
    query = queryOf(state);
  } catch (e) {
    return errorPanel(new Error(`The query is not valid JSON: ${e.message}`));
  }
  const side = h("div", { class: "facets" });
  const total = h("p", { class: "total" }, "Counting…");
  const results = h("div", {});
  const chosen = state.filters.map(([name, value], i) =>
    h(
      "li",
      {},
      h("span", {}, name + ": ", text(value)),
      h(
        "button",
        {
          type: "button",
          "aria-label": `Remove the filter ${name}: ${value}`,
          onclick: () => open({ filters: state.filters.filter((_, k) => k !== i) }),
        },
        "×",
      ),
    ),
  );
  const out = h(
    "div",
    {},
    chosen.length ? h("ul", { class: "chosen" }, chosen) : null,
    total,
    h("div", { class: "columns" }, side, results),
  );
  const call = countCall(state.in, query);
  send(call, signal)
    .catch(async (e) => {
      if (e.status !== 400) throw e;
      // The facets of a broad query may exceed a limit that its total does not.
      const counted = await send({ ...call, body: { query, size: 0 } }, signal);
      side.append(errorPanel(e));
      return counted;
    })
    .then(({ answer }) => {
      total.textContent = plural(answer.total, state.in.one, state.in.many);
      say(total.textContent);
      if (answer.aggregations) side.append(...facetList(state, open, answer.aggregations));
      side.append(
        h("details", {}, h("summary", {}, "The call of the counts"), command(call, "The call of the counts")),
      );
      if (answer.total > 0) results.append(page(state.in, query, null, signal, 0));
    })
    .catch((e) => {
      if (e.name === "AbortError") return;
      total.textContent = "";
      results.append(errorPanel(e));
    });
  return out;
}

function facetList(state, open, aggregations) {
  const out = [];
  for (const name of state.in.facets.keys()) {
    const buckets = list(aggregations[name]?.buckets).filter((b) => b.key !== undefined);
    if (!buckets.length) continue;
    out.push(
      h(
        "section",
        { class: "facet", "aria-label": name },
        h("h2", {}, name),
        h(
          "ul",
          {},
          buckets.map((b) => {
            const on = state.filters.some(([n, v]) => n === name && v === String(b.key));
            return h(
              "li",
              {},
              h(
                "button",
                {
                  type: "button",
                  "aria-pressed": String(on),
                  onclick: () =>
                    open({
                      filters: on
                        ? state.filters.filter(([n, v]) => n !== name || v !== String(b.key))
                        : [...state.filters, [name, String(b.key)]],
                    }),
                },
                text(b.key),
                h("span", { class: "n" }, number(b.doc_count)),
              ),
            );
          }),
        ),
      ),
    );
  }
  if (!out.length) out.push(h("p", { class: "soft" }, "No facets."));
  return out;
}

// page returns the panel of the call for a page of results, followed by the results.
function page(collection, query, cursor, signal, before) {
  const items = h("ol", { class: "results", start: String(before + 1) });
  const more = h("div", {});
  const panel = askFor(
    pageCall(collection, query, cursor),
    cursor ? "Show the next results" : "Show the results",
    signal,
    (answer) => {
      const found = list(answer.results);
      items.append(...found.map((r) => h("li", {}, collection.show(r), hits(r))));
      items.querySelector("a")?.focus({ preventScroll: Boolean(cursor) });
      if (answer.next_cursor && found.length)
        more.append(page(collection, query, answer.next_cursor, signal, before + found.length));
    },
  );
  return h("div", {}, panel, items, more);
}

function hits(record) {
  const all = Object.entries(record.highlight ?? {}).flatMap(([field, fragments]) =>
    list(fragments)
      .slice(0, 3)
      .map((f) => h("li", {}, h("span", { class: "soft" }, field.replace(/^profile\./, "") + " "), marked(f))),
  );
  return all.length ? h("ul", { class: "hits" }, all) : null;
}

function company(c) {
  const profile = c.profile ?? {},
    at = c.headquarters ?? {};
  return [
    h(
      "h3",
      {},
      h("a", { href: companyHash("company_id", c.company_id) }, text(profile.name || c.network_slug || c.company_id)),
    ),
    profile.tagline ? h("p", {}, text(profile.tagline)) : null,
    facts([
      ["Industry", profile.industry],
      ["Employees", profile.employees && number(profile.employees)],
      ["Headquarters", [at.city, at.country].filter(Boolean).join(", ")],
      ["Website", profile.website ? link(profile.website) : null],
    ]),
  ];
}

function person(person) {
  const profile = person.profile ?? {};
  const name = profile.full_name || person.network_username || person.profile_id;
  const job = list(person.experience).find((e) => e.is_current) ?? list(person.experience)[0];
  const place = profile.location ?? {};
  return [
    h(
      "h3",
      {},
      person.network_username
        ? h("a", { href: personHash("network", person.network_username) }, text(name))
        : text(name),
    ),
    profile.headline ? h("p", {}, text(profile.headline)) : null,
    facts([
      ["Now", [job?.title, job?.company_name].filter(Boolean).join(", ")],
      ["Place", [place.city, place.country].filter(Boolean).join(", ") || place.raw_address],
      ["Profile", person.network_url ? link(person.network_url) : null],
    ]),
  ];
}
