// The view of a person: both websets, and linked accounts with confidence and evidence.
import { askFor } from "./call.js";
import { bars, timeline } from "./charts.js";
import { facts, h, link, list, number, section, table, text } from "./dom.js";
import { companyHash, go, personHash } from "./routes.js";

const identifiers = { codehost: "Code-host username", network: "Network username", email: "Email address" };

export function personView(params, signal) {
  const field = Object.keys(identifiers).find((f) => params.get(f));
  const out = h("div", {}, form(field ?? "codehost", params.get(field) ?? ""));
  if (!field) return out;
  const value = params.get(field);
  const body = { [field === "network" ? "network_username" : field]: value, websets: ["codehost", "network"] };
  const shown = h("div", {});
  const linked = h("div", {});
  out.append(
    askFor({ method: "POST", path: "/v1/person/enrich", body }, "Show the person", signal, (answer, headers) => {
      shown.append(...person(answer, headers));
      const input = field === "email" ? inputOf(answer.person ?? {}) : { [field]: value };
      if (input && list(answer.websets_matched).length) linked.append(accounts(input, signal));
    }),
    shown,
    linked,
  );
  return out;
}

// inputOf returns the input of discovery: an account of the person, or null if there is none.
function inputOf({ codehost, network }) {
  if (codehost?.codehost_username) return { codehost: codehost.codehost_username };
  return network?.network_username ? { network: network.network_username } : null;
}

function form(field, value) {
  const by = h(
    "select",
    { id: "person-by" },
    Object.entries(identifiers).map(([key, name]) => h("option", { value: key, selected: key === field }, name)),
  );
  const input = h("input", {
    id: "person-value",
    maxlength: "400",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "octavia",
  });
  input.value = value;
  return h(
    "div",
    {},
    h("h1", {}, "Person"),
    h(
      "form",
      {
        class: "row",
        onsubmit: (e) => {
          e.preventDefault();
          if (input.value.trim()) go("person?" + new URLSearchParams({ [by.value]: input.value.trim() }));
        },
      },
      h("label", { for: "person-by", class: "unseen" }, "Find by"),
      by,
      h("label", { for: "person-value", class: "unseen" }, "Identifier"),
      input,
      h("button", { class: "main" }, "Find"),
    ),
  );
}

function person(answer, headers) {
  const { codehost, network } = answer.person ?? {};
  if (!codehost && !network) {
    return [h("p", { class: "total" }, "No match. ", h("span", { class: "soft" }, headers.get("X-Miss-Reason") ?? ""))];
  }
  const name =
    network?.profile?.full_name || codehost?.full_name || network?.network_username || codehost?.codehost_username;
  return [
    h("h2", { class: "subject" }, text(name)),
    network ? networkPart(network) : null,
    codehost ? codehostPart(codehost) : null,
  ].filter(Boolean);
}

function place(l) {
  return l ? l.raw_address || [l.city, l.state, l.country].filter(Boolean).join(", ") : null;
}

function networkPart(n) {
  const p = n.profile ?? {};
  const jobs = list(n.experience),
    schools = list(n.education);
  const periods = [
    ...jobs.map((e) => ({
      label: [e.title, e.company_name].filter(Boolean).join(", "),
      start: e.start_date,
      end: e.is_current ? null : (e.end_date ?? undefined),
    })),
    ...schools.map((e) => ({
      label: e.school_name ?? "",
      start: e.start_date,
      end: e.end_date ?? undefined,
      className: "s2",
    })),
  ];
  return h(
    "article",
    { "aria-label": "Professional network" },
    h("h2", {}, "Professional network"),
    p.headline ? h("p", { class: "lead" }, text(p.headline)) : null,
    facts([
      ["Profile", n.network_url ? link(n.network_url) : n.network_username],
      ["Place", place(p.location)],
      ["Connections", p.connections && number(p.connections)],
      ["Followers", p.followers && number(p.followers)],
      [
        "Code host",
        n.codehost_username
          ? h("a", { href: personHash("codehost", n.codehost_username) }, text(n.codehost_username))
          : null,
      ],
      ["Updated", n.updated_at],
      ["Derived", list(n.derived).join(", ")],
    ]),
    p.summary ? h("p", {}, text(p.summary)) : null,
    section(
      "Career",
      periods.length ? timeline("Experience and education by year", periods) : null,
      jobs.length
        ? h(
            "ol",
            { class: "jobs" },
            jobs.map((e) =>
              h(
                "li",
                {},
                h("strong", {}, text(e.title ?? "")),
                " ",
                e.company_name
                  ? h(
                      "a",
                      {
                        href: e.company_id
                          ? companyHash("company_id", e.company_id)
                          : companyHash("name", e.company_name),
                      },
                      text(e.company_name),
                    )
                  : null,
                h("span", { class: "soft" }, ` ${e.start_date ?? ""} – ${e.is_current ? "now" : (e.end_date ?? "")}`),
                e.description && e.description !== e.title ? h("p", {}, text(e.description)) : null,
              ),
            ),
          )
        : null,
    ),
    section(
      "Education",
      schools.length
        ? table(
            "Education",
            ["School", "Degree", "Field", "From", "To"],
            schools.map((e) => [
              e.school_name ?? "",
              e.degree ?? "",
              e.field_of_study ?? "",
              e.start_date ?? "",
              e.end_date ?? "",
            ]),
          )
        : null,
    ),
    section(
      "Certifications",
      list(n.certifications).length
        ? table(
            "Certifications",
            ["Name", "Issuer", "Date"],
            list(n.certifications).map((c) => [
              c.credential_url ? link(c.credential_url, c.name) : (c.name ?? ""),
              c.issuer ?? "",
              c.issue_date ?? "",
            ]),
          )
        : null,
    ),
    section(
      "Spoken languages",
      list(n.languages).length
        ? table(
            "Spoken languages",
            ["Language", "Proficiency"],
            list(n.languages).map((l) => [l.language ?? "", l.proficiency ?? ""]),
          )
        : null,
    ),
    section("Skills", tags(list(n.skills).map((s) => s.skill))),
  );
}

function tags(values) {
  const shown = values.filter(Boolean);
  return shown.length
    ? h(
        "ul",
        { class: "tags" },
        shown.map((v) => h("li", {}, text(v))),
      )
    : null;
}

// languagesOf counts repositories by language.
function languagesOf(repos) {
  const counts = new Map();
  for (const r of repos) if (r.language) counts.set(r.language, (counts.get(r.language) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

function codehostPart(c) {
  const repos = list(c.repos),
    commits = list(c.commits),
    counted = languagesOf(repos);
  const months = new Map();
  for (const m of commits) {
    const month = String(m.author_date ?? "").slice(0, 7);
    if (month) months.set(month, (months.get(month) ?? 0) + 1);
  }
  return h(
    "article",
    { "aria-label": "Code host" },
    h("h2", {}, "Code host"),
    c.bio ? h("p", { class: "lead" }, text(c.bio)) : null,
    facts([
      ["Account", c.url ? link(c.url, c.codehost_username) : c.codehost_username],
      ["Type", c.type === "User" ? null : c.type],
      ["Company", c.company],
      ["Place", c.location],
      ["Website", c.blog ? link(c.blog) : null],
      ["Followers", c.followers && number(c.followers)],
      ["Repositories", c.public_repos && number(c.public_repos)],
      ["Commits", c.commit_count && number(c.commit_count)],
      ["Names", list(c.names).join(", ")],
      [
        "Network",
        c.network_username
          ? h("a", { href: personHash("network", c.network_username) }, text(c.network_username))
          : null,
      ],
      ["Updated", c.last_updated],
      ["Derived", list(c.derived).join(", ")],
    ]),
    section(
      "Languages",
      counted.length ? bars("Newest repositories by language", "repositories", counted) : tags(list(c.repo_languages)),
    ),
    section(
      "Repositories",
      repos.length
        ? table(
            "Repositories",
            ["Name", "Description", "Language", "Stars"],
            repos.map((r) => [
              r.full_name ?? r.name ?? "",
              r.description ?? "",
              r.language ?? "",
              r.stargazers_count ?? 0,
            ]),
          )
        : null,
      c.repos_count > repos.length
        ? h("p", { class: "soft" }, `The newest ${repos.length} of ${number(c.repos_count)}.`)
        : null,
    ),
    section(
      "Commits",
      commits.length
        ? table(
            "Commits",
            ["Date", "Repository", "Message"],
            commits
              .slice(0, 20)
              .map((m) => [String(m.author_date ?? "").slice(0, 10), m.repo?.full_name ?? "", m.message ?? ""]),
          )
        : null,
    ),
  );
}

// accounts returns the section with the call of discovery and its results.
function accounts(input, signal) {
  const found = h("div", {});
  return section(
    "Linked accounts",
    askFor({ method: "POST", path: "/v1/person/discover", body: input }, "Find linked accounts", signal, (answer) =>
      found.append(...list(answer.socials).map(account)),
    ),
    found,
  );
}

function account(s, i) {
  const percent = Math.round(100 * s.confidence);
  const heading = h("h3", {}, `${s.platform}: `, link(s.link, s.username));
  const open =
    s.platform in identifiers && i > 0
      ? h("p", {}, h("a", { href: personHash(s.platform, s.username) }, "Show this person"))
      : null;
  const evidence = list(s.evidence);
  return h(
    "article",
    { class: "account" },
    heading,
    i === 0
      ? h("p", { class: "soft" }, "The requested account")
      : h(
          "p",
          {},
          h("meter", {
            min: "0",
            max: "1",
            low: "0.6",
            high: "0.9",
            optimum: "1",
            value: String(s.confidence),
            "aria-label": `Confidence ${percent} %`,
          }),
          ` ${percent} % confidence`,
        ),
    s.context ? h("p", { class: "context" }, text(s.context)) : null,
    open,
    evidence.length
      ? h(
          "details",
          { open: true },
          h("summary", {}, `Evidence (${evidence.length})`),
          bars(
            "Weight of the evidence: powers of two for or against",
            "weight",
            evidence.map((e) => [`${e.kind}: ${e.finding}`, e.weight]),
          ),
        )
      : null,
  );
}
