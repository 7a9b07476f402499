// Selects the view by the address, and keeps the key.
import { auto, key } from "./api.js";
import { companyView } from "./company.js";
import { say } from "./dom.js";
import { personView } from "./person.js";
import { questionsView } from "./questions.js";
import { searchView } from "./search.js";

const views = new Map([
  ["search", searchView],
  ["person", personView],
  ["company", companyView],
  ["questions", questionsView],
]);
let current = new AbortController();

function show(moved) {
  current.abort(); // calls of the view that is left
  current = new AbortController();
  const [name, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  const view = views.get(name) ?? searchView;
  const main = document.getElementById("content");
  main.replaceChildren(view(new URLSearchParams(query), current.signal));
  document.title = `${main.querySelector("h1")?.textContent ?? "Explore"} · muster`;
  for (const a of document.querySelectorAll(".bar nav a")) {
    const here = a.hash === "#" + (views.has(name) ? name : "search");
    if (here) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  if (moved) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

const form = document.getElementById("key");
const input = document.getElementById("key-value");
const ask = document.getElementById("auto");
input.value = key.get();
ask.checked = auto.get();
form.addEventListener("submit", (e) => {
  e.preventDefault();
  key.set(input.value.trim());
  say(key.get() ? "The key is kept until this tab is closed." : "The key is forgotten.");
  show(false);
});
ask.addEventListener("change", () => {
  auto.set(ask.checked);
  say(
    ask.checked
      ? "Calls that cost credits are sent without asking."
      : "Calls that cost credits are sent when you agree.",
  );
});
window.addEventListener("hashchange", () => show(true));
// A slash leads to the search box.
document.addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select")) return;
  const box = document.getElementById("q");
  if (!box) return;
  e.preventDefault();
  box.focus();
  box.select();
});
show(false);
