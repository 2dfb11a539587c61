// The explorer: controls make a spec, segre answers, the page shows the answer. No count is made
// here: a served page asks the server, a static one evaluates polynomials that segre was asked for.
(() => {
  "use strict";
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const CONTROLS = DATA.controls;
  const byKey = Object.fromEntries(CONTROLS.map((one) => [one.key, one]));
  const AUTO = ["head", "kv", "output"]; // follow from other choices while they are empty
  const el = (id) => document.getElementById(id);
  const make = (name, text, kind) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  // ---- numbers ----------------------------------------------------------------------------
  const grouped = (digits) => String(digits).replace(/\B(?=(\d{3})+$)/g, ",");
  const NAMES = ["", " k", " M", " G", " T", " P", " E", " Z"];
  function short(digits) {
    let value = Number(digits), step = 0;
    while (value >= 999.5 && step < NAMES.length - 1) [value, step] = [value / 1000, step + 1];
    return `${Number(value.toPrecision(3))}${NAMES[step]}`;
  }
  function share(part, whole) {
    const percent = (100 * Number(part)) / Number(whole);
    return percent === 0 ? "0 %" : `${percent >= 1e-6 ? percent.toPrecision(3).replace(/\.?0+$/, "") : "under 0.000001"} %`;
  }

  // ---- the design -------------------------------------------------------------------------
  let values = {}; // by key of a control, as specs write them; empty: follows from the rest
  let extras = {}; // what the design has beside the controls
  let against = "";

  const number = (key) => Number(values[key] || 0);
  function means(control) {
    return Object.entries(control.when).every(([key, allowed]) =>
      allowed[0] === "+" ? number(key) > 0 : allowed.includes(values[key]));
  }

  function read(spec) {
    const given = Object.fromEntries(spec.split("/").slice(1).map((pair) => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at), pair.slice(at + 1)];
    }));
    values = {}, extras = {};
    for (const { key } of CONTROLS) values[key] = given[key] ?? (AUTO.includes(key) ? "" : DATA.usual[key]);
    for (const key in given) if (!byKey[key]) extras[key] = given[key];
  }

  function written() {
    const parts = [];
    for (const control of CONTROLS) {
      const value = values[control.key];
      if (control.key === "t" || !means(control)) continue;
      if (value !== "" && (control.key === "d" || value !== DATA.usual[control.key])) parts.push(`${control.key}=${value}`);
    }
    for (const key in extras) parts.push(`${key}=${extras[key]}`);
    return ["transformer", ...parts, `t=${values.t}`].join("/");
  }

  const divisor = (n, near) => {
    let best = 1;
    for (let i = 1; i <= n; i++) if (n % i === 0 && Math.abs(i - near) < Math.abs(best - near)) best = i;
    return best;
  };

  // What a change brings along, so that choices which need each other stay together.
  function change(key, value) {
    values[key] = value;
    for (const gone of byKey[key].drops) delete extras[gone];
    const heads = number("heads"), d = number("d");
    if (key === "kv" && value !== "") values.kv = String(divisor(heads, Number(value)));
    if (key === "heads" && values.kv !== "") values.kv = String(divisor(heads, number("kv")));
    if (number("kv") === heads) values.kv = "";
    if (key === "head" && Number(value) * heads === d) values.head = "";
    if (key === "d" || key === "heads") delete extras.dv, delete extras.rotary;
    if (values.head === "" && d % heads) values.head = String(Math.max(1, Math.floor(d / heads)));
    const rank = values.head === "" ? d / heads : number("head");
    if (values.pos === "rope" && !extras.rotary && rank % 2) values.head = String(Math.max(2, rank - (rank % 2)));
    if (key === "mlp" && value !== "none" && !number("ff")) values.ff = String(4 * d);
    if (key === "norm" && value === "layer" && values.place === "after") values.place = "pre";
    if (key === "norm" && value !== "none" && values.eps === "0") values.eps = "1e-05";
    if (key === "residual" && value === "false") values.place = "pre", values.parallel = "false", delete extras.skip;
    if (key === "place" && value !== "pre") values.residual = "true", values.parallel = "false";
    if (key === "parallel" && value === "true") values.residual = "true", values.place = "pre";
    if (key === "attn" && value !== "softmax") values.qknorm = "false", delete extras.sinks;
    if (key === "vocab" && !number("vocab")) values.tied = "false", values.output = "";
    if (key === "output" && value === "hidden") values.tied = "false";
    if (key === "tied" && value === "true" && values.output === "hidden") values.output = "";
    if (key === "vocab" || key === "tied") delete extras.final;
    refresh();
  }

  // What stands in a control whose value follows from the rest.
  function filled(key) {
    if (values[key] !== "") return values[key];
    if (key === "kv") return values.heads;
    if (key === "head") return String(Math.floor(number("d") / number("heads")));
    return number("vocab") ? "softmax" : "hidden";
  }

  // ---- controls ---------------------------------------------------------------------------
  const fields = {};
  function build() {
    const parts = {};
    for (const control of CONTROLS) {
      if (!parts[control.part]) {
        parts[control.part] = make("fieldset");
        parts[control.part].append(make("legend", control.part));
        el("controls").append(parts[control.part]);
      }
      parts[control.part].append(row(control));
    }
    const names = Object.keys(DATA.presets);
    el("start").append(new Option("own design", ""), ...names.map((name) => new Option(name, name)));
    el("against").append(new Option("nothing", ""), ...names.map((name) => new Option(name, name)));
    el("start").addEventListener("change", () => {
      if (el("start").value) read(DATA.presets[el("start").value]), refresh();
    });
    el("against").addEventListener("change", () => ((against = el("against").value), refresh()));
    el("controls").closest("form").addEventListener("submit", (event) => event.preventDefault());
  }

  function row(control) {
    const { key, kind } = control, line = make("div", undefined, `row ${kind}`);
    const label = make("label", control.label);
    label.htmlFor = `c-${key}`;
    if (control.hint) label.append(make("span", control.hint, "hint"));
    line.append(label);
    if (kind === "size") {
      const slider = make("input"), field = make("input");
      slider.type = "range", slider.min = 0, slider.max = control.values.length - 1, slider.step = 1;
      slider.id = `s-${key}`;
      slider.setAttribute("aria-label", `${control.label}, slider`);
      slider.addEventListener("input", () => change(key, String(steps(control)[slider.value])));
      field.type = "number", field.id = `c-${key}`, field.min = control.values[0] ? 1 : 0, field.step = 1, field.inputMode = "numeric";
      field.addEventListener("change", () => {
        const whole = Math.floor(Number(field.value));
        if (field.value !== "" && whole >= Number(field.min) && whole < 1e9) change(key, String(whole));
        else show();
      });
      line.append(slider, field);
      fields[key] = { line, slider, field };
    } else if (kind === "choice") {
      const select = make("select");
      select.id = `c-${key}`;
      control.values.forEach((value, n) => select.append(new Option(control.names[n] ?? value, value)));
      select.addEventListener("change", () => change(key, select.value));
      line.append(select);
      fields[key] = { line, select };
    } else {
      const box = make("input");
      box.type = "checkbox", box.id = `c-${key}`;
      box.addEventListener("change", () => change(key, String(box.checked)));
      line.append(box);
      fields[key] = { line, box };
    }
    return line;
  }

  const steps = (control) => control.key === "kv"
    ? control.values.filter((n) => number("heads") % n === 0).concat(control.values.includes(number("heads")) ? [] : [number("heads")])
    : control.values;

  function show() {
    for (const control of CONTROLS) {
      const { line, slider, field, select, box } = fields[control.key], on = means(control);
      const value = filled(control.key);
      line.classList.toggle("off", !on);
      for (const one of [slider, field, select, box]) if (one) one.disabled = !on;
      if (slider) {
        const every = steps(control);
        slider.max = every.length - 1;
        let nearest = 0;
        every.forEach((step, n) => {
          if (Math.abs(step - Number(value)) < Math.abs(every[nearest] - Number(value))) nearest = n;
        });
        slider.value = nearest;
        slider.setAttribute("aria-valuetext", value);
        field.value = Number.isFinite(Number(value)) ? value : "";
      }
      if (select) {
        if (![...select.options].some((option) => option.value === value)) select.append(new Option(value, value));
        select.value = value;
      }
      if (box) box.checked = value === "true";
    }
    const kept = Object.entries(extras).map(([key, value]) => `${key}=${value.length > 40 ? value.slice(0, 39) + "…" : value}`);
    el("extras").hidden = !kept.length;
    if (kept.length) {
      const drop = make("button", "Leave out", "quiet");
      drop.type = "button";
      drop.addEventListener("click", () => ((extras = {}), refresh()));
      el("extras").replaceChildren(`Also: ${kept.join(", ")} `, drop);
    }
    const spec = written();
    const same = Object.entries(DATA.presets).find(([, text]) => alike(text, spec));
    el("start").value = same ? same[0] : "";
    el("against").value = against;
    el("spec").textContent = spec;
    const hash = `#${spec}${against ? `&against=${against}` : ""}`;
    if (decodeURIComponent(location.hash) !== hash) history.replaceState(null, "", hash);
  }

  const alike = (one, two) => one === two || one.split("/").sort().join("/") === two.split("/").sort().join("/");

  // ---- asking -----------------------------------------------------------------------------
  const waiting = (ms) => new Promise((done) => setTimeout(done, ms));
  async function ask(question, spec) {
    if (!DATA.live) return question === "known" ? fixed(spec) : { error: "run segre explore for this" };
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
        return { error: "the server does not respond; is segre explore still running?" };
      }
      await waiting(150);
    }
    return { error: "the server is busy with newer requests" };
  }

  // ---- the static page: polynomials, evaluated exactly ---------------------------------------
  function evaluated([whole, ...terms], at) {
    let sum = 0n;
    for (const [c, names] of terms) {
      let product = BigInt(c);
      for (const name of names) product *= at[name];
      sum += product;
    }
    return sum / BigInt(whole);
  }

  function outside(at, table) {
    for (const key in table.smallest) if (at[key] < BigInt(table.smallest[key])) return true;
    return at.a > at.d - 2n || (at.V && at.V < at.d + 8n) || at.t < at.a + 12n;
  }

  function fixed(spec) {
    const known = Object.entries(DATA.presets).find(([, text]) => alike(text, spec));
    if (known) return { ...DATA.models[known[0]], choices: [], discrete: [] };
    const table = DATA.table, v = Object.fromEntries(CONTROLS.map(({ key }) => [key, filled(key)]));
    for (const control of CONTROLS) if (!means(control)) v[control.key] = DATA.usual[control.key];
    const ends = !Number(v.vocab) ? "none" : v.tied === "true" ? "tied" : "untied";
    const layers = v.attn !== "softmax" ? v.attn : v.residual === "true" ? "softmax" : "bare";
    const mlp = table.alike[v.mlp] ?? v.mlp;
    const row = table.designs[[v.norm, v.place, mlp, v.pos, ends, v.bias, layers].join("|")];
    const plain = v.causal === "true" && v.parallel === "false" && v.gate === "none" && v.feature === "none" && v.window === "0" && v.qknorm === "false" &&
      (v.norm === "none" || v.eps !== "0") && (ends === "none" || v.output === "softmax") && !(layers === "lightning" && v.residual === "false") &&
      Object.keys(extras).every((key) => key === "base");
    const design = row?.map((n) => table.lists[n]);
    if (!design || !plain) return { error: "The static page has no formulas for this combination of choices. Run segre explore, which has all of them." };
    if (Number(v.heads) % Number(v.kv)) return { error: `kv: ${v.kv} does not divide heads=${v.heads}` };
    const big = (key) => BigInt(v[key]);
    const at = { d: big("d"), L: big("layers"), H: big("heads"), k: big("kv"), g: big("heads") / big("kv"), a: big("head"), f: mlp === "none" ? 4n : big("ff"), t: big("t") };
    at.V = ends === "none" ? BigInt(table.smallest.V) + at.d : big("vocab");
    if (outside(at, table)) return { error: "The formulas of the static page need three layers or more, a width of 8 or more, heads of 4 dimensions or more that are narrower than the stream, and enough tokens and words. Run segre explore for smaller designs." };
    const inner = at.k * at.a, region = inner < at.d ? 0 : inner === at.d ? 1 : 2;
    const sizes = {};
    let parameters = 0n;
    for (const n of design[0]) {
      const [what, which] = table.sizes[0][n], value = evaluated(table.sizes[1][n], at);
      if (what === "parameters") parameters += value;
      else sizes[`${what} ${which}`] = value;
    }
    const symmetries = [], pieces = Object.fromEntries(DATA.groups.map((group) => [group, 0n]));
    let total = 0n;
    for (const n of design[1][design[1].length > 1 ? region : 0]) {
      const [name, size, where, group, holds] = table.symmetries[0][n];
      const dimension = evaluated(table.symmetries[1][n], at);
      if (!dimension) continue;
      total += dimension, pieces[group] += dimension;
      const shown = size === "d-1" ? at.d - 1n : at[size];
      symmetries.push({ name: name.replace("#", shown), where, dimension: String(dimension), group, holds });
    }
    const theorem = table.theorems[[v.norm, v.place, mlp, v.pos, ends, v.bias, layers].join("|")];
    const cost = table.tokens.map((tokens) => ({
      tokens,
      operations: sizes[`operations ${tokens}`] === undefined ? null : String(sizes[`operations ${tokens}`]),
      state: sizes[`state ${tokens}`] === undefined ? null : String(sizes[`state ${tokens}`]),
    }));
    return {
      spec, cost: cost[0].operations === null ? null : cost,
      parameters: String(parameters), dimension: `at most ${grouped(parameters - total)}`,
      redundant: String(total), status: "bounded", theorem: null, choices: [], discrete: [], symmetries,
      known: "upper bound, counted by formulas; not proved to be attained",
      how: `${grouped(total)} symmetries of ${grouped(parameters)} parameters, by segre’s formulas.` +
        (theorem ? ` Theorem ${theorem} covers this design: where its hypotheses hold, the bound is the dimension. segre explore checks them at these sizes.` : " No theorem covers this design."),
      pieces: Object.fromEntries(Object.entries(pieces).map(([group, n]) => [group, String(n)])),
    };
  }

  // ---- the loop: one question at a time, and always about the newest design --------------------
  let dirty = false, running = false, own = null, beside = null, besideName = null, curveTimer = 0;
  async function refresh() {
    show();
    dirty = true;
    if (running) return;
    running = true;
    while (dirty) {
      await waiting(DATA.live ? 60 : 0);
      dirty = false;
      if (besideName !== against) {
        const name = against;
        beside = name ? await ask("known", DATA.presets[name]) : null;
        besideName = name;
        if (beside && beside.error) beside = null;
      }
      const spec = written();
      const found = await ask("known", spec);
      if (dirty) continue;
      if (found.error) complain(found.error);
      else own = found, render();
    }
    running = false;
    document.documentElement.dataset.drawn = "";
    document.documentElement.dataset.spec = written();
  }

  function complain(sentence) {
    el("problem").hidden = false;
    el("problem").textContent = sentence;
    el("results").classList.add("refused");
    for (const id of ["parameters", "dimension", "redundant", "pieces", "symmetries", "how"]) el(id).classList.add("stale");
    el("pinned-parameters").textContent = "this design is refused:";
    el("pinned-dimension").textContent = "see below";
    clearTimeout(curveTimer);
  }

  // ---- showing ------------------------------------------------------------------------------
  function big(id, text) {
    el(id).textContent = text;
    el(id).style.setProperty("--letters", Math.max(9, text.length));
  }

  function badge(status, words) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "mark"), svg.setAttribute("viewBox", "0 0 16 16"), svg.setAttribute("aria-hidden", "true");
    const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
    use.setAttribute("href", `#mark-${status}`);
    svg.append(use);
    const made = make("span", undefined, `badge is-${status}`);
    made.append(svg, words);
    return made;
  }

  let heard = 0;
  function render() {
    el("problem").hidden = true;
    el("results").classList.remove("refused");
    for (const one of document.querySelectorAll(".stale")) one.classList.remove("stale");
    const b = beside, name = against;
    big("parameters", grouped(own.parameters));
    big("dimension", own.dimension);
    big("redundant", (own.status === "proved" ? "" : "at least ") + grouped(own.redundant));
    el("badge").replaceChildren(badge(own.status, own.known));
    el("parameters-beside").textContent = b ? `${name}: ${grouped(b.parameters)}` : "";
    el("dimension-beside").textContent = b ? `${name}: ${b.dimension} (${b.status === "proved" ? "proved" : "not proved"})` : "";
    el("redundant-beside").textContent = `${share(own.redundant, own.parameters)} of the parameters` + (b ? `; ${name}: ${grouped(b.redundant)}, ${share(b.redundant, b.parameters)}` : "");
    el("pinned-parameters").textContent = `${short(own.parameters)} parameters`;
    el("pinned-dimension").textContent = `dimension ${own.status === "proved" ? "" : "≤ "}${short(own.bound ?? BigInt(own.parameters) - BigInt(own.redundant))}${own.status === "proved" ? ", proved" : ""}`;
    renderProof();
    renderPieces(b, name);
    el("symmetries").replaceChildren(...own.symmetries.map((one) => tr([[one.name + (one.holds === "eps=0" ? " (eps = 0)" : ""), ""], [one.where, ""], [grouped(one.dimension), "number"], [one.group, ""]])));
    if (!own.symmetries.length) el("symmetries").append(tr([["none known", ""], ["", ""], ["0", "number"], ["", ""]]));
    const discrete = own.discrete ?? [];
    el("discrete").textContent = discrete.length ? `Discrete symmetries, in addition: ${discrete.map((one) => `${one.what} (${one.group}${one.places > 1 ? `, at each of ${grouped(one.places)} places` : ""})`).join("; ")}.` : "";
    el("choices-section").hidden = !DATA.live;
    el("choices").replaceChildren(...(own.choices ?? []).map((one) => tr([[one.choice, ""], [one.instead_of, ""], [(one.total[0] === "-" ? "−" : "+") + grouped(one.total.replace("-", "")), "number"]])));
    if (!(own.choices ?? []).length) el("choices").append(tr([["no choice changes the redundancy", ""], ["", ""], ["", ""]]));
    renderCost(b, name);
    renderCurve();
    clearTimeout(heard);
    heard = setTimeout(() => (el("status").textContent = `${grouped(own.parameters)} parameters, functional dimension ${own.dimension}, ${own.known}`), 500);
  }

  function tr(cells) {
    const line = make("tr");
    for (const [text, kind] of cells) line.append(make("td", text, kind));
    return line;
  }

  function button(words, act) {
    const made = make("button", words);
    made.type = "button";
    made.addEventListener("click", () => act(made));
    return made;
  }

  function renderProof() {
    const sentence = (one) => `${one[0].toUpperCase()}${one.slice(1)}${one.endsWith(".") ? "" : "."}`;
    el("how").textContent = [own.how, ...(own.notes ?? [])].map(sentence).join(" ");
    const actions = [];
    if (own.theorem && DATA.theorems) {
      const link = make("a", `Open the proof of theorem ${own.theorem.name}`);
      link.href = DATA.theorems + own.theorem.proof.slice(own.theorem.proof.indexOf("#"));
      actions.push(link);
    }
    if (DATA.live && own.computable) actions.push(button("Prove it by computing", prove));
    if (DATA.live && (own.status === "proved")) actions.push(button("Download the certificate", download));
    el("actions").replaceChildren(...actions);
    el("proof-said").textContent = "";
    el("hypotheses").hidden = !own.theorem;
    el("hypotheses-rows").replaceChildren(...(own.theorem?.hypotheses ?? []).map((one) => tr([[one.says, ""], [grouped(one.left), "number"], [`${one.relation} ${grouped(one.right)}`, "number"], [one.holds ? "yes" : "no", ""]])));
  }

  async function prove(pressed) {
    const spec = written();
    pressed.disabled = true;
    el("proof-said").textContent = "Computing both bounds exactly …";
    const found = await ask("proof", spec);
    if (spec !== written()) return;
    if (found.error) {
      pressed.disabled = false;
      el("proof-said").textContent = found.error;
    } else {
      own = { ...own, ...found, computable: false };
      render();
    }
  }

  async function download(pressed) {
    pressed.disabled = true;
    const found = await ask("certificate", written());
    pressed.disabled = false;
    if (found.error) return void (el("proof-said").textContent = found.error);
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(found.certificate)], { type: "application/json" }));
    link.download = "certificate.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    el("proof-said").textContent = "Saved certificate.json; check it with segre verify certificate.json.";
  }

  function renderPieces(b, name) {
    el("beside-name").textContent = b ? name : "";
    document.querySelector(".key.beside").hidden = !b;
    const of = (one, group) => Number(one.pieces[group] ?? 0) / Number(one.parameters);
    const most = Math.max(1e-12, ...DATA.groups.flatMap((group) => [of(own, group), b ? of(b, group) : 0]));
    el("pieces").replaceChildren(...DATA.groups.map((group) => {
      const line = make("div", undefined, "line"), tracks = make("div", undefined, "tracks");
      for (const [one, kind] of [[own, "own"], [b, "beside"]]) {
        if (!one) continue;
        const track = make("div", undefined, "track"), fill = make("span", undefined, `fill ${kind}`);
        fill.style.width = `${(100 * of(one, group)) / most}%`;
        track.append(fill), tracks.append(track);
      }
      const amount = make("span", undefined, "amount");
      amount.append(make("b", grouped(own.pieces[group] ?? "0")), ` · ${share(own.pieces[group] ?? "0", own.parameters)}`);
      line.append(make("span", group), tracks, amount);
      return line;
    }));
  }

  // ---- charts ---------------------------------------------------------------------------------
  function svg(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function ticks(low, high, most) {
    const wanted = (high - low) / most || 1, base = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((n) => n * base).find((n) => n >= wanted);
    const out = [];
    for (let at = Math.ceil(low / step) * step; at <= high + 1e-9; at += step) out.push(Number(at.toPrecision(6)));
    return out;
  }

  function chart(id, lines, { x, y, xs }) {
    const L = 64, R = 622, T = 26, B = 240, all = lines.flatMap((one) => one.points);
    el(id).toggleAttribute("hidden", !all.length);
    if (!all.length) return el(id).replaceChildren();
    let [low, high] = [Math.min(...all.map((p) => p[1])), Math.max(...all.map((p) => p[1]))];
    if (high - low < 0.5) [low, high] = [low - 0.5, high + 0.5];
    const [left, right] = [Math.min(...all.map((p) => p[0])), Math.max(...all.map((p) => p[0]))];
    const px = (v) => L + ((R - L) * (v - left)) / (right - left || 1), py = (v) => B - ((B - T) * (v - low)) / (high - low);
    const drawn = [];
    for (const at of ticks(low, high, 5)) drawn.push(svg("line", { class: "rule", x1: L, x2: R, y1: py(at), y2: py(at) }), svg("text", { x: L - 8, y: py(at) + 4, "text-anchor": "end" }, y(at)));
    for (const at of xs) drawn.push(svg("text", { x: px(at), y: B + 20, "text-anchor": "middle" }, x(at)));
    lines.forEach((one, n) => {
      const kind = `series-${n + 1}`;
      drawn.push(svg("path", { class: kind, d: one.points.map((p, i) => `${i ? "L" : "M"}${px(p[0]).toFixed(1)} ${py(p[1]).toFixed(1)}`).join("") }));
      for (const p of one.points) drawn.push(svg("circle", { class: kind, cx: px(p[0]), cy: py(p[1]), r: 3 }));
      drawn.push(svg("text", { class: `name-${n + 1}`, x: L + 270 * n, y: 14 }, `${n ? "┅" : "━"} ${one.name}`));
    });
    el(id).replaceChildren(...drawn);
  }

  const tokensShown = (n) => (n >= 1048576 ? `${n / 1048576}M` : n >= 1024 ? `${n / 1024}k` : String(n));
  const POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const power = (n) => `10${n < 0 ? "⁻" : ""}${[...String(Math.abs(n))].map((c) => (c === "." ? "·" : POWERS[c])).join("")}`;

  function renderCost(b, name) {
    const other = b?.cost ?? null, mine = own.cost;
    el("cost-beside").textContent = other ? name : "beside";
    if (!mine) {
      chart("cost-chart", [], {});
      el("cost").replaceChildren(tr([["", ""], ["Run segre explore for the cost of this mechanism.", ""], ["", ""], ["", ""]]));
      return;
    }
    const points = (rows) => rows.map((one) => [Math.log2(one.tokens), Math.log10(Number(one.operations))]);
    const lines = [{ name: "this design", points: points(mine) }, ...(other ? [{ name, points: points(other) }] : [])];
    chart("cost-chart", lines, { xs: mine.map((one) => Math.log2(one.tokens)), x: (v) => tokensShown(2 ** v), y: power });
    el("cost").replaceChildren(...mine.map((one, n) => tr([[tokensShown(one.tokens), "number"], [short(one.operations), "number"], [other ? short(other[n].operations) : "–", "number"], [one.state === null || one.state === "-1" ? "needs all tokens" : short(one.state), "number"]])));
  }

  function renderCurve() {
    clearTimeout(curveTimer);
    if (!DATA.live) return chart("curve-chart", [], {}), void (el("curve-said").textContent = "Measured by running the design with random weights: run segre explore for the collapse curve.");
    el("curve-said").textContent = "Measuring …";
    const spec = written();
    curveTimer = setTimeout(async () => {
      const found = await ask("curve", spec);
      if (spec !== written()) return;
      if (found.error) return chart("curve-chart", [], {}), void (el("curve-said").textContent = found.error);
      const lines = Object.entries(found.curves).map(([name, logs]) => ({ name, points: logs.map((log, n) => [n, log]).filter((p) => p[1] !== null) }));
      const last = Math.max(...lines.flatMap((one) => one.points.map((p) => p[0])));
      chart("curve-chart", lines, { xs: ticks(0, last, 8).filter(Number.isInteger), x: String, y: power });
      el("curve-said").textContent = `${found.advice.slice(0, 3).join(" ")} (${found.how})`;
    }, 450);
  }

  // ---- colours, copying, opening ----------------------------------------------------------------
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
  el("copy-spec").addEventListener("click", (event) => copy(written(), event.currentTarget));
  // A served page's address holds its token, which is not for sharing: there the spec is enough.
  el("copy-link").hidden = DATA.live;
  el("copy-link").addEventListener("click", (event) => copy(location.href, event.currentTarget));

  function open() {
    const [spec, beside] = decodeURIComponent(location.hash.slice(1)).split("&against=");
    against = beside !== undefined ? (DATA.presets[beside] ? beside : "") : spec ? "" : DATA.against;
    read(spec.startsWith("transformer/") ? spec : DATA.first);
    refresh();
  }
  window.addEventListener("hashchange", open);
  build();
  open();
})();
