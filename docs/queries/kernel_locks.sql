-- Question: for which locks of the kernel did threads wait longest?
SELECT
    p.name AS process,
    k.kind,
    k.access,
    printf('0x%x', k.address) AS address,
    sum(k.waits) AS waits,
    round(sum(k.waited_ns) / 1e6, 3) AS waited_ms,
    round(max(k.max_ns) / 1e3, 3) AS longest_us
FROM kernel_locks k
JOIN processes p ON p.process = k.process
GROUP BY k.process, p.name, k.kind, k.access, k.address
ORDER BY sum(k.waited_ns) DESC, k.process, k.address;
