// The loop of the page: controls change a design, segre or its formulas answer, the answer is shown.
let design = null, against = "", chosenFamily = null, base = null;
const PINNED = "pinned design";
const controlsOf = () => FAMILIES[design.family].controls;
const isSpec = (name) => name.includes("/");
const besideSpec = () => (isSpec(against) ? against : DATA.presets[against]);

// ---- controls -------------------------------------------------------------------------------------
let fields = {};
function build() {
  const names = Object.keys(DATA.presets);
  for (const [name, family] of Object.entries(FAMILIES)) el("family").append(new Option(family.label, name));
  el("start").append(new Option("own design", ""), ...names.map((name) => new Option(name, name)));
  el("against").append(new Option("nothing", ""), ...names.map((name) => new Option(name, name)));
  el("start").addEventListener("change", () => {
    if (el("start").value) begin(DATA.presets[el("start").value]);
  });
  el("family").addEventListener("change", () => {
    begin(el("family").value === STACK ? DATA.first_stack : DATA.first_model);
  });
  el("undo").addEventListener("click", () => begin(base));
  el("against").addEventListener("change", () => ((against = el("against").value), refresh()));
  el("pin").addEventListener("click", () => {
    against = written(design);
    refresh();
    el("status").textContent = "pinned; change the design to compare with it";
  });
  el("controls").closest("form").addEventListener("submit", (event) => event.preventDefault());
}

function begin(spec) {
  base = spec;
  design = parsed(spec);
  refresh();
}

const wide = window.matchMedia("(min-width: 1000px)");
function buildControls() {
  const parts = {};
  fields = {};
  el("controls").replaceChildren();
  for (const control of controlsOf()) {
    if (!parts[control.part]) {
      // on a phone only the first part is open
      const part = make("details"), set = make("fieldset");
      part.open = wide.matches || !Object.keys(parts).length;
      part.append(make("summary", control.part), set);
      set.setAttribute("aria-label", control.part);
      parts[control.part] = set;
      el("controls").append(part);
    }
    parts[control.part].append(row(control));
  }
  chosenFamily = design.family;
}

function set(key, value) {
  change(design, key, value);
  refresh();
}

function row(control) {
  const { key, kind } = control, line = make("div", undefined, `row ${kind}`);
  const label = make("label", control.label);
  label.htmlFor = `c-${key}`;
  if (control.hint) label.append(make("span", control.hint, "hint"));
  const was = make("span", "", "was");
  label.append(was);
  line.append(label);
  if (kind === "size") {
    const slider = make("input"), field = make("input");
    slider.type = "range", slider.min = 0, slider.max = control.values.length - 1, slider.step = 1;
    slider.id = `s-${key}`;
    slider.setAttribute("aria-label", `${control.label}, slider`);
    slider.addEventListener("input", () => set(key, String(steps(control)[slider.value])));
    field.type = "number", field.id = `c-${key}`, field.min = control.values[0] === 0 ? 0 : 1, field.step = 1, field.inputMode = "numeric";
    if (control.values[0] === NONE) field.placeholder = NONE;
    field.addEventListener("change", () => {
      const whole = Math.floor(Number(field.value));
      if (field.value === "" && control.values[0] === NONE) set(key, NONE);
      else if (field.value !== "" && whole >= Number(field.min) && whole < 1e9) set(key, String(whole));
      else show();
    });
    line.append(slider, field);
    fields[key] = { line, was, slider, field };
  } else if (kind === "choice") {
    const select = make("select");
    select.id = `c-${key}`;
    control.values.forEach((value, n) => select.append(new Option(control.names[n] ?? value, value)));
    select.addEventListener("change", () => set(key, select.value));
    line.append(select);
    fields[key] = { line, was, select };
  } else {
    const box = make("input");
    box.type = "checkbox", box.id = `c-${key}`;
    box.addEventListener("change", () => set(key, String(box.checked)));
    line.append(box);
    fields[key] = { line, was, box };
  }
  return line;
}

function steps(control) {
  const heads = number(design, "heads");
  if (control.key !== "kv") return control.values;
  return control.values.filter((n) => heads % n === 0).concat(control.values.includes(heads) ? [] : [heads]);
}

// A value in the words of its control.
function inWords(control, value) {
  if (control.kind === "flag") return value === "true" ? "on" : "off";
  const place = control.values.map(String).indexOf(value);
  return control.kind === "choice" && place >= 0 ? control.names[place] ?? value : value;
}

// The controls that differ from the preset that the design began with.
function changed() {
  const from = parsed(base);
  if (from.family !== design.family) return [];
  return controlsOf().filter((control) => means(design, control) || means(from, control)).flatMap((control) => {
    const [was, is] = [from, design].map((one) => (means(one, control) ? inWords(control, filled(one, control.key)) : "unused"));
    return was === is ? [] : [{ control, was, is }];
  });
}

function showChanges(changes) {
  const gone = Object.keys(parsed(base).extras).filter((key) => !(key in design.extras));
  const name = presetOf(base) ?? "the first design", said = changes.map(({ control, was, is }) => `${control.label} ${was} → ${is}`);
  if (gone.length) said.push(`without ${gone.join(", ")}`);
  el("changes").hidden = !said.length;
  el("changes-said").textContent = `Changed from ${name}: ${said.slice(0, 4).join("; ")}${said.length > 4 ? `; and ${said.length - 4} more` : ""}.`;
}

function show() {
  if (chosenFamily !== design.family) buildControls();
  const changes = changed();
  showChanges(changes);
  for (const control of controlsOf()) {
    const { line, was, slider, field, select, box } = fields[control.key], on = means(design, control);
    const value = filled(design, control.key), before = changes.find((one) => one.control === control);
    was.textContent = before ? `changed; was ${before.was}` : "";
    line.classList.toggle("changed", Boolean(before));
    line.classList.toggle("off", !on);
    for (const one of [slider, field, select, box]) if (one) one.disabled = !on;
    if (slider) {
      const every = steps(control), far = (n) => (every[n] === NONE ? Infinity : Math.abs(every[n] - Number(value)));
      slider.max = every.length - 1;
      slider.value = value === NONE ? 0 : every.reduce((best, _, n) => (far(n) < far(best) ? n : best), 0);
      slider.setAttribute("aria-valuetext", value);
      field.value = Number.isFinite(Number(value)) ? value : "";
    }
    if (select) {
      if (![...select.options].some((option) => option.value === value)) select.append(new Option(value, value));
      select.value = value;
    }
    if (box) box.checked = value === "true";
  }
  const kept = Object.entries(design.extras).map(([key, value]) => `${key}=${value.length > 40 ? value.slice(0, 39) + "…" : value}`);
  el("extras").hidden = !kept.length;
  if (kept.length) {
    const drop = make("button", "Remove", "quiet");
    drop.type = "button";
    drop.addEventListener("click", () => ((design.extras = {}), refresh()));
    el("extras").replaceChildren(`Also in this design: ${kept.join(", ")} `, drop);
  }
  const spec = written(design);
  el("family").value = design.family;
  el("start").value = presetOf(spec) ?? "";
  el("against").querySelector("[data-pinned]")?.remove();
  if (isSpec(against)) {
    const option = new Option(PINNED, against);
    option.dataset.pinned = "";
    el("against").append(option);
  }
  el("against").value = against;
  el("spec").replaceChildren(...spec.split(/(?<=\/)/).map((part) => make("span", part)));
  const hash = `#${spec}${against ? `&against=${against}` : ""}`;
  try { history.replaceState(null, "", hash); } catch { /* too many changes at once: the next one does it */ }
}

// ---- asking: one question at a time, and always about the newest design -------------------------------
const waiting = (ms) => new Promise((done) => setTimeout(done, ms));
async function ask(question, spec) {
  if (!DATA.live) return byFormulas(spec, question === "choices");
  for (let turn = 0; turn < 20; turn++) {
    try {
      const got = await fetch(`api/${question}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ spec }),
      });
      const found = await got.json();
      if (!found.superseded) return found;
    } catch {
      return { error: "the server does not answer; is segre explore still running?" };
    }
    await waiting(150);
  }
  return { error: "the server is busy with newer questions" };
}

let dirty = false, running = false, own = null, beside = null, besideOf = null, curveTimer = 0, heard = 0;
async function refresh() {
  show();
  dirty = true;
  if (running) return;
  running = true;
  while (dirty) {
    await waiting(DATA.live ? 60 : 0);
    dirty = false;
    if (besideOf !== against) {
      const name = against;
      beside = name ? await ask("known", besideSpec()) : null;
      besideOf = name;
      if (beside && beside.error) beside = null;
    }
    const found = await ask("known", written(design));
    if (dirty) continue;
    if (found.error) complain(found.error);
    else own = found, render();
  }
  running = false;
  document.documentElement.dataset.drawn = "";
  document.documentElement.dataset.spec = written(design);
}

let choicesTimer = 0;
// On the static page, what each choice costs is counted when nothing has changed for a while.
function choicesLater() {
  clearTimeout(choicesTimer);
  if (own.choices) return;
  const spec = written(design);
  choicesTimer = setTimeout(async () => {
    const found = await ask("choices", spec);
    if (spec === written(design) && !found.error) own.choices = found.choices, renderChoices(own);
  }, 250);
}

const RESULTS = ["figures", "proof-section", "pieces-section", "symmetries-section", "choices-section", "cost-section", "curve-section"];
function complain(said) {
  const reason = said.replace(/^spec (['"]).*?\1: /, ""); // the spec stands on the page
  el("problem").hidden = false;
  el("problem").textContent = sentence(reason);
  for (const id of RESULTS) {
    el(id).classList.add("stale"), (el(id).inert = true);
    if (id !== "figures") el(id).hidden = own === null; // nothing has been shown yet
  }
  renderNothing();
  el("pinned-parameters").textContent = /^not known here/i.test(reason) ? "not known here" : "not a valid design";
  el("pinned-dimension").textContent = reason.length > 90 ? `${reason.slice(0, 89)}…` : reason;
  clearTimeout(curveTimer), clearTimeout(choicesTimer), clearTimeout(heard);
}

function render() {
  el("problem").hidden = true;
  for (const id of RESULTS) el(id).classList.remove("stale"), (el(id).inert = el(id).hidden = false);
  const name = isSpec(against) ? PINNED : against;
  renderCounts(own, beside, name);
  renderProof(own, { prove, download });
  renderPieces(own, beside, name);
  renderSymmetries(own);
  renderChoices(own);
  choicesLater();
  renderCost(own, beside, name);
  renderCurve();
  clearTimeout(heard);
  heard = setTimeout(() => (el("status").textContent = `${grouped(own.parameters)} parameters, functional dimension ${own.dimension}, ${own.known}`), 500);
}

function renderCurve() {
  clearTimeout(curveTimer);
  if (!DATA.live) {
    status("curve-status", "not run", "not available on this page");
    chart("curve-chart", []);
    return void (el("curve-said").textContent = `The curve is measured by running the design with random weights, which the static page cannot do. Run: segre collapse ${written(design)}`);
  }
  status("curve-status", "not run", "not measured yet");
  el("curve-said").textContent = "Measuring …";
  const spec = written(design);
  curveTimer = setTimeout(async () => {
    const found = await ask("curve", spec);
    if (spec === written(design)) showCurve(found);
  }, 450);
}

async function prove(pressed) {
  const spec = written(design);
  pressed.disabled = true;
  el("proof-said").textContent = "Computing both bounds exactly …";
  const found = await ask("proof", spec);
  if (spec !== written(design)) return;
  if (found.error) {
    pressed.disabled = false;
    el("proof-said").textContent = sentence(found.error);
  } else {
    own = { ...own, ...found, computable: false };
    render();
    el("proof-said").textContent = sentence(own.known);
  }
}

async function download(pressed) {
  pressed.disabled = true;
  const found = await ask("certificate", written(design));
  pressed.disabled = false;
  if (found.error) return void (el("proof-said").textContent = sentence(found.error));
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(found.certificate)], { type: "application/json" }));
  link.download = "certificate.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  el("proof-said").textContent = "Saved certificate.json. Check it with: segre verify certificate.json";
}

// ---- colours, copying, opening ----------------------------------------------------------------------
const THEMES = ["auto", "light", "dark"];
function wear(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  el("theme").textContent = `Theme: ${theme}`;
}
el("theme").addEventListener("click", () => {
  const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % 3];
  try { localStorage.setItem("segre-theme", theme); } catch { /* the choice is then forgotten */ }
  wear(theme);
});
try { wear(localStorage.getItem("segre-theme") ?? "auto"); } catch { wear("auto"); }

async function copy(text, pressed) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", undefined, "unseen");
    area.value = text;
    document.body.append(area), area.select();
    done = document.execCommand("copy");
    area.remove(), pressed.focus();
  }
  el("status").textContent = done ? "copied" : "the browser does not allow copying";
  const words = (pressed.dataset.words ??= pressed.textContent);
  pressed.textContent = done ? "Copied" : "Not copied";
  setTimeout(() => (pressed.textContent = words), 1500);
}
el("copy-spec").addEventListener("click", (event) => copy(written(design), event.currentTarget));
// A served page's address holds its token, which is not for sharing: there the spec is enough.
el("copy-link").hidden = DATA.live;
el("copy-link").addEventListener("click", (event) => copy(location.href, event.currentTarget));

// The address after # is the design: links within the page move the focus themselves.
for (const link of document.querySelectorAll("[data-to]")) link.addEventListener("click", (event) => {
  event.preventDefault();
  const target = el(link.dataset.to);
  if (target.id === "h-how") el("proof").open = true;
  target.focus({ preventScroll: true }), target.scrollIntoView();
});

function open() {
  let hash = "";
  try { hash = decodeURIComponent(location.hash.slice(1)); } catch { /* as if there were none */ }
  const [spec, beside] = hash.split("&against=");
  against = beside !== undefined ? (DATA.presets[beside] || isSpec(beside) ? beside : "") : spec ? "" : DATA.against;
  const wanted = spec.includes("/") ? spec : DATA.first;
  base ??= wanted;
  if (familyOf(base) !== familyOf(wanted)) base = wanted;
  design = parsed(wanted);
  refresh();
}
window.addEventListener("hashchange", open);
build();
open();
