// Checks the launch form while it is filled in. The server has the last word: without script the form works as it is.
import { make, setText } from "./dom.js";

export function startLaunch() {
  const form = document.getElementById("launch");
  if (!form) return;
  const preset = document.getElementById("preset");
  preset?.addEventListener("change", () => preset.form.requestSubmit());

  let timer = 0;
  let running = null;
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(check, 250);
  });

  async function check() {
    running?.abort();
    running = new AbortController();
    try {
      const answer = await fetch("/launch/check", { method: "POST", body: new URLSearchParams(new FormData(form)), signal: running.signal });
      if (answer.ok) apply(await answer.json());
    } catch (error) {
      if (error.name !== "AbortError") setText(document.getElementById("checked"), "The server did not answer, so the settings are unchecked.");
    }
  }

  function apply({ yaml, faults, cost }) {
    const byField = new Map(faults.map((fault) => [fault.field, fault.message]));
    for (const setting of form.querySelectorAll("[data-setting]")) {
      const key = setting.dataset.setting;
      const control = setting.querySelector("[data-control]");
      const message = byField.get(key);
      byField.delete(key);
      let line = setting.querySelector(".fault");
      if (message && !line) {
        line = make("p", "fault");
        line.id = `fault-${key}`;
        setting.append(line);
      }
      if (message) setText(line, message);
      else line?.remove();
      if (message) control.setAttribute("aria-invalid", "true");
      else control.removeAttribute("aria-invalid");
    }
    const other = [...byField].map(([field, message]) => `${field} ${message}`).join("; ");
    const count = faults.length;
    setText(document.getElementById("checked"), count === 0 ? "" : `${count} ${count === 1 ? "setting needs" : "settings need"} another value. ${other}`);
    if (yaml) setText(document.getElementById("yaml"), yaml);
    const list = document.getElementById("cost");
    if (list && cost) {
      list.replaceChildren();
      for (const { count: n, text } of cost) list.append(make("dt", "", n), make("dd", "", text));
    }
  }
}
