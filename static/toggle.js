// The theme: the system's until another is chosen.
export function startTheme() {
  for (const button of document.querySelectorAll("[data-toggle-theme]")) button.addEventListener("click", toggle);
}

export function toggle() {
  const dark = getComputedStyle(document.documentElement).colorScheme.includes("dark");
  const theme = dark ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("trinity-theme", theme);
  } catch { /* not remembered, that is all */ }
  document.dispatchEvent(new Event("themechange"));
}
