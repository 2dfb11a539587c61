// Functions with keywords, classes, exceptions and builtins as in Python.
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
const $memories = [];
// What was computed for earlier designs is forgotten when it becomes much.
const $forget = () => { for (const kept of $memories) if (kept.size > 4000) kept.clear(); };
function $memo(f) {
  const kept = new Map();
  $memories.push(kept);
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
  for (const key of Reflect.ownKeys(members)) {
    const [how, f] = members[key];
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
function* $entries(x) { for (const [name] of x.$fields) yield x[name]; } // of a named tuple
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
