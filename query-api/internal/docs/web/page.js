// Every page: the colors follow the choice that the reference remembers, else
// the system's; code can be copied and names this server.
"use strict";

(() => {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function paint() {
    let choice = null;
    try { choice = localStorage.getItem("colorMode"); } catch { /* storage is switched off */ }
    if (document.body?.classList.contains("dark-mode")) choice = "dark";
    else if (document.body?.classList.contains("light-mode")) choice = "light";
    if (choice !== "dark" && choice !== "light") choice = dark.matches ? "dark" : "light";
    root.dataset.theme = choice;
  }

  function copyable(pre) {
    const code = pre.querySelector("code");
    code.textContent = code.textContent.replaceAll("http://127.0.0.1:8080", location.origin);
    pre.tabIndex = 0; // a long line is scrolled with the keyboard
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      let said = "Copied";
      try { await navigator.clipboard.writeText(code.textContent); } catch { said = "Not copied"; }
      button.textContent = said;
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    const frame = document.createElement("div");
    frame.className = "code";
    pre.replaceWith(frame);
    frame.append(pre, button);
  }

  paint();
  dark.addEventListener("change", paint);
  document.addEventListener("DOMContentLoaded", () => {
    paint();
    new MutationObserver(paint).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    document.querySelectorAll("main pre").forEach(copyable);
    // The list of pages is open beside the text, and closed above it. Without JavaScript it opens by a click.
    const pages = document.querySelector("details.pages");
    const wide = window.matchMedia("(min-width: 821px)");
    const fold = () => { if (pages) pages.open = wide.matches; };
    fold();
    wide.addEventListener("change", fold);
    document.querySelector(".pages [aria-current]")?.scrollIntoView({ block: "nearest" });
    const find = document.querySelector(".find input");
    document.addEventListener("keydown", (e) => {
      const typing = e.target.closest("input, textarea, select, [contenteditable=true], .cm-editor");
      if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || typing) return;
      e.preventDefault();
      find.focus();
      find.select();
    });
    document.querySelectorAll("main table").forEach((table) => {
      const frame = document.createElement("div");
      frame.className = "table";
      frame.tabIndex = 0;
      table.replaceWith(frame);
      frame.append(table);
    });
  });
})();
