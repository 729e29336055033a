// The theme that Airflow stores for the signed-in browser, before anything is drawn; without one the system's.
try {
  const stored = localStorage.getItem("theme");
  if (stored === "dark" || stored === "light") document.documentElement.dataset.theme = stored;
} catch { /* A frame without storage has the system's theme. */ }

// "/" goes to the search, as in many tools.
document.addEventListener("keydown", (event) => {
  const target = event.target;
  if (event.key !== "/" || event.ctrlKey || event.metaKey || target.matches("input, textarea, select")) return;
  const search = document.querySelector("[data-hotkey='/']");
  if (search) { event.preventDefault(); search.focus(); }
});
