// Two sides of a comparison as a tree, and how things differ in words.

/** The tree of one side: nodes `{name, total, own, other, noise, children, depth}`; `other` is the other side's time. */
export function sideTree(nodes, side) {
  const other = side === "after" ? "before" : "after";
  const made = nodes.name.map((name, i) => ({ name, total: nodes[side][i], other: nodes[other][i], noise: Boolean(nodes.noise[i]), children: [], depth: 0 }));
  for (let i = made.length - 1; i >= 0; i -= 1) {
    const children = made.slice(nodes.first[i], nodes.end[i]).filter((child) => child.total > 0);
    made[i].children = children;
    made[i].depth = children.reduce((most, child) => Math.max(most, child.depth + 1), 0);
  }
  return made[0];
}

const GREW = [0xc8, 0x28, 0x1e];
const SHRANK = [0x1e, 0x64, 0xb4];
const SAME = [0xe4, 0xe2, 0xda];

/** Red for what grew, blue for what shrank, full from a difference of half the greater side on; grey where chance explains it. */
export function changeColor({ total, other, noise }, side) {
  if (noise) return SAME;
  const [after, before] = side === "after" ? [total, other] : [other, total];
  const part = Math.min(1, Math.abs(after - before) / Math.max(after, before) / 0.5);
  return SAME.map((from, i) => Math.round(from + ((after > before ? GREW : SHRANK)[i] - from) * part));
}

/** +20.0 %, new, gone. */
export function changeText(before, after) {
  if (!before) return after ? "new" : "-";
  if (!after) return "gone";
  const share = (100 * (after - before)) / before;
  return `${share > 0 ? "+" : share < 0 ? "−" : ""}${Math.abs(share).toFixed(1)} %`;
}
