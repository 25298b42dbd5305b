-- Question: does every thread's time add up, by its exact sums and by its weighted stacks?
-- off_ns is what running + runnable + stolen + blocked + lost miss of the thread's life in the window.
WITH weighted AS (SELECT thread, sum(weight_ns) AS weight_ns FROM weighted_stacks GROUP BY thread)
SELECT
    t.thread,
    t.tid,
    t.name,
    t.until_ns - t.start_ns AS lifetime_ns,
    t.running_ns,
    t.runnable_ns,
    t.stolen_ns,
    t.blocked_ns,
    t.lost_ns,
    t.until_ns - t.start_ns - t.running_ns - t.runnable_ns - t.stolen_ns - t.blocked_ns - t.lost_ns AS off_ns,
    round(coalesce(w.weight_ns, 0) - (t.until_ns - t.start_ns))::BIGINT AS weighted_off_ns,
    abs(off_ns) <= 0.001 * lifetime_ns AS closed
FROM threads t LEFT JOIN weighted w ON w.thread = t.thread
ORDER BY abs(off_ns) DESC, t.thread;
