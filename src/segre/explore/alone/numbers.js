// Numbers as in Python, for the translated functions of segre: whole numbers of any size, fractions, floats.
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

class $Float {
  constructor(number) { this.number = number; }
  // as Python writes it: with an exponent below 1e-4 and from 1e16
  __str__() {
    const [digits, power] = this.number.toExponential().split("e"), n = Number(power);
    if (n >= -4 && n < 16) return Number.isInteger(this.number) ? `${this.number}.0` : String(this.number);
    return `${digits}e${n < 0 ? "-" : "+"}${String(Math.abs(n)).padStart(2, "0")}`;
  }
}
