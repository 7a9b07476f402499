// The panel of a call: the command to copy, what it may cost, and what it has cost.
import { auto, cost, curl, key, send } from "./api.js";
import { h, plural, say } from "./dom.js";

// command returns a call as a command with a button that copies it.
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

// refusal returns an error as it is shown.
export function refusal(e) {
  const hint = e.status === 401 && !key.get() ? " Enter a key above. `muster up` prints the one of its instance." : "";
  return h(
    "div",
    { class: "refused", role: "alert" },
    h("p", {}, h("strong", {}, e.status ? `${e.status} ` : ""), e.message, hint),
    e.request ? h("p", { class: "soft" }, `Request ${e.request}`) : null,
  );
}

// askFor returns a panel that shows a call and its price, sends it when its user agrees, and hands over the answer.
// Calls that cost nothing, and all calls if the user chose so, are sent at once. The signal ends with the view. adapt,
// if given, may change a call that the server refused with 400, and returns null if it cannot.
export function askFor(call, verb, signal, onAnswer, adapt) {
  const price = h("p", { class: "price" }, "Asking for the price…");
  const commandPlace = h("div", {}, command(call));
  const panel = h("section", { class: "call", "aria-label": verb }, commandPlace, price);
  const fail = (e) => {
    if (e.name === "AbortError") return;
    price.replaceChildren(refusal(e));
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
      if (most === 0 || auto.get()) return await run();
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
      const other = e.status === 400 ? adapt?.(call, e) : null;
      if (!other) return fail(e);
      call = other;
      commandPlace.replaceChildren(command(call));
      return estimate();
    }
  };
  estimate();
  return panel;
}
