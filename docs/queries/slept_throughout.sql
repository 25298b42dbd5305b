-- Question: which threads never ran in the whole window?
SELECT p.name AS process, p.pid, t.name AS thread_name, t.tid, round(t.blocked_ns / 1e9, 3) AS blocked_s
FROM threads t JOIN processes p ON p.process = t.process
WHERE t.running_ns = 0 AND t.voluntary_switches = 0 AND t.involuntary_switches = 0 AND t.blocked_ns > 0
ORDER BY p.pid, t.tid;
