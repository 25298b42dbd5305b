"""Threads that wait for a lock, for work, and for the interpreter's own lock."""
import queue
import threading
import time

ROUNDS = 150
lock = threading.Lock()
waited = {"Python threading.Lock lock": 0, "Python threading.Lock idle": 0}


def hot():
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        with lock:
            waited["Python threading.Lock lock"] += time.perf_counter_ns() - start
            time.sleep(0.002)


def take(jobs):
    while True:
        start = time.perf_counter_ns()
        job = jobs.get()
        waited["Python threading.Lock idle"] += time.perf_counter_ns() - start
        if job is None:
            return


def give(jobs):
    for job in range(ROUNDS):
        time.sleep(0.003)
        jobs.put(job)
    jobs.put(None)


def compute():
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        sum(range(1000))


jobs = queue.SimpleQueue()
threads = [threading.Thread(target=f, args=a) for f, a in
           [(hot, ()), (hot, ()), (hot, ()), (take, (jobs,)), (give, (jobs,)), (compute, ()), (compute, ())]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for kind, ns in waited.items():
    print(kind, ns)
