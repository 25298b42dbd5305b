// Numbers and names for people, as the terminal has them.

/** 1.23 s, 212 ms, 3.40 µs. */
export function duration(ns) {
  if (ns === 0) return "0 s";
  if (ns < 1000) return `${Math.round(ns)} ns`;
  const units = [[1e3, "µs"], [1e6, "ms"], [1e9, "s"]];
  const [unit, name] = units.find(([unit]) => ns / unit < 999.5) ?? units[2];
  return `${digits(ns / unit)} ${name}`;
}

function digits(value) {
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

/** A part of a whole: 12.3 %, <0.1 %. */
export function percent(part, whole) {
  if (!whole) return "-";
  const share = (100 * part) / whole;
  if (share === 0) return "0 %";
  return share < 0.05 ? "<0.1 %" : `${share.toFixed(1)} %`;
}

/** 4, 9 999, 12.3k. */
export function count(n) {
  if (n < 1000) return String(n);
  if (n < 10000) return `${Math.floor(n / 1000)} ${String(n % 1000).padStart(3, "0")}`;
  return n < 999500 ? `${digits(n / 1e3)}k` : `${digits(n / 1e6)}M`;
}

/** The middle cut out, so that at most `most` characters are left. */
export function shorten(name, most) {
  if (name.length <= most) return name;
  if (most < 3) return "";
  const tail = Math.floor((most - 1) / 3);
  return `${name.slice(0, most - 1 - tail)}…${tail ? name.slice(-tail) : ""}`;
}
