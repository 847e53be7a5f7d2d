// Elements are made from tag, class and text. Text is never read as markup.
export function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

// setText changes a node only where the text is another, so that live regions don't repeat themselves.
export function setText(node, text) {
  if (node && node.textContent !== text) node.textContent = text;
}

// readJSON parses a <script type="application/json">, or gives null where there is none.
export function readJSON(id) {
  const node = document.getElementById(id);
  return node ? JSON.parse(node.textContent) : null;
}

// number undoes the JSON spelling of values that are not finite.
export function number(value) {
  if (typeof value === "number") return value;
  return { NaN, Infinity, "-Infinity": -Infinity }[value] ?? NaN;
}

// fixed writes a metric as the server does.
export function fixed(x) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  return x.toFixed(3).replace("-", "−");
}
