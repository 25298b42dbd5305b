-- Question: how does the time of every process divide by state and reason?
SELECT
    p.process,
    p.pid,
    p.name,
    w.state,
    w.reason,
    round(sum(w.weight_ns) / 1e6, 3) AS ms,
    round(100 * sum(w.weight_ns) / sum(sum(w.weight_ns)) OVER (PARTITION BY p.process), 2) AS percent
FROM weighted_stacks w
JOIN threads t ON t.thread = w.thread
JOIN processes p ON p.process = t.process
GROUP BY p.process, p.pid, p.name, w.state, w.reason
ORDER BY p.process, ms DESC, w.state, w.reason;
