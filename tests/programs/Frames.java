import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntUnaryOperator;

/**
 * Threads that wait for ever, each in a stack of its own kind: interpreted, compiled, with methods that the compiler put into
 * others, deep, through interfaces and lambdas. Says "ready" when all wait; one argument: for how many seconds it computes
 * instead, in a method that calls itself and in one that was put into another.
 */
public class Frames {
    static final int WARM = 30_000;
    static final CountDownLatch waiting = new CountDownLatch(7);

    interface Step {
        int go(int n, boolean last);
    }

    static class Left implements Step {
        public int go(int n, boolean last) {
            return rest(n, last) + 1;
        }
    }

    static class Right implements Step {
        public int go(int n, boolean last) {
            return rest(n, last) + 2;
        }
    }

    static class Third implements Step {
        public int go(int n, boolean last) {
            return rest(n, last) + 3;
        }
    }

    /** Where all of them end: as often as it was called before, it has waited a moment each time. */
    static int rest(int n, boolean last) {
        if (last) {
            waiting.countDown();
        }
        do {
            LockSupport.parkNanos(last ? 1_000_000_000_000L : 1);
        } while (last);
        return n;
    }

    static int outer(int n, boolean last) {
        return middle(n + 1, last) + 1;
    }

    static int middle(int n, boolean last) {
        return inner(n + 1, last) + 1;
    }

    static int inner(int n, boolean last) {
        return rest(n, last) + 1;
    }

    static int deep(int n, boolean last) {
        return n == 0 ? rest(n, last) : deep(n - 1, last) + 1;
    }

    static void cold() {
        outer(1, true);
    }

    static void warm() {
        for (int i = 0; i < WARM; i++) {
            outer(i, false);
        }
        outer(1, true);
    }

    static void byInterface() {
        Step[] steps = {new Left(), new Right(), new Third()};
        for (int i = 0; i < WARM; i++) {
            steps[i % 3].go(i, false);
        }
        steps[1].go(1, true);
    }

    static void byLambda() {
        boolean[] last = new boolean[1];
        IntUnaryOperator operator = n -> rest(n, last[0]);
        for (int i = 0; i < WARM; i++) {
            operator.applyAsInt(i);
        }
        last[0] = true;
        operator.applyAsInt(1);
    }

    static void farDown() {
        for (int i = 0; i < WARM / 100; i++) {
            deep(100, false);
        }
        deep(300, true);
    }

    static synchronized void inMonitor() {
        waiting.countDown();
        try {
            Frames.class.wait();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static void asleep() {
        waiting.countDown();
        try {
            Thread.sleep(1_000_000);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static long calls(int n) {
        return n < 2 ? n : calls(n - 1) + calls(n - 2);
    }

    static long mixed(long n) {
        return n * 0x9e3779b97f4a7c15L ^ n >>> 7;
    }

    static long mixes(int n) {
        long sum = 1;
        for (int i = 0; i < n; i++) {
            sum = mixed(sum) + i;
        }
        return sum;
    }

    static void compute(double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9), sum = 0;
        while (System.nanoTime() < end) {
            sum += calls(27) + mixes(500_000);
        }
        System.out.println(sum);
    }

    static void start(String name, Runnable body) {
        Thread thread = new Thread(body, name);
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] args) throws Exception {
        if (args.length > 0) {
            compute(Double.parseDouble(args[0]));
            return;
        }
        start("cold", Frames::cold);
        start("warm", Frames::warm);
        start("interface", Frames::byInterface);
        start("lambda", Frames::byLambda);
        start("deep", Frames::farDown);
        start("monitor", Frames::inMonitor);
        start("asleep", Frames::asleep);
        waiting.await();
        Thread.sleep(200);
        System.out.println("ready");
        Thread.sleep(100_000);
    }
}
