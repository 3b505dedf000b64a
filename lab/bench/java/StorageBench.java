import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayDeque;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * BookKeeper's own client. Reads one command per line of standard input, and answers each with a line of JSON.
 *
 * <pre>
 *   write ENTRIES SIZE ENSEMBLE WRITE_QUORUM ACK_QUORUM DIGEST   makes a closed ledger: {"ledger": id}
 *   read LEDGER ENTRIES single|batch                             reads ENTRIES: {"entries", "bytes", "wall_s", "cpu_s"}
 * </pre>
 *
 * cpu_s is the CPU time of the whole process, with garbage collector and compiler.
 */
public final class StorageBench {
    private static final byte[] PASSWORD = new byte[0]; // Pulsar's default
    private static final int WINDOWS = 4;
    private static final int WINDOW_BYTES = 1 << 20;
    private static final int PENDING_WRITES = 5000;

    private final OperatingSystemMXBean system =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private final BookKeeper client;

    private StorageBench(String metadata) throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(metadata);
        conf.setUseV2WireProtocol(true); // Pulsar's default; batch reads require it
        conf.setReorderReadSequenceEnabled(false);
        client = BookKeeper.newBuilder(conf).build();
    }

    public static void main(String[] arguments) throws Exception {
        StorageBench bench = new StorageBench(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            System.out.println(words[0].equals("write") ? bench.write(words) : bench.read(words));
        }
        bench.client.close();
    }

    private String write(String[] words) throws Exception {
        int entries = Integer.parseInt(words[1]);
        byte[] payload = new byte[Integer.parseInt(words[2])];
        new Random(entries).nextBytes(payload);
        try (WriteHandle ledger = client.newCreateLedgerOp()
                .withEnsembleSize(Integer.parseInt(words[3]))
                .withWriteQuorumSize(Integer.parseInt(words[4]))
                .withAckQuorumSize(Integer.parseInt(words[5]))
                .withDigestType(DigestType.valueOf(words[6]))
                .withPassword(PASSWORD)
                .execute().get()) {
            Semaphore room = new Semaphore(PENDING_WRITES);
            CompletableFuture<Long> last = null;
            for (int i = 0; i < entries; i++) {
                room.acquire();
                last = ledger.appendAsync(payload);
                last.whenComplete((id, error) -> room.release());
            }
            last.get();
            return "{\"ledger\": " + ledger.getId() + "}";
        }
    }

    private String read(String[] words) throws Exception {
        boolean batch = words[3].equals("batch");
        long bytes = 0;
        long entries = 0;
        try (ReadHandle ledger = client.newOpenLedgerOp()
                .withLedgerId(Long.parseLong(words[1]))
                .withPassword(PASSWORD)
                .execute().get()) {
            long size = Math.max(1, ledger.getLength() / (ledger.getLastAddConfirmed() + 1));
            long last = Math.min(ledger.getLastAddConfirmed(), Long.parseLong(words[2]) - 1);
            int window = (int) Math.max(1, WINDOW_BYTES / size);
            long cpu = system.getProcessCpuTime();
            long wall = System.nanoTime();
            ArrayDeque<CompletableFuture<LedgerEntries>> waiting = new ArrayDeque<>();
            ArrayDeque<Long> ends = new ArrayDeque<>();
            long next = 0;
            while (next <= last || !waiting.isEmpty()) {
                while (next <= last && waiting.size() < WINDOWS) {
                    long end = Math.min(last, next + window - 1);
                    waiting.add(ask(ledger, next, end, batch));
                    ends.add(end);
                    next = end + 1;
                }
                long seen = -1;
                try (LedgerEntries found = waiting.remove().get()) {
                    for (LedgerEntry entry : found) {
                        bytes += entry.getEntryBuffer().readableBytes();
                        entries++;
                        seen = entry.getEntryId();
                    }
                }
                long end = ends.remove();
                if (seen < end) { // a batch may be short: read its missing entries next
                    waiting.addFirst(ask(ledger, seen + 1, end, batch));
                    ends.addFirst(end);
                }
            }
            return String.format("{\"entries\": %d, \"bytes\": %d, \"wall_s\": %.6f, \"cpu_s\": %.6f}", entries, bytes,
                    (System.nanoTime() - wall) / 1e9, (system.getProcessCpuTime() - cpu) / 1e9);
        }
    }

    private static CompletableFuture<LedgerEntries> ask(ReadHandle ledger, long first, long last, boolean batch) {
        return batch
                ? ledger.batchReadAsync(first, (int) (last - first + 1), 2L * WINDOW_BYTES)
                : ledger.readAsync(first, last);
    }
}
