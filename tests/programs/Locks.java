import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/** Threads that wait for a monitor, for a notification, and parked; one line `RUNTIME KIND USE NS` each. */
public class Locks {
    static final int ROUNDS = 200;
    static final Object hot = new Object();
    static final Object news = new Object();
    static int items;
    static final AtomicLong monitor = new AtomicLong(), waited = new AtomicLong(), parked = new AtomicLong();

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static void hot() {
        for (int i = 0; i < ROUNDS; i++) {
            long start = System.nanoTime();
            synchronized (hot) {
                monitor.addAndGet(System.nanoTime() - start);
                pause(2);
            }
        }
    }

    static void take() {
        for (int i = 0; i < ROUNDS; i++) {
            synchronized (news) {
                long start = System.nanoTime();
                while (items == 0) {
                    try {
                        news.wait();
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                }
                waited.addAndGet(System.nanoTime() - start);
                items--;
            }
        }
    }

    static void give() {
        for (int i = 0; i < ROUNDS; i++) {
            pause(3);
            synchronized (news) {
                items++;
                news.notify();
            }
        }
    }

    static volatile boolean done;

    static void park() {
        while (!done) {
            long start = System.nanoTime();
            LockSupport.park();
            parked.addAndGet(System.nanoTime() - start);
        }
    }

    public static void main(String[] args) throws Exception {
        Thread parker = new Thread(Locks::park, "parker");
        parker.start();
        Thread[] threads = {
            new Thread(Locks::hot), new Thread(Locks::hot), new Thread(Locks::hot),
            new Thread(Locks::take), new Thread(Locks::give),
        };
        for (Thread thread : threads)
            thread.start();
        while (threads[0].isAlive() || threads[1].isAlive() || threads[2].isAlive()) {
            Thread.sleep(2);
            LockSupport.unpark(parker);
        }
        for (Thread thread : threads)
            thread.join();
        done = true;
        LockSupport.unpark(parker);
        parker.join();
        System.out.println("Java monitor lock " + monitor);
        System.out.println("Java Object.wait idle " + waited);
        System.out.println("Java LockSupport.park idle " + parked);
    }
}
