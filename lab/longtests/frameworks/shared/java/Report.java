import java.io.PrintStream;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.SubscriptionType;

/** Settings of a run, and its events as lines of JSON on standard output; everything else goes to standard error. */
public final class Report {
    public static final String SERVICE_URL = setting("SERVICE_URL");
    public static final String ADMIN_URL = setting("ADMIN_URL");
    public static final String TOPIC = setting("TOPIC");
    public static final String SUBSCRIPTION = setting("SUBSCRIPTION");
    public static final String TYPE = setting("SUBSCRIPTION_TYPE");
    public static final int COUNT = Integer.parseInt(setting("COUNT"));
    public static final long IDLE_NANOS = TimeUnit.SECONDS.toNanos(Long.parseLong(setting("IDLE_SECONDS")));

    private static final Object LOCK = new Object();
    private static final PrintStream OUT = System.out;
    private static int received;
    private static long last = System.nanoTime();

    static {
        System.setOut(System.err);
    }

    private Report() {}

    private static String setting(String name) {
        String value = System.getenv(name);
        if (value == null || value.isEmpty()) {
            throw new IllegalStateException("the variable " + name + " is missing");
        }
        return value;
    }

    public static boolean isReader() {
        return TYPE.equals("Reader");
    }

    public static SubscriptionType subscriptionType() {
        return SubscriptionType.valueOf(TYPE);
    }

    /** A program; it ends when it has received COUNT messages, or none for IDLE_SECONDS. */
    public interface Program {
        void run() throws Exception;
    }

    /** Run a program, and end the process, whatever threads the framework has left. */
    public static void run(Program program) {
        int status = 0;
        try {
            program.run();
            write("{\"event\":\"done\"}");
        } catch (Throwable failure) {
            failure.printStackTrace();
            error(failure);
            status = 1;
        }
        System.exit(status);
    }

    /** Report that the program has begun; the time without a message counts from here. */
    public static void ready() {
        write("{\"event\":\"ready\"}");
        synchronized (LOCK) {
            last = System.nanoTime();
        }
    }

    public static void error(Object what) {
        write("{\"event\":\"error\",\"text\":" + quote(String.valueOf(what)) + "}");
    }

    /** Report and count a message that the framework acks; id and redeliveries may be null. */
    public static void message(byte[] payload, String id, Integer redeliveries) {
        received(payload, id, redeliveries);
        handled();
    }

    /** Report a message that the program acks itself; it calls handled() afterwards. */
    public static void received(byte[] payload, String id, Integer redeliveries) {
        String text = new String(payload, java.nio.charset.StandardCharsets.UTF_8);
        write("{\"event\":\"message\",\"payload\":" + quote(text) + ",\"id\":" + (id == null ? "null" : quote(id))
                + ",\"redeliveries\":" + redeliveries + "}");
    }

    /** Count a message. */
    public static void handled() {
        synchronized (LOCK) {
            received++;
            last = System.nanoTime();
            LOCK.notifyAll();
        }
    }

    /** Return LEDGER:ENTRY:PARTITION:BATCH INDEX. */
    public static String id(MessageId id) {
        if (!(id instanceof MessageIdAdv)) {
            return null;
        }
        MessageIdAdv one = (MessageIdAdv) id;
        return one.getLedgerId() + ":" + one.getEntryId() + ":" + one.getPartitionIndex() + ":" + one.getBatchIndex();
    }

    /** Wait until as many messages were received, or none for IDLE_SECONDS; return whether they were received. */
    public static boolean await(int count) throws InterruptedException {
        synchronized (LOCK) {
            while (received < count) {
                long left = TimeUnit.NANOSECONDS.toMillis(last + IDLE_NANOS - System.nanoTime());
                if (left <= 0) {
                    return false;
                }
                LOCK.wait(left);
            }
            return true;
        }
    }

    private static void write(String line) {
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }

    private static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ') {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }
}
