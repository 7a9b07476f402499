// Creates elements. Text from records becomes text nodes only. Only http and https URLs become links.

const svgNames = new Set(["svg", "g", "rect", "line", "path", "text", "title", "circle"]);
// longText is the number of characters after which a value is truncated.
const longText = 600;

// h returns an element. Children are nodes, strings, or arrays of them. Null, undefined and false are skipped.
export function h(name, attributes, ...children) {
  const svg = svgNames.has(name);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else e.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(3)) if (child !== null && child !== undefined && child !== false) e.append(child);
  return e;
}

// text returns a value of a record as text, isolated so that its direction does not affect the text around it. A long
// value is truncated, with a button that shows all of it.
export function text(value) {
  const whole = typeof value === "string" ? value : String(value ?? "");
  const out = h("bdi", { class: "text" });
  if (whole.length <= longText) {
    out.textContent = whole;
    return out;
  }
  out.textContent = whole.slice(0, longText) + "… ";
  const more = h(
    "button",
    {
      type: "button",
      class: "more",
      onclick: () => {
        out.textContent = whole;
      },
    },
    `Show all ${number(whole.length)} characters`,
  );
  return h("span", {}, out, more);
}

// link returns a value as a link if it is an http or https URL, else as text.
export function link(address, label) {
  let url = null;
  try {
    url = new URL(address);
  } catch {
    /* not a URL */
  }
  if (!url || (url.protocol !== "https:" && url.protocol !== "http:")) return text(label ?? address);
  return h("a", { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank" }, text(label ?? address));
}

// marked returns a highlighted fragment. The server puts matches between <em> and </em>.
export function marked(fragment) {
  const out = h("bdi", {});
  let inside = false;
  for (const part of String(fragment)
    .slice(0, 4000)
    .split(/(<\/?em>)/)) {
    if (part === "<em>" || part === "</em>") inside = part === "<em>";
    else if (part) out.append(inside ? h("mark", {}, part) : part);
  }
  return out;
}

export function number(n) {
  return typeof n === "number" ? n.toLocaleString("en") : String(n ?? "");
}

export function plural(n, one, many = one + "s") {
  return `${number(n)} ${n === 1 ? one : many}`;
}

// facts returns a definition list of the non-empty values, or null if all are empty.
export function facts(entries) {
  const shown = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  if (!shown.length) return null;
  return h(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, value instanceof Node ? value : text(value))),
    ),
  );
}

// section returns a section with a heading, or null if it has no content.
export function section(title, ...children) {
  const content = children.flat(3).filter((c) => c !== null && c !== undefined && c !== false);
  return content.length ? h("section", {}, h("h2", {}, title), content) : null;
}

// table returns a table that scrolls if it is too wide. Cells are nodes or values.
export function table(caption, head, rows) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "unseen" }, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map((name) => h("th", { scope: "col" }, name)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            row.map((cell) =>
              h(
                "td",
                { class: typeof cell === "number" ? "n" : null },
                cell instanceof Node ? cell : typeof cell === "number" ? number(cell) : text(cell),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

// say announces a message to screen readers.
export function say(message) {
  document.getElementById("said").textContent = message;
}

// list returns the value if it is an array, else an empty array.
export function list(value) {
  return Array.isArray(value) ? value : [];
}
