// In the place of jQuery, Bootstrap and bootstrap-table: what the pages of Great Expectations call of them.
"use strict";
// The frame that shows the pages keeps nothing: the pages ask whether their advertisement has been closed.
Object.defineProperty(window, "sessionStorage", { value: { getItem: () => "false", setItem() {} } });
(() => {
  const cell = (value) => Object.assign(document.createElement("td"), { innerHTML: value === undefined ? "" : value });
  const fill = (table, columns, rows) => {
    const head = table.createTHead().insertRow();
    for (const column of columns) head.append(Object.assign(document.createElement("th"), { textContent: column.title }));
    const body = table.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      for (const column of columns) line.append(cell(row[column.field]));
      if (!row._table_row_link_path) continue;
      const link = Object.assign(document.createElement("a"), { href: row._table_row_link_path });
      link.append(...line.cells[0].childNodes);
      if (row._validation_success_text) link.append(" " + row._validation_success_text);
      line.cells[0].append(link);
    }
  };
  const shown = (found, display) => { for (const one of found) one.style.display = display; };
  const wrap = (found) => ({
    bootstrapTable(given) { if (given && given.columns) found.forEach((one) => fill(one, given.columns, given.data)); },
    each(act) { found.forEach((one, at) => act(at, one)); },
    fadeIn() { shown(found, ""); },
    fadeOut() { shown(found, "none"); },
    parent() { return wrap(found.map((one) => one.parentElement).filter(Boolean)); },
    ready(act) { document.addEventListener("DOMContentLoaded", act); },
    modal() {}, on() {}, popover() {}, removeClass() {}, tooltip() {},
  });
  window.$ = (what) => wrap(typeof what === "string" ? [...document.querySelectorAll(what)] : [what]);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-toggle=collapse]");
    if (!link) return;
    event.preventDefault();
    document.getElementById((link.getAttribute("href") || link.dataset.target).slice(1)).classList.toggle("show");
  });
})();
