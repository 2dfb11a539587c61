// Lists, dictionaries, sets and strings as in Python; keys are compared by value. A tuple is a list here.
let $ids = 0;
const $identities = new WeakMap();
const $identity = (x) => { if (!$identities.has(x)) $identities.set(x, ++$ids); return $identities.get(x); };
function $key(x) {
  if (typeof x === "string" || typeof x === "number" || x === null) return x;
  if (typeof x === "boolean") return Number(x);
  if (typeof x === "bigint") return `\u0000${x}`;
  if (Array.isArray(x)) {
    let found = "\u0000[";
    for (const one of x) found += `${$inner(one)},`;
    return found;
  }
  if (x instanceof $FractionKind) return x.bottom === 1n ? $key($tidy(x.top)) : `\u0000${x.__str__()}`;
  if (x instanceof $DictKind) return `\u0000{${$items(x).map($inner).sort().join(",")}}`;
  if (x instanceof $SetKind) return `\u0000{${[...x].map($inner).sort().join(",")}}`;
  if (typeof x === "object" && x.$fields) return `\u0000${$identity(x.constructor)}(${x.$fields.map(([name]) => $inner(x[name])).join(",")})`;
  return `\u0000#${$identity(x)}`;
}
const $inner = (x) => (typeof x === "string" ? `${x.length}"${x}` : String($key(x)));
class $DictKind {
  constructor(pairs) { this.map = new Map(); for (const [k, v] of pairs) this.put(k, v); }
  put(k, v) { const at = $key(k), found = this.map.get(at); found ? (found[1] = v) : this.map.set(at, [k, v]); }
  has(k) { return this.map.has($key(k)); }
  get size() { return this.map.size; }
  at(k) { const found = this.map.get($key(k)); if (!found) { if (this.counts) return 0; throw $builtin_KeyError($str(k)); } return found[1]; }
  *[Symbol.iterator]() { for (const [k] of this.map.values()) yield k; }
}
class $SetKind {
  constructor(values) { this.map = new Map(); for (const one of values) this.put(one); }
  put(one) { if (!this.map.has($key(one))) this.map.set($key(one), one); }
  has(one) { return this.map.has($key(one)); }
  get size() { return this.map.size; }
  [Symbol.iterator]() { return this.map.values(); }
}
const $dict = (pairs) => new $DictKind(pairs);
const $set = (values) => new $SetKind(values);
const $items = (x) => [...x.map.values()];
const $in = (one, many) => (typeof many === "string" ? many.includes(one) : many instanceof $DictKind || many instanceof $SetKind ? many.has(one) : (Array.isArray(many) ? many : [...many]).some((other) => $eq(one, other)));
function $at(x, n) {
  if (x instanceof $DictKind) return x.at(n);
  const place = n < 0 ? x.length + n : n;
  if (place < 0 || place >= x.length) throw $builtin_IndexError("index out of range");
  return x[place];
}
const $put = (x, n, value) => (x instanceof $DictKind ? x.put(n, value) : (x[n < 0 ? x.length + n : n] = value));
function $slice(x, from, to, step) {
  if (step === null) return x.slice(from ?? 0, to ?? undefined);
  const out = [];
  if (step > 0) for (let n = from ?? 0; n < Math.min(to ?? x.length, x.length); n += step) out.push(x[n]);
  else for (let n = from ?? x.length - 1; n > (to ?? -1); n += step) out.push(x[n]);
  return typeof x === "string" ? out.join("") : out;
}
const $unpacked = (values, before, after) => { const all = [...values], n = all.length - after; return [...all.slice(0, before), all.slice(before, n), ...all.slice(n)]; };
const $STRING = {
  join: (s) => (parts) => [...parts].join(s),
  split: (s) => (by, most = -1) => { if (most < 0) return s.split(by); const all = s.split(by); return [...all.slice(0, most), all.slice(most).join(by)].slice(0, Math.max(1, Math.min(all.length, most + 1))); },
  partition: (s) => (by) => { const n = s.indexOf(by); return n < 0 ? [s, "", ""] : [s.slice(0, n), by, s.slice(n + by.length)]; },
  replace: (s) => (one, other) => s.split(one).join(other),
  startswith: (s) => (one) => (Array.isArray(one) ? one.some((x) => s.startsWith(x)) : s.startsWith(one)),
  endswith: (s) => (one) => (Array.isArray(one) ? one.some((x) => s.endsWith(x)) : s.endsWith(one)),
  rjust: (s) => (n, by = " ") => s.padStart(n, by),
  zfill: (s) => (n) => s.padStart(n, "0"),
  rstrip: (s) => (by = " ") => { let n = s.length; while (n && by.includes(s[n - 1])) n--; return s.slice(0, n); },
  isdigit: (s) => () => /^\d+$/.test(s),
  isascii: (s) => () => [...s].every((one) => one.codePointAt(0) < 128),
  lower: (s) => () => s.toLowerCase(),
  strip: (s) => () => s.trim(),
  removeprefix: (s) => (one) => (s.startsWith(one) ? s.slice(one.length) : s),
  removesuffix: (s) => (one) => (one && s.endsWith(one) ? s.slice(0, -one.length) : s),
  index: (s) => (one) => s.indexOf(one),
  count: (s) => (one) => s.split(one).length - 1,
  splitlines: (s) => () => s.split("\n"),
};
const $LIST = {
  insert: (x) => (n, one) => void x.splice(n, 0, one),
  append: (x) => (one) => void x.push(one),
  extend: (x) => (more) => void x.push(...more),
  index: (x) => (one) => { const n = x.findIndex((other) => $eq(one, other)); if (n < 0) throw $builtin_ValueError("not in the list"); return n; },
  count: (x) => (one) => x.filter((other) => $eq(one, other)).length,
  pop: (x) => (n = -1) => x.splice(n, 1)[0],
  copy: (x) => () => [...x],
};
const $DICT = {
  items: (x) => () => $items(x),
  keys: (x) => () => [...x],
  values: (x) => () => $items(x).map((pair) => pair[1]),
  get: (x) => (k, other = null) => (x.has(k) ? x.at(k) : other),
  setdefault: (x) => (k, v = null) => { if (!x.has(k)) x.put(k, v); return x.at(k); },
  update: (x) => (more) => { for (const [k, v] of more instanceof $DictKind ? $items(more) : more) x.put(k, v); },
  pop: (x) => (k, other) => { const found = x.has(k) ? x.at(k) : other; x.map.delete($key(k)); return found; },
  copy: (x) => () => $dict($items(x)),
};
const $SET = {
  pop: (x) => () => { const [first] = x; x.map.delete($key(first)); return first; },
  add: (x) => (one) => x.put(one),
  update: (x) => (more) => { for (const one of more) x.put(one); },
  union: (x) => (more) => $set([...x, ...more]),
  difference: (x) => (less) => $sub(x, less),
  copy: (x) => () => $set(x),
};
const $kindOfMethods = (x) => (typeof x === "string" ? $STRING : Array.isArray(x) ? $LIST : x instanceof $DictKind ? $DICT : x instanceof $SetKind ? $SET : null);
function $method(x, name) {
  const kind = $kindOfMethods(x);
  if (kind && !kind[name]) throw new Error(`python.js has no method ${name}`);
  return kind ? kind[name](x) : $def((...given) => x[name](...given), x[name].$params, x[name].$rest);
}
const $call = (x, name, ...given) => ($kindOfMethods(x) ? $method(x, name)(...given) : x[name](...given));
const $pattern = (source) => ({
  split: (text) => text.split(new RegExp(source, "u")),
  fullmatch: (text) => (new RegExp(`^(?:${source})$`, "u").test(text) ? true : null),
});
