"use strict";
(() => {
  const PAUSE = 2000; // milliseconds between two updates of the page
  const section = document.querySelector("[data-live-runs]");
  const states = section.querySelector(".states");
  const trouble = section.querySelector(".trouble");
  const table = document.getElementById("attempts");
  const runs = JSON.parse(section.dataset.liveRuns).map((run) => ({ ...run, source: null, state: null }));
  const element = (name, className, ...content) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.append(...content);
    return made;
  };
  const tell = (text) => {
    trouble.textContent = text;
    trouble.hidden = !text;
  };
  const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

  // --- the state of the runs -------------------------------------------------------------------------------------------
  const number = (value) => value.toLocaleString("en");
  const usd = (value) => value === null ? "unknown cost" : `$${value.toFixed(value >= 100 || value === 0 ? 2 : 4)}`;
  const count = (value, word, className) => element("span", className, element("b", "", number(value)), ` ${word}`);
  const shownState = ({ state }, index) => {
    const left = state.planned - state.passed - state.failed - state.errors;
    const line = element("p", "state", element("span", `status ${state.status}`, state.status));
    if (runs.length > 1) line.prepend(element("b", `letter ${"AB"[index]}`, "AB"[index]));
    line.append(
      count(state.passed, "passed", "passed"),
      count(state.failed, "failed", "failed"),
      count(state.errors, state.errors === 1 ? "error" : "errors", "missing"),
    );
    if (state.running) line.append(count(state.running, "running", ""));
    line.append(count(left - state.running, `of ${number(state.planned)} left`, ""), element("span", "", usd(state.cost_usd)));
    if (state.damaged) line.append(count(state.damaged, `damaged ${state.damaged === 1 ? "line" : "lines"} of events.jsonl skipped`, "failed"));
    const parts = ["passed", "failed", "errors"].map((name) => {
      const part = element("span", name);
      part.style.width = `${(100 * state[name]) / Math.max(1, state.planned)}%`;
      return part;
    });
    const progress = element("div", "progress", ...parts);
    progress.setAttribute("aria-hidden", "true");
    return element("div", "", line, progress, ...(state.attempts.length ? [shownAttempts(state)] : []));
  };
  const shownAttempts = (state) => {
    const row = (attempt) => {
      const seconds = Math.max(0, Math.round((Date.now() - Date.parse(attempt.at)) / 1000));
      const name = element("th", "", attempt.name);
      name.scope = "row";
      const facts = [
        attempt.phase,
        `${number(attempt.steps)} ${attempt.steps === 1 ? "step" : "steps"}`,
        attempt.tool && `last tool call: ${attempt.tool}`,
        attempt.calls ? `${number(attempt.calls)} model ${attempt.calls === 1 ? "call" : "calls"}` : "",
        attempt.cost_usd ? usd(attempt.cost_usd) : "",
        Number.isFinite(seconds) ? `${number(seconds)} s` : "",
      ];
      return element("tr", "", name, ...facts.map((fact) => element("td", "", fact)));
    };
    const body = element("tbody", "", ...state.attempts.map(row));
    return element("div", "scroll", element("table", "doing", body));
  };
  const was = new WeakMap(); // the text of each result before it was replaced by "running"
  const show = () => {
    states.replaceChildren(...runs.map((run, index) => (run.state ? shownState(run, index) : "")));
    const running = new Set();
    runs.forEach((run, index) => {
      for (const attempt of run.state?.attempts ?? []) running.add(`${runs.length > 1 ? "AB"[index] : ""} ${attempt.name}`);
    });
    for (const row of table.tBodies[0].rows) {
      const result = row.querySelector(".result");
      if (running.has(`${row.dataset.side} ${row.dataset.name}`) && row.dataset.result === "missing") {
        if (!was.has(result)) was.set(result, result.textContent);
        result.textContent = "● running";
      } else if (was.has(result)) {
        result.textContent = was.get(result);
        was.delete(result);
      }
    }
  };

  // --- the page: requested again when records have been added ------------------------------------------------------------
  const replace = (fresh) => {
    const place = scrollY;
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
      if (!other) continue;
      const value = part.value;
      const open = [...part.querySelectorAll("details")].map((details) => details.open);
      part.replaceChildren(...other.childNodes);
      if (part.tagName === "SELECT") part.value = [...part.options].some((option) => option.value === value) ? value : "";
      part.querySelectorAll("details").forEach((details, index) => (details.open = open[index] ?? details.open));
    }
    const focused = document.activeElement?.closest("#attempts tbody a")?.hash;
    table.tBodies[0].replaceChildren(...fresh.getElementById("attempts").tBodies[0].rows);
    table.dispatchEvent(new Event("replaced"));
    if (focused) table.querySelector(`a[href="${CSS.escape(focused).replace(/^\\#/, "#")}"]`)?.focus({ preventScroll: true });
    if (scrollY !== place) scrollTo(0, place);
    show();
  };
  let updating = false;
  const isCurrent = () => runs.every((run) => !run.state || run.state.version === run.version);
  const update = async () => {
    if (updating || isCurrent()) return;
    if (runs.length > 1) {
      tell("Attempts have ended since this page was loaded. Reload it to compare them.");
      return;
    }
    updating = true;
    try {
      while (!isCurrent()) {
        const started = performance.now();
        const response = await fetch(location.pathname + location.search);
        if (!response.ok) throw new Error(await response.text());
        const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
        const versions = JSON.parse(fresh.querySelector("[data-live-runs]").dataset.liveRuns);
        runs.forEach((run, index) => (run.version = versions[index].version));
        replace(fresh);
        await wait(Math.max(PAUSE, 3 * (performance.now() - started))); // so that a large run is not rendered continuously
      }
    } catch (error) {
      tell(`This page could not be updated: ${error.message}`);
    } finally {
      updating = false;
    }
  };

  // --- events ----------------------------------------------------------------------------------------------------------
  const connect = () => {
    for (const run of runs) {
      if (run.source) continue;
      run.source = new EventSource(run.events);
      run.source.onmessage = (event) => {
        run.state = JSON.parse(event.data);
        tell("");
        show();
        update();
      };
      run.source.onerror = () => tell("agentbench view is not responding. This page may be out of date.");
      run.source.addEventListener("gone", (event) => {
        run.source.close();
        tell(JSON.parse(event.data));
      });
    }
  };
  const disconnect = () => {
    for (const run of runs) {
      run.source?.close();
      run.source = null;
    }
  };
  // Browsers limit the connections to one server, and each stream uses one.
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  if (!document.hidden) connect();
})();
