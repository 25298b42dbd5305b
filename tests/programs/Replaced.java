import java.io.InputStream;

/**
 * Classes that come and go: each is loaded, computes for 150 ms and is forgotten, so that the compiled code of later ones
 * lies where that of earlier ones lay. One line for each: its name and its processor time in ns.
 */
public class Replaced {
    static final int TIMES = 4;

    public interface Work {
        long until(long end);
    }

    public static class A implements Work { public long until(long end) { long n = 1; while (System.nanoTime() < end) { for (int i = 0; i < 9999; i++) { n = n * 3 ^ i; } } return n; } }
    public static class B implements Work { public long until(long end) { long n = 2; while (System.nanoTime() < end) { for (int i = 0; i < 9999; i++) { n = n * 5 ^ i; } } return n; } }
    public static class C implements Work { public long until(long end) { long n = 3; while (System.nanoTime() < end) { for (int i = 0; i < 9999; i++) { n = n * 7 ^ i; } } return n; } }
    public static class D implements Work { public long until(long end) { long n = 4; while (System.nanoTime() < end) { for (int i = 0; i < 9999; i++) { n = n * 9 ^ i; } } return n; } }

    static class Loader extends ClassLoader {
        Loader() {
            super(Replaced.class.getClassLoader());
        }

        Class<?> define(String name) throws Exception {
            try (InputStream in = Replaced.class.getClassLoader().getResourceAsStream(name + ".class")) {
                byte[] code = in.readAllBytes();
                return defineClass(name, code, 0, code.length);
            }
        }
    }

    static long run(String name) throws Exception {
        java.lang.reflect.Constructor<?> made = new Loader().define(name).getDeclaredConstructor();
        Work work = (Work) made.newInstance();
        for (int i = 0; i < 300; i++) {
            work.until(0);
        }
        return work.until(System.nanoTime() + 150_000_000);
    }

    public static void main(String[] args) throws Exception {
        long sum = 0;
        for (int n = 0; n < TIMES; n++) {
            for (String name : new String[] {"A", "B", "C", "D"}) {
                sum += run("Replaced$" + name);
                Thread.sleep(100);
                for (int i = 0; i < 3; i++) {
                    System.gc();
                    Thread.sleep(20);
                }
            }
        }
        System.out.println(sum);
    }
}
