"""frames.py - threads of Python that stand in known places, and busy ones.

What it does: `wait` (default): twelve threads go to known places and sleep there, in naps of 20 ms; `stand`: the same, but for
ever. When all are there it writes what the interpreter says of each (one JSON line: thread id -> [function, file, line],
innermost first). `busy SECONDS`: two threads compute, `most` for two thirds of
the time and `rest` for one. `join SECONDS`: the first thread does nothing but wait for another one, and then ends.
`recursion SECONDS`: a function computes that was called by one that has called itself 900 times. `replaced ROUNDS`:
functions that are made, run for a second each, and go. `imports MODULES`: modules that take 40 ms each while they are imported,
every other one imported by the one before.
"""
import asyncio
import functools
import json
import queue
import sys
import tempfile
import threading
import time

PLACES = []
STANDING = threading.Semaphore(0)


def place(function):
    PLACES.append(function)
    return function


def nap():
    STANDING.release()
    while True: time.sleep(PAUSE)


@place
def simple():
    nap()


def recursive(depth):
    if depth:
        return recursive(depth - 1)
    nap()


# Before 3.10 each function of Python is one of C, too, among three others.
DEPTH = 300 if sys.version_info >= (3, 10) else 200


@place
def deep():
    recursive(DEPTH)


class Machine:
    def method(self):
        self.attribute

    @property
    def attribute(self):
        nap()

    class Inner:
        @staticmethod
        def still():
            nap()


@place
def methods():
    Machine().method()


@place
def inner_class():
    Machine.Inner.still()


@place
def through_c():
    sorted([1, 2], key=lambda _: nap())


@place
def c_in_c():
    list(map(functools.partial(lambda _, __: max([0, 1], key=lambda _: nap()), 1), [1]))


def numbers():
    yield 1
    nap()


@place
def generators():
    for _ in (n for n in numbers()):
        pass


@place
def coroutines():
    async def outer():
        await middle()

    async def middle():
        await asyncio.sleep(0)
        nap()

    asyncio.run(outer())


@place
def made():
    names = {"nap": nap}
    exec(compile("def größe():\n\n\n  nap()\ngröße()", "<made ж 😀>", "exec"), names)


@place
def wide():
    def функция():
        nap()

    функция()


@place
def waits_for_lock():
    lock = threading.Lock()
    lock.acquire()
    STANDING.release()
    while True: lock.acquire(timeout=PAUSE)


@place
def waits_for_queue():
    empty = queue.Queue()
    STANDING.release()
    while True:
        try: empty.get(timeout=PAUSE)
        except queue.Empty: pass


def told():
    frames = sys._current_frames()
    threads = {}
    for thread in threading.enumerate():
        frame = frames[thread.ident]
        threads[thread.native_id] = list_of(frame)
    return threads


def list_of(frame):
    stack = []
    while frame:
        code = frame.f_code
        # Before 3.11 functions do not know those around them.
        stack.append([getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return stack


def stand():
    for function in PLACES:
        threading.Thread(target=function, daemon=True).start()
    for _ in PLACES:
        STANDING.acquire()
    time.sleep(0.1)
    print(json.dumps(told()), flush=True)
    time.sleep(1000)


def spin(seconds):
    end = time.thread_time() + seconds
    n = 0
    while time.thread_time() < end:
        for i in range(200):
            n += i * i % 7
    return n


def most():
    spin(0.02)


def rest():
    spin(0.01)


def busy(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        most()
        sorted([1], key=lambda _: rest())


def recurse(depth, seconds):
    if depth:
        return recurse(depth - 1, seconds)
    spin(seconds)


def replaced(rounds):
    for n in range(rounds):
        names = {"spin": spin}
        exec(f"def work_{n}():\n spin(0.005)", names)
        work = names.pop(f"work_{n}")
        end = time.monotonic() + 1
        while time.monotonic() < end:
            work()
        del work, names


def imports(modules):
    with tempfile.TemporaryDirectory() as folder:
        for n in range(modules):
            with open(f"{folder}/slow_{n}.py", "w") as file:
                further = f"import slow_{n + 1}" if n % 2 == 0 else ""
                file.write(f"import time\nend = time.thread_time() + 0.04\nwhile time.thread_time() < end: sum(range(99))\n{further}")
        sys.path.insert(0, folder)
        for n in range(0, modules, 2):
            __import__(f"slow_{n}")


def main():
    global PAUSE
    mode = sys.argv[1] if len(sys.argv) > 1 else "wait"
    amount = float(sys.argv[2]) if len(sys.argv) > 2 else 2
    PAUSE = 1e6 if mode == "stand" else 0.02
    if mode in ("wait", "stand"):
        stand()
    elif mode == "busy":
        other = threading.Thread(target=busy, args=[amount])
        other.start()
        busy(amount)
        other.join()
    elif mode == "join":
        other = threading.Thread(target=time.sleep, args=[amount])
        other.start()
        other.join()
    elif mode == "recursion":
        recurse(900, amount)
    elif mode == "replaced":
        replaced(int(amount))
    elif mode == "imports":
        imports(int(amount))


main()
