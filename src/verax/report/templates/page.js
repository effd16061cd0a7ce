"use strict";
// Draws the charts of the page from the data in it, passes choices on to them, and sorts tables.

function read(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

// Columns (words with codes, or plain values) become rows.
function rows(columns) {
  const names = Object.keys(columns);
  const values = names.map((name) => {
    const column = columns[name];
    return Array.isArray(column) ? column : column.codes.map((code) => column.words[code]);
  });
  const count = names.length ? values[0].length : 0;
  return Array.from({ length: count }, (_, at) => Object.fromEntries(names.map((name, c) => [name, values[c][at]])));
}

async function draw(id, chart, tables, dark) {
  const place = document.getElementById("chart-" + id);
  chart.vega_lite.datasets = Object.fromEntries(chart.tables.map((name) => [name, tables[name]]));
  const options = {
    mode: "vega-lite",
    renderer: "svg",
    ast: true, // no eval, which the page's policy forbids
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: "verax-" + id,
    tooltip: { theme: dark ? "dark" : "light" },
  };
  try {
    return (await vegaEmbed(place, chart.vega_lite, options)).view;
  } catch (error) {
    place.textContent = "This chart could not be drawn: " + error.message;
    console.error(id, error);
    return null;
  }
}

// The charts know what is chosen at first.
function connect(select, views) {
  const first = views[select.dataset.charts.split(" ")[0]];
  if (first) select.value = first.signal(select.dataset.signal);
  select.addEventListener("change", () => {
    for (const id of select.dataset.charts.split(" ")) {
      if (views[id]) views[id].signal(select.dataset.signal, select.value).runAsync();
    }
  });
}

// A number where the text starts like one (with a real minus sign, thousands commas, units behind), or else the text.
function key(cell) {
  const text = cell.textContent.trim();
  const number = parseFloat(text.replace(/\u2212/g, "-").replace(/,/g, ""));
  const unit = { h: 3600, min: 60, ms: 1e-3, "\u00b5s": 1e-6 }[text.split(" ").pop()] || 1;
  return Number.isNaN(number) ? text : number * unit;
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const body = table.tBodies[0];
      const keyed = [...body.rows].map((row) => [key(row.cells[column]), row]);
      keyed.sort(([a], [b]) => (typeof a === typeof b ? (a > b) - (a < b) : typeof a === "number" ? -1 : 1));
      if (down) keyed.reverse();
      body.append(...keyed.map(([, row]) => row));
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
  });
}

async function main() {
  document.querySelectorAll("table.sortable").forEach(sortable);
  const tables = Object.fromEntries(Object.entries(read("data")).map(([name, columns]) => [name, rows(columns)]));
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const views = {};
  for (const [id, chart] of Object.entries(read("charts"))) views[id] = await draw(id, chart, tables, dark);
  document.querySelectorAll("select[data-signal]").forEach((select) => connect(select, views));
  document.documentElement.dataset.charts = "drawn";
}

main();
