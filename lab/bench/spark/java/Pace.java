/** Lets a loop run at a rate, so many times a second; 0 for no limit. */
final class Pace {
    private final double nanoseconds;
    private final long began = System.nanoTime();
    private long done;

    Pace(double rate) {
        nanoseconds = rate == 0 ? 0 : 1e9 / rate;
    }

    /** Waits until it is time for the next one. */
    void next() throws InterruptedException {
        if (nanoseconds == 0) {
            return;
        }
        long left = began + (long) (nanoseconds * done++) - System.nanoTime();
        if (left > 0) {
            Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
        }
    }
}
