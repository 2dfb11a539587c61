// The controls of the page: built once for a family, and set to what the design is.
let design = null, against = "", chosenFamily = null, base = null;
const PINNED = "pinned design";
const controlsOf = () => FAMILIES[design.family].controls;
const isSpec = (name) => name.includes("/");
const besideSpec = () => (isSpec(against) ? against : DATA.presets[against]);

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
  if (value !== filled(design, key)) change(design, key, value);
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

// The steps of a slider: on the static page those that are in its table, and where the design is.
function steps(control) {
  const { key } = control, heads = number(design, "heads"), is = filled(design, key);
  let every = control.values;
  if (key === "kv") every = every.filter((n) => heads % n === 0).concat(every.includes(heads) ? [] : [heads]);
  return every.filter((value) => String(value) === is || offered(design, key, String(value)));
}

// How many controls the static page has answers for, as the design is now.
function showReach() {
  el("reach").hidden = DATA.live;
  const free = controlsOf().filter(({ key }) => fields[key].free).length;
  const said = free ? `${free} controls can be changed from here, to the values that are not grey.` : "No control can be changed from here.";
  el("reach").replaceChildren(`${said} The page has no answers for other values: ask the server, `, make("code", "segre explore"), ".");
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
    const every = slider ? steps(control) : [];
    if (select) for (const option of select.options) option.disabled = option.value !== value && !offered(design, control.key, option.value);
    const free = on && (slider ? every.length > 1 : select ? [...select.options].filter((one) => !one.disabled).length > 1 : offered(design, control.key, String(value !== "true")));
    fields[control.key].free = free;
    line.classList.toggle("fixed", on && !free);
    for (const one of [slider, select, box]) if (one) one.disabled = !free;
    if (field) field.disabled = !on; // whatever is typed gets an answer, or the command that has it
    if (slider) {
      const far = (n) => (every[n] === NONE ? Infinity : Math.abs(every[n] - Number(value)));
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
  showReach();
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
