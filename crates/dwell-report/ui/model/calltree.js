// The call tree as rows: what is open of it, in the order that a table shows.

/** Ways to order what lies below one node. */
export const ORDERS = {
  total: (a, b) => b.total - a.total,
  own: (a, b) => b.own - a.own || b.total - a.total,
  name: (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0),
};

/** Opens what has no choice below `node`: as long as one child has nearly all of its time. */
export function openWay(node, open) {
  for (let at = node; at && at.children.length; at = at.children[0].total >= 0.95 * at.total ? at.children[0] : null) open.add(at);
}

/** Rows `{node, depth}` of a tree, the children of the nodes in `open` after them. */
export function openRows(root, open, order, most) {
  const rows = [];
  const waiting = [...root.children].sort(ORDERS[order]).reverse().map((node) => ({ node, depth: 0 }));
  while (waiting.length && rows.length < most) {
    const row = waiting.pop();
    rows.push(row);
    if (!open.has(row.node)) continue;
    const below = [...row.node.children].sort(ORDERS[order]).reverse();
    waiting.push(...below.map((node) => ({ node, depth: row.depth + 1 })));
  }
  return rows;
}
