// What is asked of the simulation, and its figures in words.

/** Numbers of threads to try around those that there are and those that are asked for, in their order. */
export function sweep(there, asked) {
  const most = Math.max(2 * there, 2 * (asked || 0), 8);
  const doubled = [];
  for (let n = 1; n <= Math.min(most, 256); n *= 2) doubled.push(n);
  return [...new Set([...doubled, there, ...(asked ? [asked] : [])])].sort((a, b) => a - b);
}

/** A figure with its bounds: 1.97 [1.96, 2.01]. */
export function wideText({ low, likely, high }) {
  return `${likely.toFixed(2)} [${low.toFixed(2)}, ${high.toFixed(2)}]`;
}
