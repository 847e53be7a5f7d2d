// Keys act on what the page offers: an element with data-key="x" is followed or pressed by x. "?" lists them.
import { make } from "./dom.js";

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (event.key === "?") {
      event.preventDefault();
      show();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    const target = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!target || target.disabled) return;
    event.preventDefault();
    if (target.matches("input, select")) target.focus();
    else target.click();
  });
  for (const button of document.querySelectorAll("[data-show-keys]")) button.addEventListener("click", show);
}

function typing(node) {
  return node.matches("input:not([type=checkbox]), select, textarea, [contenteditable]");
}

function show() {
  const dialog = document.getElementById("keys");
  if (!dialog || dialog.open) return;
  const list = dialog.querySelector("dl");
  list.replaceChildren();
  const rows = [...document.querySelectorAll("[data-key]")].map((node) => [node.dataset.key, node.dataset.does]);
  for (const [key, does] of [...rows, ["?", "these keys"], ["Esc", "close"]]) {
    const term = make("dt");
    term.append(make("kbd", "", { ArrowLeft: "←", ArrowRight: "→" }[key] ?? key));
    list.append(term, make("dd", "", does));
  }
  dialog.showModal();
}
