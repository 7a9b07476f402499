// The view of a company, with its headcount by year.
import { askFor } from "./call.js";
import { columns } from "./charts.js";
import { facts, h, link, list, number, plural, section, text } from "./dom.js";
import { companyHash, go } from "./routes.js";

const identifiers = {
  network_slug: "Slug",
  name: "Name",
  domain: "Domain",
  company_id: "Company ID",
  network_id: "Network ID",
};

export function companyView(params, signal) {
  const field = Object.keys(identifiers).find((f) => params.get(f));
  const out = h("div", {}, form(field ?? "network_slug", params.get(field) ?? ""));
  if (!field) return out;
  const shown = h("div", {});
  out.append(
    askFor(
      { method: "POST", path: "/v1/company/enrich", body: { [field]: params.get(field) } },
      "Show the company",
      signal,
      (answer, headers) => shown.append(...company(answer, headers)),
    ),
    shown,
  );
  return out;
}

function form(field, value) {
  const by = h(
    "select",
    { id: "company-by" },
    Object.entries(identifiers).map(([key, name]) => h("option", { value: key, selected: key === field }, name)),
  );
  const input = h("input", {
    id: "company-value",
    maxlength: "400",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "acme",
  });
  input.value = value;
  return h(
    "div",
    {},
    h("h1", {}, "Company"),
    h(
      "form",
      {
        class: "row",
        onsubmit: (e) => {
          e.preventDefault();
          if (input.value.trim()) go("company?" + new URLSearchParams({ [by.value]: input.value.trim() }));
        },
      },
      h("label", { for: "company-by", class: "unseen" }, "Find by"),
      by,
      h("label", { for: "company-value", class: "unseen" }, "Identifier"),
      input,
      h("button", { class: "main" }, "Find"),
    ),
    h("p", { class: "small" }, h("a", { href: "#search?in=companies" }, "Search companies")),
  );
}

function company(answer, headers) {
  const c = answer.company;
  const candidates = list(answer.candidates);
  if (!c) {
    return [
      h(
        "p",
        { class: "total" },
        candidates.length ? `${plural(candidates.length, "candidate")}` : "No match. ",
        h("span", { class: "soft" }, candidates.length ? "" : (headers.get("X-Miss-Reason") ?? "")),
      ),
      h(
        "ul",
        {},
        candidates.map((x) =>
          h(
            "li",
            {},
            h("a", { href: companyHash("company_id", x.company_id) }, text(x.name ?? x.company_id)),
            h("span", { class: "soft" }, ` ${Math.round(100 * x.score)} %`),
          ),
        ),
      ),
    ];
  }
  const p = c.profile ?? {},
    at = c.headquarters ?? {};
  return [
    h("h2", { class: "subject" }, text(p.name ?? c.network_slug ?? c.company_id)),
    p.tagline ? h("p", { class: "lead" }, text(p.tagline)) : null,
    facts([
      ["Industry", p.industry],
      ["Employees", p.employees && number(p.employees)],
      ["Size", p.company_size],
      ["Founded", p.founded && String(p.founded)],
      ["Website", p.website ? link(p.website) : null],
      ["Phone", p.phone],
      ["Headquarters", [at.line1, at.city, at.region, at.country].filter(Boolean).join(", ")],
      ["Slug", c.network_slug],
      ["Company ID", c.company_id],
      ["Specialties", list(p.specialties).join(", ")],
      ["Updated", c.last_updated],
    ]),
    p.description ? h("p", {}, text(p.description)) : null,
    headcount(c),
    p.name
      ? h(
          "p",
          {},
          h(
            "a",
            {
              href:
                "#search?" +
                new URLSearchParams([
                  ["q", ""],
                  ["f", "Company:" + p.name],
                ]),
            },
            "Search its people",
          ),
        )
      : null,
  ].filter(Boolean);
}

// headcount returns the chart of the headcount by year, or null if there are no counts.
function headcount(c) {
  const observed = c.headcount_by_year ?? {};
  const years = list(observed.years).filter((y) => Number.isFinite(y.year) && Number.isFinite(y.people));
  if (!years.length) return null;
  return section(
    "Headcount by year",
    columns(
      `Known people at the end of each year, of ${number(observed.sample)} with dated positions`,
      years.map((y) => y.year),
      [{ name: "people", values: years.map((y) => y.people) }],
    ),
    h(
      "p",
      { class: "soft" },
      "Counted ",
      String(observed.as_of ?? "").slice(0, 10),
      ". Years with fewer than 5 people are left out.",
    ),
  );
}
