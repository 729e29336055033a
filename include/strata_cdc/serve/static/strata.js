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

// Airflow shows the pages in a frame that opens no page beside itself: a link out of it is followed by the page around.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[target='_top']");
  if (!link || window.parent === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const outer = window.parent.document.createElement("a");
  outer.href = link.href;
  window.parent.document.body.append(outer);
  outer.click();
  outer.remove();
});

// Numbers that are being read are there in a moment: once, so that nothing that stays away makes a page flicker.
document.addEventListener("DOMContentLoaded", () => {
  const waiting = document.querySelector("[data-again]");
  if (!waiting || performance.getEntriesByType("navigation")[0]?.type === "reload") return;
  setTimeout(() => location.reload(), Number(waiting.dataset.again));
});
