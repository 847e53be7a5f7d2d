// Runs before the page is painted, so that a chosen theme never flashes the other one. Everything else is in app.js.
(() => {
  try {
    const theme = localStorage.getItem("trinity-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* storage may be forbidden; the system's theme it is */ }
})();
