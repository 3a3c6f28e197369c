"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const report = byId("report");
  const page = byId("attempt");
  const title = document.title;
  byId("without-script").hidden = true;

  // --- theme: the system's preference, unless the user chooses one --------------------------------------------------
  const themes = byId("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const paint = () => {
    const now = chosen ?? (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = now;
    themes.textContent = now === "dark" ? "Light theme" : "Dark theme";
    themes.hidden = false;
  };
  themes.addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    paint();
  });
  dark.addEventListener("change", paint);
  paint();

  // --- filters -----------------------------------------------------------------------------------------------------
  const table = byId("attempts");
  const rows = [...table.tBodies[0].rows].map((row) => ({
    row,
    text: row.textContent.toLowerCase(),
    labels: [...row.querySelectorAll("[data-label]")].map((tag) => tag.dataset.label),
  }));
  const form = document.querySelector(".filters");
  const asked = (id) => byId(id)?.value ?? "";
  const filter = () => {
    const words = asked("filter").toLowerCase().split(/\s+/).filter(Boolean);
    const [result, reason, label, side] = ["result", "reason", "label", "side"].map(asked);
    let shown = 0;
    for (const { row, text, labels } of rows) {
      const fits =
        (!result || row.dataset.result === result) &&
        (!reason || row.dataset.reason === reason) &&
        (!label || labels.includes(label)) &&
        (!side || row.dataset.side === side) &&
        words.every((word) => text.includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    const all = `${rows.length.toLocaleString("en")} ${rows.length === 1 ? "attempt" : "attempts"}`;
    byId("shown").textContent = shown === rows.length ? all : `${shown.toLocaleString("en")} of ${all}`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  filter(); // the browser may have restored the fields

  // --- sorting -----------------------------------------------------------------------------------------------------
  const collator = new Intl.Collator("en", { numeric: true });
  const sort = (sorted, column) => {
    const head = sorted.tHead.rows[0].cells[column];
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const cell of sorted.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const numeric = head.classList.contains("n");
    const keyed = [...sorted.tBodies[0].rows].map((row) => {
      const cell = row.cells[column];
      const value = numeric ? cell.dataset.v : cell.textContent.trim();
      return { row, value: numeric && value !== undefined ? Number(value) : value };
    });
    const nothing = (value) => value === undefined || value === "";
    keyed.sort((a, b) => {
      if (nothing(a.value) || nothing(b.value)) return nothing(a.value) - nothing(b.value); // last in both directions
      const order = numeric ? a.value - b.value : collator.compare(a.value, b.value);
      return down ? -order : order;
    });
    sorted.tBodies[0].append(...keyed.map(({ row }) => row));
  };
  for (const sorted of document.querySelectorAll("table.sortable")) {
    sorted.tHead.addEventListener("click", (event) => {
      const head = event.target.closest("th");
      if (head) sort(sorted, head.cellIndex);
    });
  }

  // --- attempts: stored compressed, and unpacked when opened ---------------------------------------------------------
  const unpack = async (id) => {
    const bytes = Uint8Array.from(atob(byId(id).textContent), (char) => char.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  const message = (text) => {
    const line = document.createElement("p");
    line.className = "notes plain";
    line.textContent = text;
    return line;
  };
  let clicked = null; // the link in the report that opened the attempt, if any
  let opened = null; // the link that receives the focus when the attempt is closed
  let place = 0;
  const neighbours = (number) => {
    const links = rows.length ? [...table.querySelectorAll("tbody tr:not([hidden]) th a")] : [];
    const here = links.findIndex((link) => link.hash === `#attempt=${number}`);
    for (const [name, link] of [["previous", links[here - 1]], ["next", links[here + 1]]]) {
      const way = page.querySelector(`.${name}`);
      if (way && here >= 0 && link) {
        way.href = link.hash;
        way.hidden = false;
      }
    }
  };
  const skip = document.querySelector(".skip");
  const landing = () => (page.hidden ? byId("attempts-title") : page.querySelector("h1") ?? page.querySelector(".back"));
  const open = async (number) => {
    if (page.hidden) place = scrollY;
    const id = `evidence-${number}`;
    report.hidden = true;
    page.hidden = false;
    page.replaceChildren();
    page.setAttribute("aria-busy", "true");
    const back = Object.assign(document.createElement("a"), { href: "#", className: "back", textContent: "← All attempts" });
    let html = null;
    let problem = "This report does not contain that attempt.";
    if (byId(id)) {
      try {
        html = await unpack(id);
      } catch (error) {
        problem = `This attempt cannot be shown: ${error}`;
      }
    }
    if (location.hash !== `#attempt=${number}`) return; // another page was opened in the meantime
    if (html === null) page.replaceChildren(back, message(problem));
    else page.innerHTML = html; // already escaped, and the content security policy allows no other script
    page.removeAttribute("aria-busy");
    neighbours(number);
    const heading = page.querySelector("h1");
    document.title = heading ? `${heading.textContent} · ${title}` : title;
    scrollTo(0, 0);
    skip.textContent = "Skip to the attempt";
    landing().focus({ preventScroll: true });
  };
  const close = () => {
    if (page.hidden) return;
    page.hidden = true;
    page.replaceChildren();
    report.hidden = false;
    document.title = title;
    skip.textContent = "Skip to the attempts";
    scrollTo(0, place);
    const link = opened?.checkVisibility() ? opened : report.querySelector("h1"); // it may be filtered out
    link.focus({ preventScroll: link === clicked });
    clicked = null;
  };
  const route = () => {
    const found = /^#attempt=(\d{1,9})$/.exec(location.hash);
    if (!found) {
      if (!location.hash || report.contains(byId(location.hash.slice(1)))) close(); // ignore unknown fragments
      return;
    }
    opened = clicked?.hash === location.hash ? clicked : table.querySelector(`a[href="${location.hash}"]`);
    open(found[1]);
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (link && report.contains(link)) clicked = link;
    if (link === skip) {
      event.preventDefault(); // keep the address
      landing()?.focus();
    }
    const button = event.target.closest(".open-all, .close-all");
    if (button) for (const part of page.querySelectorAll("details")) part.open = button.className === "open-all";
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || page.hidden) return;
    event.preventDefault();
    location.hash = "";
  });
  addEventListener("hashchange", route);
  if (location.hash) route();
})();
