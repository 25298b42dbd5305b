// Who waits for whom as a picture of two sides: those who wait on the left, those who end it on the right.

/**
 * Places pairs `{from, to, ns}` on two sides: `{left, right, bands}`. A side is `[{name, ns, y, height}]`, the longest first; a band is
 * `{from, to, ns, fromY, toY, height}`. `y` and `height` are in parts of 1; every name has at least `least`, for its words. Beyond
 * `most` names a side has one more, for the others.
 */
export function sides(pairs, most, least) {
  const left = sums(pairs, "from", most);
  const right = sums(pairs, "to", most);
  const total = pairs.reduce((sum, pair) => sum + pair.ns, 0);
  const longer = Math.max(left.size, right.size);
  const scale = total ? Math.max(0, 1 - least * longer) / total : 0;
  place(left, scale, least);
  place(right, scale, least);
  const joined = new Map();
  for (const { from, to, ns } of pairs) {
    const [a, b] = [left.has(from) ? from : OTHERS, right.has(to) ? to : OTHERS];
    const key = `${a}\u0000${b}`;
    const known = joined.get(key) ?? { from: a, to: b, ns: 0 };
    known.ns += ns;
    joined.set(key, known);
  }
  const bands = [...joined.values()].sort((a, b) => b.ns - a.ns);
  for (const band of bands) {
    const [from, to] = [left.get(band.from), right.get(band.to)];
    band.height = band.ns * scale;
    band.fromY = from.y + from.used;
    band.toY = to.y + to.used;
    from.used += band.height;
    to.used += band.height;
  }
  return { left: [...left.values()], right: [...right.values()], bands };
}

export const OTHERS = "others";

/** Time by name, the longest first. */
function sums(pairs, key, most) {
  const all = new Map();
  for (const pair of pairs) all.set(pair[key], (all.get(pair[key]) ?? 0) + pair.ns);
  const sorted = [...all].sort((a, b) => b[1] - a[1]);
  const kept = sorted.slice(0, most);
  const rest = sorted.slice(most).reduce((sum, [, ns]) => sum + ns, 0);
  if (rest) kept.push([OTHERS, rest]);
  return new Map(kept.map(([name, ns]) => [name, { name, ns, used: 0 }]));
}

function place(side, scale, least) {
  let y = 0;
  for (const at of side.values()) {
    at.height = at.ns * scale;
    at.y = y + least / 2;
    y += at.height + least;
  }
}
