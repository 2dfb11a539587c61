// What the page shows of an answer: counts, proof, pieces, symmetries, cost and the collapse curve.
const el = (id) => document.getElementById(id);
const make = (name, text, kind) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
};

const grouped = (digits) => String(digits).replace(/\B(?=(\d{3})+$)/g, ",");
const NAMES = ["", " k", " M", " G", " T", " P", " E", " Z"];
function short(digits) {
  let value = Number(digits), step = 0;
  while (value >= 999.5 && step < NAMES.length - 1) [value, step] = [value / 1000, step + 1];
  return `${Number(value.toPrecision(3))}${NAMES[step]}`;
}
const billions = (digits) => short(digits).replace(" G", " B"); // as parameters are counted
function share(part, whole) {
  const percent = (100 * Number(part)) / Number(whole);
  return percent === 0 ? "0 %" : `${percent >= 1e-6 ? percent.toPrecision(3).replace(/\.?0+$/, "") : "under 0.000001"} %`;
}
const sentence = (one) => `${one[0].toUpperCase()}${one.slice(1)}${one.endsWith(".") ? "" : "."}`;

function big(id, text) {
  el(id).textContent = text;
  el(id).style.setProperty("--letters", Math.max(9, text.length));
}

function badge(status, words) {
  const mark = svg("svg", { class: "mark", viewBox: "0 0 16 16", "aria-hidden": "true" });
  mark.append(svg("use", { href: `#mark-${status}` }));
  const made = make("span", undefined, `badge is-${status}`);
  made.append(mark, words);
  return made;
}

// How the numbers of a part are known, beside its title.
function status(id, kind, words) {
  el(id).replaceChildren(badge(kind.replaceAll(" ", "-"), words));
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

const SIGNS = { proved: "", certain: "", likely: "", bounded: "≤ ", estimated: "≈ " };
const SHORT = { bounded: "upper bound", estimated: "predicted" };
const shortly = (one) => SHORT[one.label] ?? one.label; // what is proved says by what
const EXACT = "exact count";
// What is known of the counts of symmetries, which the dimension is made of.
const KNOWN = ["exact", "exact count of the symmetries that segre knows"];
const COUNTED = {
  proved: ["exact", EXACT],
  certain: KNOWN,
  likely: KNOWN,
  bounded: KNOWN,
  estimated: ["estimated", "predicted by a formula, not proved"],
};
const REDUNDANT = {
  bounded: ["bounded", "lower bound: more may be redundant"],
  estimated: ["estimated", "predicted by a formula; neither proved nor a bound"],
};
const LEAST = { proved: "", certain: "", likely: "", bounded: "at least ", estimated: "predicted " };
function renderCounts(own, b, name) {
  big("parameters", grouped(own.parameters));
  big("dimension", own.dimension);
  big("redundant", LEAST[own.status] + grouped(own.redundant));
  status("badge", own.label, own.known);
  status("parameters-status", "exact", EXACT);
  status("redundant-status", ...(REDUNDANT[own.label] ?? [own.label, `${own.label}, like the dimension`]));
  for (const id of ["pieces-status", "symmetries-status", "choices-status"]) status(id, ...COUNTED[own.status]);
  status("cost-status", "exact", EXACT);
  el("parameters-beside").textContent = b ? `${name}: ${grouped(b.parameters)}` : "";
  el("dimension-beside").textContent = b ? `${name}: ${b.dimension} (${shortly(b)})` : "";
  el("redundant-beside").textContent = `${share(own.redundant, own.parameters)} of the parameters` + (b ? `; ${name}: ${LEAST[b.status]}${grouped(b.redundant)} (${share(b.redundant, b.parameters)})` : "");
  el("pinned-parameters").textContent = `${billions(own.parameters)} parameters`;
  el("pinned-dimension").textContent = `dimension ${SIGNS[own.status]}${billions(own.bound)}, ${shortly(own)}`;
}

// The design has no answer: no number of an earlier one stays.
function renderNothing() {
  for (const id of ["parameters", "dimension", "redundant"]) big(id, "–"), (el(`${id}-beside`).textContent = "");
  for (const id of ["parameters-status", "badge", "redundant-status"]) status(id, "not run", "not available");
}

// ---- the proof -------------------------------------------------------------------------------
function renderProof(own, { prove, download }) {
  const is = { proved: "=", certain: "=", likely: "=", bounded: "= at most", estimated: "= a predicted" }[own.status];
  el("sum").textContent = `${grouped(own.parameters)} parameters − ${LEAST[own.status]}${grouped(own.redundant)} redundant ${is} ${grouped(own.bound)} dimensions`;
  el("how").textContent = [own.how, ...(own.notes ?? [])].map(sentence).join(" ");
  const theorem = own.theorem ?? own.unmet, proved = own.status === "proved", actions = [];
  if (DATA.live && own.computable) actions.push(button("Prove it by computing", prove));
  if (DATA.live && proved) actions.push(button("Download the certificate", download));
  if (theorem && DATA.theorems) {
    const link = make("a", `Read the proof of theorem ${theorem.name}`);
    link.href = DATA.theorems + theorem.proof.slice(theorem.proof.indexOf("#"));
    actions.push(link);
  }
  el("actions").replaceChildren(...actions);
  el("proof-said").textContent = "";
  el("proof").hidden = !theorem && !proved;
  if (el("proof").hidden) return;
  const failing = theorem?.hypotheses.filter((one) => !one.holds).length ?? 0;
  el("proof-title").textContent = own.theorem ? `Open the proof: theorem ${theorem.name} for this design`
    : proved ? "Open the proof: both bounds, computed"
      : `Theorem ${theorem.name} covers this design, but ${failing === 1 ? "one hypothesis fails" : `${failing} hypotheses fail`} at these sizes`;
  el("proof-statement").replaceChildren(...statement(own, theorem).map((one) => make("p", one)));
  el("hypotheses").hidden = !theorem;
  el("hypotheses-rows").replaceChildren(...(theorem?.hypotheses ?? []).map((one) => tr([[one.says, ""], [grouped(one.left), "number"], [`${one.relation} ${grouped(one.right)}`, "number"], [one.holds ? "yes" : "no", one.holds ? "" : "fails"]])));
  el("certify").hidden = !proved;
  el("certify-command").textContent = `segre certify ${own.spec} -o certificate.json\nsegre verify certificate.json`;
}

function statement(own, theorem) {
  if (!theorem) return [`From below and from above: ${own.how}.`];
  const counts = Object.entries(theorem.symmetries), total = counts.reduce((sum, [, n]) => sum + BigInt(n), 0n);
  const rests = theorem.trusts.length ? ` It rests on ${theorem.trusts.map((one) => (one.includes(" ") ? one : `${one}’s theorem`)).join(" and ")}.` : "";
  const said = [`Theorem ${theorem.name} is about ${theorem.title}: if the hypotheses below hold, the dimension is the number of parameters minus the dimension of the symmetries.${rests}`];
  if (counts.length) said.push(`The symmetries it counts here: ${counts.map(([name, n]) => `${name} ${grouped(n)}`).join(", ")}; together ${grouped(total)}.`);
  if (own.theorem) said.push(`So the dimension is ${grouped(own.parameters)} − ${grouped(total)} = ${grouped(own.bound)}.`);
  said.push(DATA.theorems ? "The link above leads to the proof." : `The proof is in segre’s documentation: ${theorem.proof}.`);
  return said;
}

// ---- pieces, symmetries, choices -----------------------------------------------------------------
const PIECES = { QK: "queries and keys", VO: "values and outputs", MLP: "hidden units", residual: "basis of the stream" };
function renderPieces(own, b, name) {
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
    const words = make("span", group);
    if (PIECES[group]) words.append(make("span", PIECES[group], "hint"));
    line.append(words, tracks, amount);
    return line;
  }));
  const split = Object.values(own.pieces).reduce((sum, n) => sum + BigInt(n), 0n);
  const total = own.symmetries.reduce((sum, one) => sum + BigInt(one.dimension), 0n);
  el("pieces-said").textContent = split === total ? "Percentages are shares of each model’s own parameters. Only symmetries that segre knows are counted."
    : "At these sizes the theorem counts the symmetries together, and they are not split by piece.";
}

function renderSymmetries(own) {
  el("symmetries").replaceChildren(...own.symmetries.map((one) => tr([[one.name + (one.holds === "eps=0" ? " (eps = 0)" : ""), ""], [one.where, ""], [grouped(one.dimension), "number"], [one.group ?? "", ""]])));
  if (!own.symmetries.length) el("symmetries").append(tr([["none known", ""], ["", ""], ["0", "number"], ["", ""]]));
  const discrete = own.discrete ?? [];
  el("discrete").textContent = discrete.length ? `There are also finite symmetries: ${discrete.map((one) => `${one.what} (${one.group}${one.places > 1 ? `, in each of ${grouped(one.places)} places` : ""})`).join("; ")}.` : "";
}

function renderChoices(own) {
  if (!own.choices) return el("choices").replaceChildren(tr([[`In this page for presets only. Run: segre explain ${own.spec}`, ""], ["", ""], ["", ""]]));
  el("choices").replaceChildren(...own.choices.map((one) => tr([[one.choice, ""], [one.instead_of, ""], [(one.total[0] === "-" ? "−" : "+") + grouped(one.total.replace("-", "")), "number"]])));
  if (!own.choices.length) el("choices").append(tr([["No single choice changes the redundancy.", ""], ["", ""], ["", ""]]));
}

// ---- charts ------------------------------------------------------------------------------------
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

function chart(id, lines, { x, y, xs } = {}) {
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

function renderCost(own, b, name) {
  const other = b?.cost ?? null, mine = own.cost;
  el("cost-beside").textContent = other ? name : "beside";
  const points = (rows) => rows.map((one) => [Math.log2(one.tokens), Math.log10(Number(one.operations))]);
  const lines = [{ name: "this design", points: points(mine) }, ...(other ? [{ name, points: points(other) }] : [])];
  chart("cost-chart", lines, { xs: mine.map((one) => Math.log2(one.tokens)), x: (v) => tokensShown(2 ** v), y: power });
  el("cost").replaceChildren(...mine.map((one, n) => tr([[tokensShown(one.tokens), "number"], [short(one.operations), "number"], [other ? short(other[n].operations) : "–", "number"], [one.state === null ? "needs all tokens" : short(one.state), "number"]])));
}

function showCurve(found) {
  status("curve-status", found.error ? "not run" : "measured", found.error ? "not available" : "measured, not proved");
  if (found.error) return chart("curve-chart", []), void (el("curve-said").textContent = sentence(found.error));
  const lines = Object.entries(found.curves).map(([name, logs]) => ({ name, points: logs.map((log, n) => [n, log]).filter((p) => p[1] !== null) }));
  const last = Math.max(...lines.flatMap((one) => one.points.map((p) => p[0])));
  chart("curve-chart", lines, { xs: ticks(0, last, 8).filter(Number.isInteger), x: String, y: power });
  el("curve-said").textContent = `${found.how} ${found.advice.slice(0, 3).join(" ")}`;
}
