// Starts the interactive reference. Nothing is sent to anybody but this server:
// no fonts, no proxy, no telemetry, no assistant. A key lives as long as the page.
"use strict";

(() => {
  const shown = { shell: ["curl"], go: ["native"], python: ["python3", "requests"], node: ["fetch"], js: ["fetch"] };
  const clients = {
    c: ["libcurl"], clojure: ["clj_http"], csharp: ["httpclient", "restsharp"], dart: ["http"], fsharp: ["httpclient"], go: ["native"],
    http: ["http1.1"], java: ["asynchttp", "nethttp", "okhttp", "unirest"], js: ["axios", "fetch", "jquery", "ofetch", "xhr"],
    julia: ["http"], kotlin: ["okhttp"], node: ["axios", "fetch", "ofetch", "undici"], objc: ["nsurlsession"], ocaml: ["cohttp"],
    php: ["curl", "guzzle", "laravel"], powershell: ["restmethod", "webrequest"],
    python: ["python3", "requests", "aiohttp", "httpx_sync", "httpx_async"], r: ["httr2"], ruby: ["native"], rust: ["reqwest"],
    shell: ["curl", "httpie", "wget"], swift: ["nsurlsession"],
  };
  const hidden = {};
  for (const [target, all] of Object.entries(clients)) {
    const keep = shown[target];
    hidden[target] = keep ? all.filter((c) => !keep.includes(c)) : true;
  }
  window.Scalar.createApiReference("#content", {
    url: "/v1/openapi.json",
    servers: [{ url: location.origin, description: "This server" }],
    authentication: { preferredSecurityScheme: "bearer" },
    hiddenClients: hidden,
    defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
    withDefaultFonts: false,
    telemetry: false,
    agent: { disabled: true },
    mcp: { disabled: true },
    hideClientButton: true,
    showDeveloperTools: "never",
    documentDownloadType: "none",
    persistAuth: false,
    metaData: { title: "API reference · muster" },
  });

  // The reference's buttons for copying show a picture only: they are given a name.
  let due = false;
  function name() {
    due = false;
    document.querySelectorAll("button[class*='copy-button']:not([aria-label])").forEach((b) => b.setAttribute("aria-label", "Copy"));
  }
  new MutationObserver(() => {
    if (!due) requestAnimationFrame(name);
    due = true;
  }).observe(document.body, { childList: true, subtree: true });
})();
