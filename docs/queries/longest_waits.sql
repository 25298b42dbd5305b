-- Question: which single waits were longest, and who ended them, from where?
SELECT
    round((w.start_ns - (SELECT (json ->> '$.start_ns')::BIGINT FROM meta)) / 1e6, 3) AS at_ms,
    t.name AS thread_name,
    t.tid,
    s.reason,
    s.syscall,
    round(w.blocked_ns / 1e6, 3) AS blocked_ms,
    round(w.runnable_ns / 1e6, 3) AS runnable_ms,
    CASE WHEN w.waker_name = '' THEN '[nobody]' ELSE w.waker_name END AS waker,
    w.waker_tid,
    n.folded AS stack,
    k.folded AS waker_stack
FROM slices w
JOIN threads t ON t.thread = w.thread
JOIN sites s ON s.site = w.site
LEFT JOIN stack_names n ON n.stack = w.stack
LEFT JOIN stack_names k ON k.stack = w.waker_stack
ORDER BY w.blocked_ns DESC, w.start_ns, w.thread
LIMIT 20;
