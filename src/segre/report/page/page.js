// What a reader does with a report: sort, copy, save, choose the colours, print.
(() => {
  "use strict";
  const root = document.documentElement;
  const THEMES = ["auto", "light", "dark"];
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // ---- colours ----------------------------------------------------------------------------
  // Storage throws where cookies are refused; the choice is then forgotten, and nothing else.
  function remembered() {
    try {
      return localStorage.getItem("segre-theme");
    } catch {
      return null;
    }
  }

  function remember(theme) {
    try {
      localStorage.setItem("segre-theme", theme);
    } catch {
      // see above
    }
  }

  function wear(theme) {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    for (const button of all("[data-theme-button]")) button.textContent = `Theme: ${theme}`;
    document.dispatchEvent(new Event("segre:colours"));
  }

  const chosen = () => root.dataset.theme || "auto";

  function nextTheme() {
    const theme = THEMES[(THEMES.indexOf(chosen()) + 1) % THEMES.length];
    remember(theme);
    wear(theme);
  }

  // Before anything is painted, so that a dark page does not flash.
  root.classList.add("scripted");
  const before = remembered();
  if (before === "light" || before === "dark") root.dataset.theme = before;

  // ---- telling, copying, saving -----------------------------------------------------------
  function tell(words) {
    const status = document.getElementById("page-status");
    status.textContent = "";
    setTimeout(() => (status.textContent = words), 30); // the same words twice are heard twice
  }

  function flash(button, words) {
    button.dataset.words ??= button.textContent;
    button.textContent = words;
    clearTimeout(Number(button.dataset.timer));
    button.dataset.timer = setTimeout(() => (button.textContent = button.dataset.words), 1600);
  }

  function copiedByHand(text) {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }

  async function copy(text, button) {
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      done = copiedByHand(text);
      button.focus();
    }
    flash(button, done ? "Copied" : "Not copied");
    tell(done ? "copied" : "the browser does not allow copying");
  }

  function save(name, text, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    tell(`saved ${name}`);
  }

  function saveDocument(button) {
    const text = button.parentElement.querySelector("script").textContent;
    if (button.dataset.save === "text") save(button.dataset.name, JSON.parse(text), "text/plain");
    else save(button.dataset.name, text, "application/json");
  }

  function saveEverything() {
    const kept = document.getElementById("page-document");
    save(kept.dataset.name, kept.textContent, "application/json"); // as it is: integers stay exact
  }

  // ---- tables -----------------------------------------------------------------------------
  const raw = (cell) => cell.dataset.value ?? cell.textContent;

  // A spreadsheet would compute a name that starts like a formula; an apostrophe makes it a name.
  function harmless(cell) {
    const text = raw(cell);
    const formula = /^(?:[=+@]|-[^-])/.test(text) && Number.isNaN(Number(text));
    return cell.dataset.value === undefined && formula ? `'${text}` : text;
  }

  function grid(table) {
    const rows = [table.tHead.rows[0], ...table.tBodies[0].rows];
    return rows.map((row) => [...row.cells].map(harmless));
  }

  const tsv = (table) =>
    grid(table)
      .map((row) => row.map((text) => text.replace(/[\t\r\n]+/g, " ")).join("\t"))
      .join("\n");

  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

  const csv = (table) =>
    grid(table)
      .map((row) => row.map(quoted).join(",") + "\n")
      .join("");

  // A number, an exact one where a float would round it; null is what goes last.
  function numberKey(cell) {
    const text = raw(cell);
    if (/^-?\d{16,}$/.test(text)) return BigInt(text);
    return text === "" || Number.isNaN(Number(text)) ? null : Number(text);
  }

  function textKey(cell) {
    return cell.dataset.value === "" ? null : raw(cell);
  }

  function compared(a, b, numeric) {
    if (numeric) return a < b ? -1 : a > b ? 1 : 0;
    return a.localeCompare(b, undefined, { numeric: true, sensitivity: "base" });
  }

  function sortedRows(rows, column, numeric, sign) {
    const key = numeric ? numberKey : textKey;
    const keyed = rows.map((row) => [key(row.cells[column]), row]);
    const present = keyed.filter(([value]) => value !== null);
    const absent = keyed.filter(([value]) => value === null);
    present.sort(([a], [b]) => sign * compared(a, b, numeric)); // stable by the language
    return [...present, ...absent].map(([, row]) => row);
  }

  const AFTER = { none: "ascending", ascending: "descending", descending: "none" };
  const firstOrder = new WeakMap();

  function sort(button) {
    const head = button.closest("th");
    const table = head.closest("table");
    const body = table.tBodies[0];
    if (!firstOrder.has(table)) firstOrder.set(table, [...body.rows]);
    const order = AFTER[head.getAttribute("aria-sort") ?? "none"];
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    let rows = firstOrder.get(table);
    if (order !== "none") {
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      rows = sortedRows(rows, head.cellIndex, button.dataset.sort === "number", sign);
    }
    body.append(...rows);
    const name = button.textContent.trim();
    tell(order === "none" ? "in the original order" : `sorted by ${name}, ${order}`);
  }

  // Only what scrolls needs to be reached by the Tab key.
  function watchScrolling() {
    const watcher = new ResizeObserver((entries) => {
      for (const { target: box } of entries) {
        const scrolls = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
        if (scrolls) box.tabIndex = 0;
        else box.removeAttribute("tabindex");
        const hint = box.nextElementSibling;
        if (hint?.matches(".hint")) hint.hidden = box.scrollWidth <= box.clientWidth;
      }
    });
    for (const box of all(".scroll, .command pre")) watcher.observe(box);
  }

  // ---- where the reader is ----------------------------------------------------------------
  function watchReading() {
    const links = new Map(all(".side a").map((link) => [link.getAttribute("href").slice(1), link]));
    const near = new Set(); // short sections may be two at a time; the first is the one that is read
    const watcher = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          if (isIntersecting) near.add(target.id);
          else near.delete(target.id);
        }
        const read = [...links.keys()].find((id) => near.has(id));
        for (const [id, link] of links) {
          if (id === read) link.setAttribute("aria-current", "true");
          else link.removeAttribute("aria-current");
        }
      },
      { rootMargin: "-20% 0px -75% 0px" },
    );
    for (const section of all("main > section")) watcher.observe(section);
  }

  // ---- words of the field -----------------------------------------------------------------
  // Links to the glossary at the end; with scripts, what a word means is shown beside it.
  function watchWords() {
    const tip = document.getElementById("page-tip");
    let about = null; // the word that is explained
    const hide = () => (tip.hidden = true);
    const show = (link) => {
      about = link;
      const entry = document.getElementById(link.getAttribute("href").slice(1));
      tip.textContent = entry.querySelector("dd").textContent;
      tip.hidden = false;
      const box = link.getClientRects()[0];
      const left = Math.min(box.left, root.clientWidth - tip.offsetWidth - 8);
      const above = box.top - tip.offsetHeight - 6;
      tip.style.left = `${Math.max(8, left)}px`;
      tip.style.top = `${above > 8 ? above : box.bottom + 6}px`;
    };
    for (const link of all("a.term")) {
      link.addEventListener("pointerenter", () => show(link));
      link.addEventListener("pointerleave", hide);
      link.addEventListener("focus", () => show(link));
      link.addEventListener("blur", hide);
      link.addEventListener("click", (event) => {
        event.preventDefault(); // it is read here, where the reader is
        show(link);
      });
    }
    addEventListener("keydown", (event) => event.key === "Escape" && hide());
    const follow = () => {
      if (!tip.hidden && about.matches(":hover, :focus")) show(about); // a focus itself scrolls
      else hide();
    };
    addEventListener("scroll", follow, { passive: true });
  }

  // ---- paper ------------------------------------------------------------------------------
  function watchPrinting() {
    let closed = [];
    addEventListener("beforeprint", () => {
      closed = all("details:not([open])");
      for (const details of closed) details.open = true;
    });
    addEventListener("afterprint", () => {
      for (const details of closed) details.open = false;
    });
  }

  const ACTIONS = {
    "[data-sort]": sort,
    "[data-tsv]": (button) => copy(tsv(document.getElementById(button.dataset.tsv)), button),
    "[data-csv]": (button) =>
      save(button.dataset.name, csv(document.getElementById(button.dataset.csv)), "text/csv"),
    "[data-copy]": (button) =>
      copy(button.parentElement.querySelector("code").textContent, button),
    "[data-save]": saveDocument,
    "[data-everything]": saveEverything,
    "[data-theme-button]": nextTheme,
  };

  function listen() {
    document.addEventListener("click", (event) => {
      for (const [selector, act] of Object.entries(ACTIONS)) {
        const button = event.target.closest(selector);
        if (button) act(button);
      }
      const link = event.target.closest(".fold a");
      if (link) link.closest("details").open = false;
    });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", () => wear(chosen()));
  }

  document.addEventListener("DOMContentLoaded", () => {
    wear(chosen());
    listen();
    watchScrolling();
    watchReading();
    watchWords();
    watchPrinting();
    if (!document.querySelector(".plot")) root.dataset.drawn = "0";
  });
})();
