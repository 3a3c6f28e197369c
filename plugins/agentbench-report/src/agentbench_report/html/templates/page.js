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
  const matrix = byId("matrix"); // the pairs; null if the report has only one run
  const rowsOf = (filtered) =>
    [...filtered.tBodies[0].rows].map((row) => ({
      row,
      text: row.textContent.toLowerCase(),
      labels: [...row.querySelectorAll("[data-label]")].map((tag) => tag.dataset.label),
    }));
  const wordsIn = (id) => byId(id).value.toLowerCase().split(/\s+/).filter(Boolean);
  const filterRows = (rows, fits, noun, status) => {
    let shown = 0;
    for (const each of rows) {
      each.row.hidden = !fits(each);
      shown += !each.row.hidden;
    }
    const all = `${rows.length.toLocaleString("en")} ${rows.length === 1 ? noun : `${noun}s`}`;
    byId(status).textContent = shown === rows.length ? all : `${shown.toLocaleString("en")} of ${all}`;
  };
  let rows = rowsOf(table);
  const asked = (id) => byId(id)?.value ?? "";
  const filter = () => {
    const words = wordsIn("filter");
    const [result, reason, label, side] = ["result", "reason", "label", "side"].map(asked);
    const fits = ({ row, text, labels }) =>
      (!result || row.dataset.result === result) &&
      (!reason || row.dataset.reason === reason) &&
      (!label || labels.includes(label)) &&
      (!side || row.dataset.side === side) &&
      words.every((word) => text.includes(word));
    filterRows(rows, fits, "attempt", "shown");
  };
  const form = byId("filters");
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  filter(); // the browser may have restored the fields

  if (matrix) {
    const kinds = byId("kinds");
    const pairs = rowsOf(matrix);
    const filterPairs = () => {
      const words = wordsIn("pair-filter");
      const kind = kinds.querySelector('[aria-pressed="true"]').dataset.kind;
      const fits = ({ row, text }) => (!kind || row.dataset.kind === kind) && words.every((word) => text.includes(word));
      filterRows(pairs, fits, "task", "pairs-shown");
    };
    kinds.addEventListener("input", filterPairs);
    kinds.addEventListener("submit", (event) => event.preventDefault());
    kinds.addEventListener("click", (event) => {
      const chosen = event.target.closest("[data-kind]");
      if (!chosen) return;
      for (const button of kinds.querySelectorAll("[data-kind]")) button.setAttribute("aria-pressed", button === chosen);
      filterPairs();
    });
    filterPairs();
  }

  // --- sorting -----------------------------------------------------------------------------------------------------
  const collator = new Intl.Collator("en", { numeric: true });
  const sort = (sorted, column, down) => {
    const head = sorted.tHead.rows[0].cells[column];
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
      if (head) sort(sorted, head.cellIndex, head.getAttribute("aria-sort") === "ascending");
    });
  }
  // While a run is being written, the server's script replaces the rows.
  table.addEventListener("replaced", () => {
    const head = table.tHead.querySelector("[aria-sort]");
    sort(table, head.cellIndex, head.getAttribute("aria-sort") === "descending");
    rows = rowsOf(table);
    filter();
  });

  // --- the page of an attempt, or of two attempts side by side -------------------------------------------------------
  const server = document.documentElement.dataset.attempts;
  const fetched = async (number) => {
    const response = await fetch(server + number);
    if (response.ok || response.status === 404) return response.ok ? response.text() : null;
    throw new Error(await response.text());
  };
  // The HTML of an attempt, decompressed from the report or requested from the server; null if there is none.
  const attemptPage = async (number) => {
    if (server) return fetched(number);
    const stored = byId(`evidence-${number}`);
    if (!stored) return null;
    const bytes = Uint8Array.from(atob(stored.textContent), (char) => char.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  // The HTML is already escaped, and the content security policy allows no other script.
  const parsed = (html) => Object.assign(document.createElement("template"), { innerHTML: html }).content;
  const element = (name, attributes, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const way = (name) => {
    const steps = element("span", { class: "steps" });
    for (const word of ["previous", "next"]) {
      steps.append(element("a", { class: word, hidden: "" }, word[0].toUpperCase() + word.slice(1)), " ");
    }
    return element("nav", { class: "way", "aria-label": name }, element("a", { class: "back", href: "#" }, "← All attempts"), steps);
  };
  const message = (text) => element("p", { class: "notes plain" }, text);

  const PARTS = ["result", "asked", "patch", "tests", "turns", "output", "timeline", "agents", "environment"];
  const ONCE = ["asked", "environment"]; // parts that are shown only once if they are identical
  const TITLES = { asked: "Prompt", patch: "Final patch", tests: "Tests", turns: "Turns", output: "Test output", timeline: "Timeline", agents: "Delegation tree", environment: "Environment" };
  const side = (letter, ...children) => {
    const made = element("div", { class: `side ${letter}`, "data-letter": letter }, ...children);
    for (const named of made.querySelectorAll("[aria-label]")) named.ariaLabel = `${letter}: ${named.ariaLabel}`;
    return made;
  };
  // Show the same parts, and turns with the same position, side by side.
  const beside = (pages, numbers) => {
    const letters = ["A", "B"];
    const heads = pages.map((html, at) => {
      const letter = letters[at];
      const variant = report.querySelector(`.card.${letter} .of b:last-of-type`)?.textContent ?? "";
      const name = element("a", { href: `#attempt=${numbers[at]}` }, element("b", { class: `letter ${letter}` }, letter), ` ${variant}`);
      return side(letter, name, " ", ...html.querySelector(".verdict").cloneNode(true).childNodes);
    });
    const made = [element("div", { class: "beside names" }, ...heads)];
    for (const name of PARTS) {
      const parts = pages.map((html) => html.querySelector(`[data-part="${name}"]`));
      if (!parts.some(Boolean)) continue;
      const turns = parts.map((part) => [...(part?.querySelectorAll(".turn") ?? [])]);
      for (const each of turns.flat()) each.remove();
      if (ONCE.includes(name) && parts[0]?.textContent === parts[1]?.textContent) {
        made.push(element("div", { "data-part": name }, parts[0]));
        continue;
      }
      const cells = parts.map((part, at) => {
        const nothing = element("p", { class: "quiet" }, "Not recorded.");
        return side(letters[at], part ?? element("section", {}, element("h2", {}, TITLES[name] ?? name), nothing));
      });
      const section = element("div", { class: "beside", "data-part": name }, ...cells);
      made.push(section);
      for (let at = 0; at < Math.max(...turns.map((each) => each.length)); at += 1) {
        made.push(element("div", { class: "beside" }, ...turns.map((each, run) => side(letters[run], ...(each[at] ? [each[at]] : [])))));
      }
    }
    return made;
  };
  // Links to all attempts of both runs at the task of a pair.
  const repeats = (row, numbers) => {
    const line = element("p", { class: "repeats" });
    for (const [at, letter] of ["A", "B"].entries()) {
      const links = [...row.cells[1 + at].querySelectorAll("a")];
      if (links.length < 2) continue;
      line.append(element("b", { class: `letter ${letter}` }, letter), " ");
      for (const [place, link] of links.entries()) {
        const number = link.hash.slice("#attempt=".length);
        const both = at ? [numbers[0], number] : [number, numbers[1]];
        const made = element("a", { href: `#pair=${both}`, class: "cell" }, ...[...link.cloneNode(true).childNodes]);
        if (number === numbers[at]) made.setAttribute("aria-current", "true");
        line.append(made, " ");
      }
    }
    return line.childNodes.length ? [line] : [];
  };
  const rowOfPair = (numbers) =>
    [...(matrix?.tBodies[0].rows ?? [])].find((row) =>
      numbers.every((number, at) => row.cells[1 + at].querySelector(`a[href="#attempt=${number}"]`)),
    );
  const pairView = (pages, numbers) => {
    const row = rowOfPair(numbers);
    const names = pages.map((html) => html.querySelector("h1").textContent.replace(/^\s*[AB]\s/, "").trim());
    const name = row?.cells[0].textContent.trim() ?? [...new Set(names)].join(" and ");
    const change = row ? [element("p", { class: "verdict" }, row.cells[3].textContent.trim().replace(/^same$/, row.dataset.kind))] : [];
    const buttons = element("span", { class: "all" });
    for (const [word, text] of [["open-all", "Expand all"], ["close-all", "Collapse all"]]) {
      buttons.append(element("button", { type: "button", class: word }, text), " ");
    }
    return [
      way("Pairs"),
      element("h1", { tabindex: "-1" }, name),
      ...change,
      ...(row ? repeats(row, numbers) : []),
      element("div", { class: "contents" }, element("nav", { class: "go", "aria-label": "Sections" }), buttons),
      ...beside(pages, numbers),
    ];
  };

  // --- opening and closing -------------------------------------------------------------------------------------------
  let clicked = null; // the link in the report that opened the page, if any
  let opened = null; // the link that receives the focus when the page is closed
  let place = 0;
  const shownLinks = (pair) => [...(pair ? matrix : table)?.querySelectorAll("tbody tr:not([hidden]) th a") ?? []];
  const neighbours = (numbers) => {
    const links = shownLinks(numbers.length > 1);
    const row = numbers.length > 1 ? rowOfPair(numbers) : null;
    const here = links.findIndex((link) => (row ? row.contains(link) : link.hash === `#attempt=${numbers[0]}`));
    for (const [name, link] of [["previous", links[here - 1]], ["next", links[here + 1]]]) {
      const found = page.querySelector(`.way .${name}`);
      if (found && here >= 0 && link) {
        found.href = link.hash;
        found.hidden = false;
      }
    }
  };
  // Buttons instead of links to the sections, because links would change the URL.
  const contents = () => {
    const seen = new Set();
    for (const heading of page.querySelectorAll("[data-part] h2")) {
      const name = heading.firstChild.textContent.trim();
      if (seen.has(name)) continue;
      seen.add(name);
      heading.tabIndex = -1;
      const button = element("button", { type: "button" }, name);
      button.addEventListener("click", () => {
        heading.scrollIntoView();
        requestAnimationFrame(() => heading.scrollIntoView()); // turns in between may not have been measured before
        heading.focus({ preventScroll: true });
      });
      page.querySelector(".go")?.append(button);
    }
    for (const text of page.querySelectorAll(".end pre")) text.scrollTop = text.scrollHeight;
  };
  const skip = document.querySelector(".skip");
  const landing = () => (page.hidden ? byId("attempts-title") : page.querySelector("h1") ?? page.querySelector(".back"));
  const open = async (numbers) => {
    if (page.hidden) place = scrollY;
    const { hash } = location;
    report.hidden = true;
    page.hidden = false;
    page.replaceChildren();
    page.setAttribute("aria-busy", "true");
    let pages = [];
    let problem = numbers.length > 1 ? "This report does not contain both attempts." : "This report does not contain that attempt.";
    try {
      pages = await Promise.all(numbers.map(attemptPage));
    } catch (error) {
      problem = `This attempt cannot be shown: ${error}`;
    }
    if (location.hash !== hash) return; // another page was opened in the meantime
    const missing = pages.length < numbers.length || pages.includes(null);
    if (missing) page.replaceChildren(way("Attempts"), message(problem));
    else if (numbers.length > 1) page.replaceChildren(...pairView(pages.map(parsed), numbers));
    else page.replaceChildren(parsed(pages[0]));
    page.classList.toggle("wide", numbers.length > 1);
    page.removeAttribute("aria-busy");
    neighbours(numbers);
    contents();
    const heading = page.querySelector("h1");
    document.title = heading ? `${heading.textContent} · ${title}` : title;
    scrollTo(0, 0);
    skip.textContent = numbers.length > 1 ? "Skip to the pair" : "Skip to the attempt";
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
    const found = /^#(?:attempt=(\d{1,9})|pair=(\d{1,9}),(\d{1,9}))$/.exec(location.hash);
    if (!found) {
      if (!location.hash || report.contains(byId(location.hash.slice(1)))) close(); // ignore unknown fragments
      return;
    }
    const numbers = found.slice(1).filter(Boolean);
    const row = numbers.length > 1 ? rowOfPair(numbers)?.cells[0].querySelector("a") : null;
    opened = clicked?.hash === location.hash ? clicked : row ?? table.querySelector(`a[href="${location.hash}"]`);
    open(numbers);
  };
  const expand = (button, whole) => {
    button.setAttribute("aria-expanded", whole);
    button.parentElement.classList.toggle("whole", whole);
    button.dataset.all ??= button.textContent;
    button.textContent = whole ? "Show less" : button.dataset.all;
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (link && report.contains(link)) clicked = link;
    if (link === skip) {
      event.preventDefault(); // keep the URL
      landing()?.focus();
    }
    const more = event.target.closest(".more");
    if (more) expand(more, more.ariaExpanded !== "true");
    const button = event.target.closest(".open-all, .close-all");
    if (!button) return;
    const whole = button.classList.contains("open-all");
    for (const part of page.querySelectorAll("details")) part.open = whole;
    for (const each of page.querySelectorAll(".more")) expand(each, whole);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || page.hidden) return;
    event.preventDefault();
    location.hash = "";
  });
  addEventListener("hashchange", route);
  if (location.hash) route();
})();
