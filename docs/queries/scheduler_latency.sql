-- Question: which threads waited longest for a processor, and how long at a time?
SELECT
    p.name AS process,
    t.name AS thread_name,
    t.tid,
    round(t.runnable_ns / 1e6, 3) AS runnable_ms,
    round(100 * t.runnable_ns / nullif(t.until_ns - t.start_ns, 0), 2) AS percent_of_life,
    round(100 * t.runnable_ns / nullif(t.runnable_ns + t.running_ns, 0), 2) AS percent_of_wanted,
    t.voluntary_switches + t.involuntary_switches AS switches,
    round(t.runnable_ns / nullif(t.voluntary_switches + t.involuntary_switches, 0) / 1e3, 1) AS mean_us,
    round((SELECT max(w.runnable_ns) FROM slices w WHERE w.thread = t.thread) / 1e3, 1) AS longest_kept_us
FROM threads t JOIN processes p ON p.process = t.process
ORDER BY t.runnable_ns DESC, t.thread;
