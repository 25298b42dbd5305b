-- Question: which processes faulted how often, and got and gave back how many pages?
SELECT
    p.name AS process,
    m.syscall,
    sum(m.minor_faults + m.major_faults) AS faults,
    sum(m.allocated_pages) AS allocated_pages,
    sum(m.freed_pages) AS freed_pages,
    sum(m.zeroed_pages + m.zeroed_huge_pages) AS zeroed_pages,
    round(sum(m.call_ns) / 1e6, 3) AS calls_ms,
    round(sum(m.remote_ns) / 1e6, 3) AS other_processors_ms
FROM memory_places m
JOIN processes p ON p.process = m.process
GROUP BY m.process, p.name, m.syscall
ORDER BY faults DESC, allocated_pages DESC, m.process, m.syscall;
