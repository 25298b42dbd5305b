-- Question: at which places did threads leave the processor, how often and for how long, exactly?
SELECT
    p.name AS process,
    t.name AS thread_name,
    t.tid,
    CASE WHEN s.reason = '' THEN '[preempted]' ELSE s.reason END AS reason,
    s.syscall,
    printf('0x%x', s.pc) AS pc,
    sum(u.count) AS waits,
    round(sum(u.blocked_ns) / 1e6, 3) AS blocked_ms,
    round(sum(u.runnable_ns) / 1e6, 3) AS runnable_ms,
    round(sum(u.blocked_ns) / nullif(sum(u.count), 0) / 1e3, 1) AS mean_us,
    round(max(u.max_ns) / 1e3, 1) AS max_us
FROM site_times u
JOIN sites s ON s.site = u.site
JOIN threads t ON t.thread = s.thread
JOIN processes p ON p.process = t.process
GROUP BY s.site, p.name, t.name, t.tid, s.reason, s.syscall, s.pc
ORDER BY sum(u.blocked_ns) + sum(u.runnable_ns) DESC, s.site;
