// The recording, from the text in the page to columns that views read.

/** What the page has: base64 of gzip of JSON. */
export async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** Makes the columns of a payload. Times are ns from the window's start. */
export function recording(payload) {
  const { moments, threads } = payload;
  const total = moments.ns.length;
  const start = new Float64Array(total);
  const thread = new Uint32Array(total);
  const first = [0];
  let at = 0;
  moments.count.forEach((many, number) => {
    let time = 0;
    for (const end = at + many; at < end; at += 1) {
      start[at] = time + moments.gap[at];
      time = start[at] + moments.ns[at];
      thread[at] = number;
    }
    first.push(at);
  });
  const states = payload.states.map(([name, reason, color]) => ({
    name, reason, color,
    label: reason || { runnable: "wants a CPU", running: "running" }[name] || name,
    onCpu: name === "running" || name === "spinning",
  }));
  return {
    answer: payload.answer,
    locks: payload.locks,
    timelines: payload.timelines,
    remedies: payload.remedies,
    couldNotLook: payload.answer.could_not_look,
    reduced: payload.reduced,
    window: payload.answer.recording.window_ns,
    states,
    functions: payload.functions,
    kernel: payload.kernel,
    places: new Map(payload.places),
    paths: payload.paths,
    syscalls: payload.syscalls,
    threads,
    entries: payload.entries,
    memoryKinds: payload.memory_work.kinds,
    memoryWork: new Map(payload.memory_work.paths),
    moments: {
      first, start, thread,
      ns: Float64Array.from(moments.ns),
      state: Uint8Array.from(moments.state),
      path: Uint32Array.from(moments.path),
      waker: Uint32Array.from(moments.waker),
      wakers: moments.wakers,
      lock: Uint16Array.from(moments.lock),
    },
  };
}

/** `process/thread (tid)`. */
export function threadName(rec, thread) {
  const { process, name, tid } = rec.threads;
  const who = process[thread] === name[thread] ? name[thread] : `${process[thread]}/${name[thread]}`;
  return `${who} (${tid[thread]})`;
}

/** The last moment of a thread that begins at `time` or before; -1 is none. */
export function momentBefore(rec, thread, time) {
  const { first, start } = rec.moments;
  let low = first[thread];
  let high = first[thread + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (start[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low > first[thread] ? low - 1 : -1;
}

/** The moment of a thread that `time` lies in; -1 is none. */
export function momentAt(rec, thread, time) {
  const at = momentBefore(rec, thread, time);
  return at >= 0 && time < rec.moments.start[at] + rec.moments.ns[at] ? at : -1;
}

/** Who ended the wait that a moment is: `{thread, name}`; null when that is not known. */
export function wakerOf(rec, moment) {
  const number = rec.moments.waker[moment];
  if (!number) return null;
  const [thread, name] = rec.moments.wakers[number - 1];
  return { thread, name: thread >= 0 ? threadName(rec, thread) : name };
}
