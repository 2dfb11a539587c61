// A design: a family, the values of its controls as specs write them, and what it has beside them.
const DATA = JSON.parse(document.getElementById("data").textContent);
const FAMILIES = DATA.families;
const STACK = "stack", NONE = "none";
for (const family of Object.values(FAMILIES)) family.byKey = Object.fromEntries(family.controls.map((one) => [one.key, one]));

const familyOf = (spec) => (spec.startsWith("transformer/") ? "transformer" : STACK);
const number = (design, key) => Number(design.values[key] || 0);

function means(design, control) {
  return Object.entries(control.when).every(([key, allowed]) =>
    allowed[0] === "+" ? number(design, key) > 0 : allowed.includes(design.values[key]));
}

function parsed(spec) {
  const family = familyOf(spec), { controls, byKey, usual } = FAMILIES[family];
  const [kind, ...pairs] = spec.split("/");
  const given = Object.fromEntries(pairs.map((pair) => {
    const at = pair.indexOf("=");
    return [pair.slice(0, at), pair.slice(at + 1)];
  }));
  if (family === STACK) {
    given.kind = kind;
    const widths = (given.d ?? "").split(",");
    if (widths.length > 1) given.layers = String(widths.length - 1);
    if (widths.length > 1 && new Set(widths).size === 1) given.d = widths[0];
  }
  const design = { family, values: {}, extras: {} };
  for (const { key } of controls) design.values[key] = given[key] ?? usual[key];
  for (const key in given) if (!byKey[key]) design.extras[key] = given[key];
  return design;
}

function written(design) {
  const { controls, usual } = FAMILIES[design.family], { values, extras } = design, parts = [];
  for (const control of controls) {
    const { key } = control, value = values[key];
    if (key === "t" || key === "kind" || !means(design, control)) {
      if (!(key === "heads" && values.kind === "mix")) continue;
    }
    if (value !== "" && (key === "d" || value !== usual[key])) parts.push(`${key}=${value}`);
  }
  for (const key in extras) parts.push(`${key}=${extras[key]}`);
  return [design.family === STACK ? values.kind : "transformer", ...parts, `t=${values.t}`].join("/");
}

const divisor = (n, near) => {
  let best = 1;
  for (let i = 1; i <= n; i++) if (n % i === 0 && Math.abs(i - near) < Math.abs(best - near)) best = i;
  return best;
};

// What a change brings along, so that choices which need each other stay together.
function change(design, key, value) {
  const { byKey, usual } = FAMILIES[design.family], { values, extras } = design, control = byKey[key];
  values[key] = value;
  for (const gone of control.drops) delete extras[gone];
  if (value !== usual[key]) for (const other of control.resets) values[other] = usual[other];
  if (design.family === STACK) stackChange(design, key);
  else modelChange(design, key, value);
}

function stackChange({ values }, key) {
  if (key === "layers" && values.d.includes(",")) values.d = values.d.split(",")[0];
  if (key === "kind" && values.kind !== "mix" && !/^\d+$/.test(values.heads)) values.heads = "1";
  if (key === "kind" && values.kind === "mix") values.heads = "softmax+lightning";
}

function modelChange(design, key, value) {
  const { values, extras } = design, heads = number(design, "heads"), d = number(design, "d");
  if (key === "kv" && value !== "") values.kv = String(divisor(heads, Number(value)));
  if (key === "heads" && values.kv !== "") values.kv = String(divisor(heads, number(design, "kv")));
  if (number(design, "kv") === heads) values.kv = "";
  if (key === "head" && Number(value) * heads === d) values.head = "";
  if ((key === "d" || key === "heads") && values.head === "") delete extras.dv, delete extras.rotary;
  if (values.head === "" && d % heads) values.head = String(Math.max(1, Math.floor(d / heads)));
  const rank = values.head === "" ? d / heads : number(design, "head");
  const latent = number(design, "kvrank") > 0;
  // the rotary dimensions of latent attention are beside those of a head
  if (values.pos === "rope" && latent && !extras.rotary) extras.rotary = String(Math.max(2, 2 * Math.floor(rank / 4)));
  if (values.pos === "rope" && !latent && !extras.rotary && rank % 2) values.head = String(Math.max(2, rank - (rank % 2)));
  if (key === "mlp" && value !== "none" && !number(design, "ff") && !number(design, "experts")) values.ff = String(4 * d);
  if (key === "mlp" && !FAMILIES.transformer.byKey.experts.when.mlp.includes(value)) {
    if (number(design, "experts") && value !== "none" && !number(design, "ff")) values.ff = values.eff;
    values.experts = "0";
  }
  if (key === "experts" && number(design, "experts")) {
    if (!number(design, "eff")) values.eff = values.ff !== "0" ? values.ff : String(4 * d);
    if (!number(design, "active")) values.active = "2";
    if (!extras.dense) values.ff = "0";
  }
  if (key === "experts" && !number(design, "experts")) {
    if (!number(design, "ff")) values.ff = number(design, "eff") ? values.eff : String(4 * d);
    for (const gone of ["active", "eff", "shared"]) values[gone] = "0";
  }
  if (key === "ff" && number(design, "experts") && number(design, "ff") && !extras.dense) extras.dense = "1";
  if (["experts", "active"].includes(key) && number(design, "experts")) values.active = String(Math.max(1, Math.min(number(design, "active"), number(design, "experts"))));
  if (key === "norm" && value === "layer" && values.place === "after") values.place = "pre";
  if (key === "norm" && value !== "none" && values.eps === "0") values.eps = "1e-05";
  if (key === "norm" && value === "none") values.place = "pre";
  if (key === "residual" && value === "false") values.place = "pre", values.parallel = "false", delete extras.skip;
  if (key === "place" && value !== "pre") values.residual = "true", values.parallel = "false";
  if (key === "place" && value === "after" && number(design, "vocab")) extras.final = "true";
  if (key === "parallel" && value === "true") values.residual = "true", values.place = "pre";
  if (key === "attn" && value !== "softmax") for (const gone of ["qknorm", "sinks", "kvrank", "qrank"]) values[gone] = FAMILIES.transformer.usual[gone];
  if (key === "kvrank" && !number(design, "kvrank")) values.qrank = "0";
  if (["qknorm", "bias", "gate"].includes(key) && value !== FAMILIES.transformer.usual[key]) values.kvrank = values.qrank = "0";
  if (key === "vocab" && !number(design, "vocab")) values.tied = "false", values.output = "";
  if (key === "output" && value === "hidden") values.tied = "false";
  if (key === "tied" && value === "true" && values.output === "hidden") values.output = "";
  if (key === "vocab" || key === "tied") delete extras.final;
}

// What stands in a control whose value follows from the rest.
function filled(design, key) {
  const value = design.values[key];
  if (value !== "" || !FAMILIES[design.family].follow.includes(key)) return value;
  if (key === "kv") return design.values.heads;
  if (key === "head") return String(Math.floor(number(design, "d") / number(design, "heads")));
  return number(design, "vocab") ? "softmax" : "hidden";
}

const alike = (one, two) => one === two || keyOf(one) === keyOf(two);
const presetOf = (spec) => Object.keys(DATA.presets).find((name) => alike(DATA.presets[name], spec));

// ---- the table of the static page: answers of segre, by specs with their keys in order ---------------
let TABLE = null;
function keyOf(spec) {
  const [kind, ...pairs] = spec.split("/");
  return [kind, ...pairs.sort()].join("/");
}
async function unpacked() {
  if (DATA.live) return;
  const bytes = Uint8Array.from(atob(document.getElementById("table").textContent), (letter) => letter.charCodeAt(0));
  const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  TABLE = new Map(Object.entries(JSON.parse(await new Response(text).text())));
}

function lookedUp(spec) {
  return TABLE.get(keyOf(spec)) ?? { error: `not in this page: ask the server: segre explore ${spec}` };
}

// Whether the page has an answer after a change; a server always has one.
function offered(design, key, value) {
  if (DATA.live) return true;
  const other = { family: design.family, values: { ...design.values }, extras: { ...design.extras } };
  change(other, key, value);
  return TABLE.has(keyOf(written(other)));
}
