// What the translated functions of segre need of Python: numbers, containers, classes, formats.
const $tidy = (big) => (big >= -9007199254740991n && big <= 9007199254740991n ? Number(big) : big);
const $big = (x) => (typeof x === "bigint" ? x : BigInt(typeof x === "boolean" ? Number(x) : x));
const $isInt = (x) => typeof x === "number" || typeof x === "bigint" || typeof x === "boolean";
function $whole(x, y, small, large) {
  if (typeof x === "number" && typeof y === "number") {
    const found = small(x, y);
    if (Number.isSafeInteger(found)) return found;
  }
  return $tidy(large($big(x), $big(y)));
}
const $float = (number) => new $Float(number);
const $number = (x) => (x instanceof $Float ? x.number : x instanceof $FractionKind ? Number(x.top) / Number(x.bottom) : Number(x));
const $exact = (x) => (x instanceof $FractionKind ? x : $Fraction(x));
function $numeric(x, y, small, large, fractions) {
  if ($isInt(x) && $isInt(y)) return $whole(x, y, small, large);
  if (x instanceof $Float || y instanceof $Float) return $float(small($number(x), $number(y)));
  if ((x instanceof $FractionKind || $isInt(x)) && (y instanceof $FractionKind || $isInt(y))) return fractions($exact(x), $exact(y));
  throw $builtin_TypeError("these values have no such operation");
}
function $add(x, y) {
  if (typeof x === "string" && typeof y === "string") return x + y;
  if (Array.isArray(x) && Array.isArray(y)) return [...x, ...y];
  return $numeric(x, y, (a, b) => a + b, (a, b) => a + b, (a, b) => $ratio(a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom));
}
function $sub(x, y) {
  if (x instanceof $SetKind) return $set([...x].filter((one) => !y.has(one)));
  return $numeric(x, y, (a, b) => a - b, (a, b) => a - b, (a, b) => $ratio(a.top * b.bottom - b.top * a.bottom, a.bottom * b.bottom));
}
function $mul(x, y) {
  if (Array.isArray(y) || typeof y === "string") [x, y] = [y, x];
  if (typeof x === "string") return x.repeat(Math.max(0, Number(y)));
  if (Array.isArray(x)) return Array.from({ length: Math.max(0, Number(y)) }, () => x).flat(1);
  return $numeric(x, y, (a, b) => a * b, (a, b) => a * b, (a, b) => $ratio(a.top * b.top, a.bottom * b.bottom));
}
const $floorBig = (x, y) => x / y - (x % y !== 0n && (x < 0n) !== (y < 0n) ? 1n : 0n);
function $floordiv(x, y) {
  if ($eq(y, 0)) throw $builtin_ZeroDivisionError("division by zero");
  return $numeric(x, y, (a, b) => Math.floor(a / b), $floorBig, (a, b) => $tidy($floorBig(a.top * b.bottom, a.bottom * b.top)));
}
function $mod(x, y) {
  if ($eq(y, 0)) throw $builtin_ZeroDivisionError("division by zero");
  return $sub(x, $mul(y, $floordiv(x, y)));
}
const $div = (x, y) => {
  if (!(x instanceof $FractionKind || y instanceof $FractionKind)) return $float($number(x) / $number(y));
  const a = $exact(x), b = $exact(y);
  if (b.top === 0n) throw $builtin_ZeroDivisionError("division by zero");
  return $ratio(a.top * b.bottom, a.bottom * b.top);
};
const $pow = (x, y) => (x instanceof $FractionKind ? $ratio(x.top ** $big(y), x.bottom ** $big(y)) : $tidy($big(x) ** $big(y)));
const $shift = (x, y) => $mul(x, $pow(2, y));
function $or(x, y) {
  if (x instanceof $DictKind) return $dict([...$items(x), ...$items(y)]);
  if (x instanceof $SetKind) return $set([...x, ...y]);
  if (typeof x === "boolean" && typeof y === "boolean") return x || y;
  return $tidy($big(x) | $big(y));
}
const $intersection = (x, y) => (x instanceof $SetKind ? $set([...x].filter((one) => y.has(one))) : $tidy($big(x) & $big(y)));
function $lt(x, y) {
  if (x instanceof $Float || y instanceof $Float) return $number(x) < $number(y);
  if (x instanceof $FractionKind || y instanceof $FractionKind) {
    const a = $exact(x), b = $exact(y);
    return a.top * b.bottom < b.top * a.bottom;
  }
  if (Array.isArray(x)) {
    for (let n = 0; n < Math.min(x.length, y.length); n++) if (!$eq(x[n], y[n])) return $lt(x[n], y[n]);
    return x.length < y.length;
  }
  return x < y;
}
function $eq(x, y) {
  if (x === y) return true;
  if (x === null || y === null || typeof x === "string" || typeof y === "string") return false;
  if ($isInt(x) && $isInt(y)) return x == y;
  if (x instanceof $Float || y instanceof $Float) return $number(x) === $number(y);
  if (x instanceof $FractionKind || y instanceof $FractionKind) {
    if (![x, y].every((one) => one instanceof $FractionKind || $isInt(one))) return false;
    const a = $exact(x), b = $exact(y);
    return a.top === b.top && a.bottom === b.bottom;
  }
  if (typeof x !== "object" || typeof y !== "object") return false;
  if (Array.isArray(x) && Array.isArray(y)) return x.length === y.length && x.every((one, n) => $eq(one, y[n]));
  return $key(x) === $key(y);
}
const $truth = (x) => {
  if (x === null || x === undefined || x === false || x === "" || x === 0) return false;
  if (Array.isArray(x)) return x.length > 0;
  if (x instanceof $DictKind || x instanceof $SetKind) return x.size > 0;
  if (x instanceof $FractionKind) return x.top !== 0n;
  if (x instanceof $Float) return x.number !== 0;
  return typeof x === "object" && x.__bool__ ? x.__bool__() : true;
};
const $both = (x, then) => ($truth(x) ? then() : x);
const $either = (x, then) => ($truth(x) ? x : then());

// ---- fractions ---------------------------------------------------------------------------------
class $FractionKind {
  constructor(top, bottom) { this.top = top, this.bottom = bottom; }
  get numerator() { return $tidy(this.top); }
  get denominator() { return $tidy(this.bottom); }
  __str__() { return this.bottom === 1n ? String(this.top) : `${this.top}/${this.bottom}`; }
}
function $ratio(top, bottom) {
  if (bottom < 0n) top = -top, bottom = -bottom;
  let a = top < 0n ? -top : top, b = bottom;
  while (b) [a, b] = [b, a % b];
  return new $FractionKind(top / (a || 1n), bottom / (a || 1n));
}
function $Fraction(top = 0, bottom = 1) {
  if (top instanceof $FractionKind) return top;
  if (typeof top !== "string") return $ratio($big(top), $big(bottom));
  const found = /^(-?\d+)(?:\/(\d+)|(?:\.(\d*))?(?:e([+-]?\d+))?)$/.exec(top);
  if (!found) throw $builtin_ValueError(`${top} is not a fraction`);
  const [, whole, under, after = "", power = "0"] = found;
  if (under !== undefined) return $ratio(BigInt(whole), BigInt(under));
  const shift = Number(power) - after.length, digits = BigInt(whole + after);
  return shift < 0 ? $ratio(digits, 10n ** BigInt(-shift)) : $ratio(digits * 10n ** BigInt(shift), 1n);
}
$Fraction.$kind = $FractionKind;

// ---- containers --------------------------------------------------------------------------------
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

// ---- functions and classes ---------------------------------------------------------------------
const $def = (f, params, rest) => Object.assign(f, { $params: params, $rest: rest });
function $keyed(f, given, words) {
  if (f.$named) return f.$named(given, $dict(words));
  if (!f.$params) throw new Error(`python.js: ${f.name} takes no keywords`);
  const args = [...given], more = [];
  for (const [name, value] of words) {
    const place = f.$params.indexOf(name);
    if (place < 0 && !f.$rest) throw $builtin_TypeError(`unexpected keyword ${name}`);
    place < 0 ? more.push([name, value]) : (args[place] = value);
  }
  if (f.$rest) args[f.$params.length] = $dict(more);
  return f(...args);
}
const $missing = (name) => () => { throw new Error(`${name} is not part of the static page`); };
function $memo(f) {
  const kept = new Map();
  const own = (...given) => {
    const at = given.map((one) => (one !== null && typeof one === "object" && one.$fields ? `#${$identity(one)}` : String($key(one)))).join("|");
    if (!kept.has(at)) kept.set(at, f(...given));
    return kept.get(at);
  };
  return Object.defineProperties(own, { $params: { get: () => f.$params }, $rest: { get: () => f.$rest } });
}
const $dispatch = (kinds) => (x, ...more) => kinds.find(([kind]) => $isinstance(x, kind))[1](x, ...more);
const $bound = (x, name) => (...given) => x[name](...given);
const $partial = (f, ...first) => (...given) => f(...first, ...given);
class $Base {}
const $Object = Object.assign(() => new $Base(), { $kind: $Base });
class $Failure extends Error { __str__() { return this.message; } }
const $Exception = Object.assign((message = "") => new $Failure(message), { $kind: $Failure });
function $class(name, base, fields, members) {
  const kind = class extends base.$kind {};
  const own = (...given) => {
    if (base.$failure || base === $Exception) return new kind(given.map($str).join(" "));
    const made = new kind();
    if (fields) fields.forEach(([key, usual], n) => {
      if (given[n] === undefined && !usual) throw $builtin_TypeError(`${name} needs ${key}`);
      made[key] = given[n] === undefined ? usual() : given[n];
    });
    made.__init__?.(...given);
    made.__post_init__?.();
    return made;
  };
  for (const [key, [how, f]] of Object.entries(members)) {
    const params = f?.$params?.slice(1);
    if (how === "get") Object.defineProperty(kind.prototype, key, { get() { return f(this); }, configurable: true });
    else if (how === "cached") Object.defineProperty(kind.prototype, key, { get() { const found = f(this); Object.defineProperty(this, key, { value: found }); return found; }, configurable: true });
    else if (how === "class") own[key] = $def((...given) => f(own, ...given), params, f.$rest);
    else if (how === "static") own[key] = f, kind.prototype[key] = f;
    else if (how === "value") kind.prototype[key] = f, own[key] = f;
    else kind.prototype[key] = $def(function (...given) { return f(this, ...given); }, params, f.$rest);
  }
  for (const key of Object.keys(base)) if (!(key in own)) own[key] = base[key];
  if (fields) kind.prototype.$fields = fields;
  kind.prototype.$factory = own;
  return Object.assign(own, { $kind: kind, $failure: base === $Exception || base.$failure, $params: fields?.map(([key]) => key), __name__: name });
}
function $isinstance(x, kinds) {
  if (Array.isArray(kinds)) return kinds.some((kind) => $isinstance(x, kind));
  if (kinds.$test) return kinds.$test(x);
  return x instanceof kinds.$kind;
}
const $dataclasses_replace = $def((x, words) => {
  const given = x.$fields.map(([name]) => (words.has(name) ? words.at(name) : x[name]));
  return x.$factory(...given);
}, ["x"], "words");
const $dataclasses_asdict = (x) => $dict(x.$fields.map(([name]) => [name, x[name]]));
const $json_dumps = Object.assign((x) => $str(x), { $named: ([x]) => $str(x) });
const $raised = (x) => (typeof x === "function" ? x() : x);
const $get_args = (x) => x;

// ---- text --------------------------------------------------------------------------------------
function $str(x) {
  if (x === null || x === undefined) return "None";
  if (typeof x === "boolean") return x ? "True" : "False";
  if (typeof x === "string" || typeof x === "number" || typeof x === "bigint") return String(x);
  if (Array.isArray(x)) return `[${x.map($builtin_repr).join(", ")}]`;
  if (x instanceof $DictKind) return `{${$items(x).map(([k, v]) => `${$builtin_repr(k)}: ${$builtin_repr(v)}`).join(", ")}}`;
  return x.__str__ ? x.__str__() : `<${x.constructor.name}>`;
}
function $format(x, how) {
  if (how === ",") return String(x).replace(/\B(?=(\d{3})+$)/g, ",");
  if (how) throw new Error(`python.js has no format ${how}`);
  return $str(x);
}
class $Float {
  constructor(number) { this.number = number; }
  // as Python writes it: with an exponent below 1e-4 and from 1e16
  __str__() {
    const [digits, power] = this.number.toExponential().split("e"), n = Number(power);
    if (n >= -4 && n < 16) return Number.isInteger(this.number) ? `${this.number}.0` : String(this.number);
    return `${digits}e${n < 0 ? "-" : "+"}${String(Math.abs(n)).padStart(2, "0")}`;
  }
}

// ---- builtins ----------------------------------------------------------------------------------
const $kindOf = (f, test, $params) => Object.assign(f, { $test: test, $params });
const $builtin_int = $kindOf((x) => (typeof x === "string" ? $tidy(BigInt(x)) : x instanceof $FractionKind ? $tidy(x.top / x.bottom) : Number(x)), $isInt);
const $builtin_bool = $kindOf((x) => $truth(x), (x) => typeof x === "boolean");
const $builtin_str = $kindOf($str, (x) => typeof x === "string");
const $builtin_float = $kindOf((x) => $float($number(x)), (x) => x instanceof $Float);
const $builtin_list = $kindOf((x = []) => [...x], Array.isArray);
const $builtin_tuple = $kindOf((x = []) => [...x], Array.isArray);
const $builtin_dict = $def($kindOf((x = [], words = null) => $dict([...(x instanceof $DictKind ? $items(x) : x), ...(words ? $items(words) : [])]), (x) => x instanceof $DictKind), ["x"], "words");
$builtin_dict.fromkeys = (keys, value = null) => $dict([...keys].map((one) => [one, value]));
const $builtin_set = $kindOf((x = []) => $set(x), (x) => x instanceof $SetKind), $builtin_frozenset = $builtin_set;
const $Counter = (x = []) => { const found = $dict([]); found.counts = true; for (const one of x) found.put(one, found.at(one) + 1); return found; };
const $builtin_object = Object.assign($Object, { __setattr__: (x, name, value) => void (x[name] = value) });
const $builtin_len = (x) => (typeof x === "string" || Array.isArray(x) ? x.length : x.size ?? x.__len__());
function* $range(from, to, step) { for (let n = from; step > 0 ? n < to : n > to; n += step) yield n; }
const $builtin_range = (from, to, step = 1) => [...(to === undefined ? $range(0, from, 1) : $range(from, to, step))];
function $chosen(values, better, key, other) {
  if (!values.length) { if (other !== undefined) return other; throw $builtin_ValueError("nothing to choose from"); }
  let best = values[0], at = key ? key(best) : best;
  for (const one of values.slice(1)) {
    const here = key ? key(one) : one;
    if (better(here, at)) [best, at] = [one, here];
  }
  return best;
}
const $extreme = (better) => Object.assign((...given) => $chosen(given.length > 1 ? given : [...given[0]], better), {
  $named: (given, words) => $chosen(given.length > 1 ? given : [...given[0]], better, words.has("key") ? words.at("key") : undefined, words.has("default") ? words.at("default") : undefined),
});
const $builtin_min = $extreme((x, y) => $lt(x, y)), $builtin_max = $extreme((x, y) => $lt(y, x));
const $builtin_sum = (x, start = 0) => { let total = start; for (const one of x) total = $add(total, one); return total; };
const $builtin_any = (x) => { for (const one of x) if ($truth(one)) return true; return false; };
const $builtin_all = (x) => { for (const one of x) if (!$truth(one)) return false; return true; };
const $builtin_abs = (x) => ($lt(x, 0) ? $sub(0, x) : x);
function $builtin_round(x) { // halves to even, as in Python
  if ($isInt(x)) return x;
  const low = Math.floor(x.number), over = x.number - low;
  const found = over > 0.5 || (over === 0.5 && low % 2 !== 0) ? low + 1 : low;
  return $tidy(BigInt(found));
}
const $builtin_reversed = (x) => [...x].reverse();
const $builtin_sorted = $def((x, key = null, reverse = false) => {
  const found = [...x].sort((a, b) => { const [p, q] = key ? [key(a), key(b)] : [a, b]; return $lt(p, q) ? -1 : $lt(q, p) ? 1 : 0; });
  return reverse ? found.reverse() : found;
}, ["x", "key", "reverse"], "");
const $builtin_zip = (...many) => { const all = many.map((one) => [...one]), n = Math.min(...all.map((one) => one.length)); return Array.from({ length: all.length ? n : 0 }, (_, i) => all.map((one) => one[i])); };
$builtin_zip.$named = (given) => $builtin_zip(...given); // strict
const $builtin_enumerate = (x, start = 0) => [...x].map((one, n) => [n + start, one]);
const $builtin_map = (f, ...many) => $builtin_zip(...many).map((given) => f(...given));
const $builtin_filter = (f, x) => [...x].filter((one) => $truth(f === null ? one : f(one)));
const $builtin_next = (x, other) => { const it = x[Symbol.iterator](), { value, done } = it.next(); if (!done) return value; if (other === undefined) throw $builtin_ValueError("nothing is left"); return other; };
const $builtin_iter = (x) => x[Symbol.iterator]();
const $builtin_isinstance = $isinstance;
const $builtin_getattr = (x, name, other) => { const found = x[name]; if (found === undefined && other !== undefined) return other; return found; };
const $builtin_type = (x) => (x instanceof $FractionKind ? $Fraction : x.$factory ?? (typeof x === "string" ? $builtin_str : $builtin_int));
const $builtin_repr = (x) => (typeof x === "string" ? (x.includes("'") && !x.includes('"') ? `"${x}"` : `'${x.replace(/\\/g, "\\\\").replace(/'/g, "\\'")}'`) : $str(x));
const $failures = (name, base = $Exception) => $class(name, base, null, {});
const $builtin_Exception = $Exception;
const $builtin_ArithmeticError = $failures("ArithmeticError"), $builtin_LookupError = $failures("LookupError");
const $builtin_ValueError = $failures("ValueError"), $builtin_TypeError = $failures("TypeError"), $builtin_AssertionError = $failures("AssertionError");
const $builtin_KeyError = $failures("KeyError", $builtin_LookupError), $builtin_IndexError = $failures("IndexError", $builtin_LookupError);
const $builtin_ZeroDivisionError = $failures("ZeroDivisionError", $builtin_ArithmeticError), $builtin_OverflowError = $failures("OverflowError", $builtin_ArithmeticError);
const $math_prod = (x) => { let total = 1; for (const one of x) total = $mul(total, one); return total; };
const $math_comb = (n, k) => { let found = 1n; for (let i = 0n; i < $big(k); i++) found = (found * ($big(n) - i)) / (i + 1n); return $tidy(found); };
const $itertools_pairwise = (x) => { const all = [...x]; return all.slice(1).map((one, n) => [all[n], one]); };
function* $itertools_product(first = [[]], ...rest) {
  for (const one of first) for (const others of rest.length ? $itertools_product(...rest) : [[]]) yield [one, ...others];
}
const $itertools_combinations = (x, k) => { const all = [...x]; return k === 0 ? [[]] : all.flatMap((one, n) => $itertools_combinations(all.slice(n + 1), k - 1).map((rest) => [one, ...rest])); };
const $itertools_accumulate = $def((x, initial = null) => { const out = initial === null ? [] : [initial]; for (const one of x) out.push(out.length ? $add(out.at(-1), one) : one); return out; }, ["x", "initial"], "");
const $MISSING = {}; // a field without a default
const $same = (x) => x;
// What a translated function returns, as the rest of the page reads it.
const $told = (x) => {
  if (x instanceof $DictKind) return Object.fromEntries($items(x).map(([key, value]) => [key, $told(value)]));
  return Array.isArray(x) ? x.map($told) : x;
};
