// The panel of a call: the command to copy, the maximum cost, and the charged credits.
import { auto, cost, curl, key, send } from "./api.js";
import { h, plural, say } from "./dom.js";

// command returns an element with a call as a command and a button that copies it.
export function command(call, name = "The call as a command") {
  const code = h("code", {}, curl(call));
  const copy = h(
    "button",
    {
      type: "button",
      class: "copy",
      onclick: async () => {
        let done = "Copied";
        try {
          await navigator.clipboard.writeText(code.textContent);
        } catch {
          done = "Not copied";
        }
        copy.textContent = done;
        say(done);
        setTimeout(() => {
          copy.textContent = "Copy";
        }, 1500);
      },
    },
    "Copy",
  );
  return h("div", { class: "code" }, h("pre", { tabindex: "0", role: "region", "aria-label": name }, code), copy);
}

// errorPanel returns an element that shows an error.
export function errorPanel(e) {
  const hint = e.status === 401 && !key.get() ? " Enter a key above. `muster up` prints the one of its instance." : "";
  return h(
    "div",
    { class: "error", role: "alert" },
    h("p", {}, h("strong", {}, e.status ? `${e.status} ` : ""), e.message, hint),
    e.request ? h("p", { class: "soft" }, `Request ${e.request}`) : null,
  );
}

// askFor returns a panel that shows a call and its price, sends it after the user's consent, and passes the answer to
// onAnswer. Free calls, and all calls if the user chose so, are sent immediately. The signal ends with the view.
export function askFor(call, verb, signal, onAnswer) {
  const price = h("p", { class: "price" }, "Estimating the cost…");
  const fail = (e) => {
    if (e.name === "AbortError") return;
    price.replaceChildren(errorPanel(e));
  };
  const run = async () => {
    price.replaceChildren("Sending…");
    try {
      const { answer, headers } = await send(call, signal);
      const charged = Number(headers.get("X-Credits-Charged") ?? 0);
      const asOf = headers.get("X-Data-As-Of");
      price.replaceChildren(`Cost ${plural(charged, "credit")}.`, asOf ? ` Data as of ${asOf.split(";")[0]}.` : "");
      say(`Answered. Cost ${plural(charged, "credit")}.`);
      onAnswer(answer, headers);
    } catch (e) {
      fail(e);
    }
  };
  const estimate = async () => {
    try {
      const { most, left } = await cost(call, signal);
      if (most === 0 || auto.get()) return run();
      const button = h(
        "button",
        {
          type: "button",
          class: "main",
          onclick: () => {
            button.disabled = true;
            run();
          },
        },
        verb,
      );
      price.replaceChildren(`Costs at most ${plural(most, "credit")}; ${plural(left, "credit")} left. `, button);
    } catch (e) {
      fail(e);
    }
  };
  estimate();
  return h("section", { class: "call", "aria-label": verb }, command(call), price);
}
