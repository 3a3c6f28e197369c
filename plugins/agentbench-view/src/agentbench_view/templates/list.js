"use strict";
(() => {
  const PERIOD = 4000; // milliseconds
  const byId = (id) => document.getElementById(id);
  const table = document.querySelector("table.runs");
  const body = table.tBodies[0];
  const form = document.querySelector(".filters");
  const trouble = document.querySelector(".trouble");
  const chosen = []; // names of the runs to compare, in the order of selection

  // --- filters and totals --------------------------------------------------------------------------------------------
  const duration = (seconds) =>
    seconds < 120 ? `${seconds.toFixed(1)} s` : `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  const filter = () => {
    const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = Object.fromEntries(["suite", "variant", "model", "status", "tag"].map((id) => [id, byId(id).value]));
    const sums = { passed: 0, scored: 0, errors: 0, recorded: 0, planned: 0, cost: 0, time: 0 };
    let shown = 0;
    for (const row of body.rows) {
      const tags = Object.entries(JSON.parse(row.dataset.tags)).map(([key, value]) => `${key}=${value}`);
      const text = `${row.textContent} ${row.dataset.name}`.toLowerCase();
      const fits =
        ["suite", "variant", "model", "status"].every((id) => !wanted[id] || row.dataset[id] === wanted[id]) &&
        (!wanted.tag || tags.includes(wanted.tag)) &&
        words.every((word) => text.includes(word));
      row.hidden = !fits;
      shown += fits;
      if (fits) for (const name of Object.keys(sums)) sums[name] += Number(row.dataset[name]);
    }
    const number = (value) => value.toLocaleString("en");
    const texts = {
      passed: `${number(sums.passed)} of ${number(sums.scored)}`,
      errors: number(sums.errors),
      recorded: `${number(sums.recorded)} of ${number(sums.planned)}`,
      cost: `$${sums.cost.toFixed(sums.cost >= 100 || sums.cost === 0 ? 2 : 4)}`,
      time: duration(sums.time),
    };
    for (const cell of table.querySelectorAll("[data-sum]")) cell.textContent = texts[cell.dataset.sum];
    const all = `${number(body.rows.length)} ${body.rows.length === 1 ? "run" : "runs"}`;
    byId("shown").textContent = shown === body.rows.length ? all : `${number(shown)} of ${all}`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  filter();

  // --- comparing -----------------------------------------------------------------------------------------------------
  const link = byId("compare");
  const mark = () => {
    for (const row of body.rows) row.querySelector("input").checked = chosen.includes(row.dataset.name);
    const ready = chosen.length === 2;
    link.hidden = !ready;
    byId("how").hidden = ready;
    if (ready) link.href = `/compare?${new URLSearchParams({ a: chosen[0], b: chosen[1] })}`;
  };
  body.addEventListener("change", (event) => {
    const name = event.target.closest("tr").dataset.name;
    if (event.target.checked) chosen.push(name);
    else chosen.splice(chosen.indexOf(name), 1);
    while (chosen.length > 2) chosen.shift();
    mark();
  });
  mark();

  // --- keeping the list current ----------------------------------------------------------------------------------------
  let before = null;
  const refresh = async () => {
    if (document.hidden) return;
    const response = await fetch("/");
    if (!response.ok) throw new Error(await response.text());
    const html = await response.text();
    if (html === before) return;
    before = html;
    const fresh = new DOMParser().parseFromString(html, "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
      const value = part.value;
      part.replaceChildren(...other.childNodes);
      if (part.tagName === "SELECT") part.value = [...part.options].some((option) => option.value === value) ? value : "";
    }
    const focused = document.activeElement?.closest("table.runs tbody tr")?.dataset.name;
    const element = document.activeElement?.tagName;
    body.replaceChildren(...fresh.querySelector("table.runs").tBodies[0].rows);
    const row = focused && [...body.rows].find((each) => each.dataset.name === focused);
    row?.querySelector(element === "INPUT" ? "input" : "a").focus({ preventScroll: true });
    filter();
    mark();
  };
  const keep = async () => {
    try {
      await refresh();
      trouble.hidden = true;
    } catch {
      trouble.textContent = "agentbench view is not responding. This list may be out of date.";
      trouble.hidden = false;
    }
    setTimeout(keep, PERIOD);
  };
  setTimeout(keep, PERIOD);
})();
