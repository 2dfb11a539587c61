// The static page: formulas of segre, evaluated with whole numbers of any size. None is written here.
function evaluated([whole, ...terms], at) {
  let sum = 0n;
  for (const [c, names] of terms) {
    let product = BigInt(c);
    for (const name of names) product *= at[name];
    sum += product;
  }
  return sum / BigInt(whole);
}

const floor = (x, y) => x / y - (x % y !== 0n && (x < 0n) !== (y < 0n) ? 1n : 0n);
const OPERATIONS = { "+": (x, y) => x + y, "-": (x, y) => x - y, "*": (x, y) => x * y, "//": floor, "%": (x, y) => x - y * floor(x, y) };
function valueOf(tree, at) {
  if (typeof tree === "number") return BigInt(tree);
  if (typeof tree === "string") return at[tree];
  if (tree[0] !== "?") return OPERATIONS[tree[0]](valueOf(tree[1], at), valueOf(tree[2], at));
  const [relation, left, right] = tree[1], x = valueOf(left, at), y = valueOf(right, at);
  return valueOf((relation === ">" ? x > y : x === y) ? tree[2] : tree[3], at);
}

const missing = (spec, why) => ({ error: `Not known here: ${why}. Run: segre dim ${spec}` });
const UNCOVERED = "the static page has no formula for this combination of choices";

function fixed(spec) {
  const known = presetOf(spec);
  if (known) return { ...DATA.models[known], computable: false };
  const design = parsed(spec);
  return design.family === STACK ? fixedStack(spec, design) : fixedModel(spec, design);
}

// What a theorem says at some sizes: `found` is a document in which sides are numbers of trees.
function applied(found, trees, at) {
  const value = (n) => valueOf(trees[n], at);
  const hypotheses = found.hypotheses.map((one) => {
    const left = value(one.left), right = value(one.right);
    return { ...one, left: String(left), right: String(right), holds: one.relation === ">" ? left > right : left >= right };
  });
  const symmetries = {};
  for (const [name, n] of Object.entries(found.symmetries)) if (value(n)) symmetries[name] = String(value(n));
  return { ...found, hypotheses, symmetries };
}
const holds = (theorem) => theorem !== null && theorem.hypotheses.every((one) => one.holds);

function answered({ spec, parameters, symmetries, theorem, cost, known, status, how }) {
  const pieces = Object.fromEntries(DATA.groups.map((group) => [group, 0n]));
  let total = 0n;
  for (const one of symmetries) total += BigInt(one.dimension), pieces[one.group] !== undefined && (pieces[one.group] += BigInt(one.dimension));
  const proved = holds(theorem), count = grouped(parameters - total);
  return {
    spec, cost, symmetries, choices: null, discrete: [], notes: [], computable: false,
    parameters: String(parameters), bound: String(parameters - total), redundant: String(total),
    dimension: proved ? count : status === "estimated" ? `predicted ${count}` : `at most ${count}`,
    status: proved ? "proved" : status,
    known: proved ? `proved by theorem ${theorem.name}` : known,
    how: proved ? `theorem ${theorem.name} (${theorem.title}): all its hypotheses hold at these sizes` : how(total),
    theorem: proved ? theorem : null, unmet: proved ? null : theorem,
    pieces: Object.fromEntries(Object.entries(pieces).map(([group, n]) => [group, String(n)])),
  };
}

function fixedModel(spec, design) {
  const table = DATA.table, { controls, byKey, usual } = FAMILIES.transformer, v = {};
  for (const control of controls) v[control.key] = means(design, control) ? filled(design, control.key) : usual[control.key];
  const ends = !Number(v.vocab) ? "none" : v.tied === "true" ? "tied" : "untied";
  if (ends === "none") v.output = table.usual.output;
  const fits = (settings) => Object.keys(table.usual).every((key) =>
    settings[key] === "+" ? Number(v[key]) > 0 : v[key] === (settings[key] ?? table.usual[key]));
  const variant = Object.keys(table.variants).find((name) => fits(table.variants[name]));
  const mlp = table.alike[v.mlp] ?? v.mlp;
  const name = [v.norm, v.place, mlp, v.pos, ends, v.bias, variant].join("|"), row = table.designs[name];
  const eps = v.norm === "none" || (v.eps !== "0" && byKey.eps.values.includes(v.eps));
  const { base = "10000", ...others } = design.extras;
  const turns = v.pos !== "rope" || Number(v.head) % 2 === 0;
  const divides = Number(v.heads) % Number(v.kv) === 0 && (design.values.head !== "" || Number(v.d) % Number(v.heads) === 0);
  if (!row || !eps || !turns || !divides || !(Number(base) > 1) || Object.keys(others).length) return missing(spec, UNCOVERED);
  const at = {}, letters = { d: "d", L: "layers", H: "heads", k: "kv", a: "head", t: "t" };
  if (mlp !== "none") letters.f = "ff";
  if (ends !== "none") letters.V = "vocab";
  if (Number(v.window)) letters.w = "window";
  for (const letter in letters) {
    if (!/^\d+$/.test(v[letters[letter]])) return missing(spec, UNCOVERED);
    at[letter] = BigInt(v[letters[letter]]);
  }
  at.g = at.H / at.k;
  for (const [size, least] of table.limits) {
    const other = Array.isArray(least) ? least[1] : least; // what a design has not is not asked
    if (at[size] === undefined || (typeof other === "string" && at[other] === undefined)) continue;
    if (at[size] < valueOf(least, at)) return missing(spec, `the formulas of the static page need ${byKey[letters[size]].label.toLowerCase()} ≥ ${valueOf(least, at)}, and this design has ${at[size]}`);
  }
  const [sizes, regions] = row.map((n) => table.lists[n]);
  const inner = at.k * at.a, region = regions.length > 1 ? (inner < at.d ? 0 : inner === at.d ? 1 : 2) : 0;
  const costs = {};
  let parameters = 0n;
  for (const n of sizes) {
    const [what, which] = table.sizes[0][n], value = evaluated(table.sizes[1][n], at);
    if (what === "parameters") parameters += value;
    else costs[`${what} ${which}`] = value;
  }
  const symmetries = [];
  for (const n of regions[region]) {
    const [label, size, where, group, condition] = table.symmetries[0][n];
    const dimension = evaluated(table.symmetries[1][n], at);
    if (dimension) symmetries.push({ name: label.replace("#", size === "d-1" ? at.d - 1n : at[size]), where, dimension: String(dimension), group, holds: condition });
  }
  const theorem = name in table.by_theorem ? applied(table.theorems[table.by_theorem[name]], table.trees, { ...at, P: parameters }) : null;
  const cost = costs[`operations ${table.tokens[0]}`] === undefined ? null : table.tokens.map((tokens) => {
    const state = costs[`state ${tokens}`] ?? 0n;
    return { tokens, operations: String(costs[`operations ${tokens}`]), state: state < 0n ? null : String(state) };
  });
  return answered({
    spec, parameters, symmetries, theorem, cost, status: "bounded",
    known: "upper bound, counted by formulas; not proved to be reached",
    how: (total) => `${grouped(total)} symmetries of ${grouped(parameters)} parameters, counted by formulas; ` +
      (theorem ? `theorem ${theorem.name} (${theorem.title}) does not apply: ${theorem.hypotheses.filter((one) => !one.holds).map((one) => one.says).join("; ")}` : "no theorem covers this design"),
  });
}

function fixedStack(spec, design) {
  const table = DATA.stacks, v = design.values, { byKey, usual } = FAMILIES[STACK];
  const sizes = { d: "d", L: "layers", a: "a", H: "heads", t: "t" };
  if (v.dv !== NONE) sizes.v = "dv";
  const at = {}, differs = [];
  for (const key of table.keys) {
    if (!means(design, byKey[key]) || v[key] === usual[key]) continue;
    if (table.letters[key]) sizes[table.letters[key]] = key;
    const decay = key === "decay" && Number(v.decay) > 0 && Number(v.decay) < 1;
    differs.push(`${key}=${table.letters[key] ? "+" : decay ? "number" : v[key]}`);
  }
  if (v.conv !== NONE) sizes.K = "kernel", sizes.s = "stride";
  for (const letter in sizes) {
    if (!/^[1-9]\d*$/.test(v[sizes[letter]])) return missing(spec, UNCOVERED);
    at[letter] = BigInt(v[sizes[letter]]);
  }
  const row = table.rows[[v.kind, ...differs, ...(v.dv !== NONE ? ["dv"] : [])].join("/")];
  if (row === undefined || Object.keys(design.extras).length) return missing(spec, UNCOVERED);
  let parameters = 0n, valid = false;
  let symmetries = [];
  for (const [label, n] of table.lists[row]) {
    const [what, group, name] = table.labels[label], value = valueOf(table.trees[n], at);
    if (what === "parameters") parameters = value;
    else if (what === "valid") valid ||= group === (at.L > 1n ? "2" : "1") && value > 0n;
    else if (value) symmetries.push({ name: name.replace(/\{(\w)(?:-(\d))?\}/, (_, letter, less) => at[letter] - BigInt(less ?? 0)), where: group === "residual" ? "between layers" : at.L > 1n ? "all layers" : "layer 1", dimension: String(value), group });
  }
  const sum = () => symmetries.reduce((total, one) => total + BigInt(one.dimension), 0n);
  const theorem = differs.length ? null : theoremOfStack(table, v.kind, at, v.dv !== NONE);
  if (holds(theorem) && !(valid && sum() === Object.values(theorem.symmetries).reduce((x, y) => x + BigInt(y), 0n))) {
    symmetries = Object.entries(theorem.symmetries).map(([name, dimension]) => ({ name, where: "all layers", dimension, group: "" }));
  } else if (!holds(theorem) && !valid) return missing(spec, "no formula covers this mechanism at these sizes");
  return answered({
    spec, parameters, symmetries, theorem, cost: null, status: "estimated",
    known: "predicted by a formula; neither proved nor a bound",
    how: (total) => table.predicted.replace("{total}", grouped(total)).replace("{parameters}", grouped(parameters)),
  });
}

function theoremOfStack(table, kind, at, factored) {
  const of = (layers) => table.theorems[[kind, layers, at.H > 1n ? "several" : "one", factored ? "dv" : "none"].join("|")];
  const found = of(at.L > 2n ? 3 : Number(at.L));
  if (!found) return null;
  const sizes = { ...at, G: at.H - 1n }, theorem = applied(found, table.trees, sizes);
  if (at.L > 3n) {
    const two = applied(of(2), table.trees, sizes).symmetries;
    for (const name in theorem.symmetries) {
      const three = BigInt(theorem.symmetries[name]);
      theorem.symmetries[name] = String(three + (at.L - 3n) * (three - BigInt(two[name] ?? 0)));
    }
  }
  return theorem;
}
