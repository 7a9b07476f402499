// Shows the view that the URL fragment selects, and handles the form of the API key.
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
  current.abort(); // requests of the previous view
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
  say(key.get() ? "The key is stored until this tab is closed." : "The key is removed.");
  show(false);
});
ask.addEventListener("change", () => {
  auto.set(ask.checked);
  say(
    ask.checked
      ? "Calls that cost credits are sent without asking."
      : "Calls that cost credits need your confirmation.",
  );
});
window.addEventListener("hashchange", () => show(true));
// The key / focuses the search box.
document.addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select")) return;
  const box = document.getElementById("q");
  if (!box) return;
  e.preventDefault();
  box.focus();
  box.select();
});
show(false);
