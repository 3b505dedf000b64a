#!/bin/bash
# With explicit LAC, BookKeeper's client has a task for each open ledger in each interval, also for one whose LAC was sent long ago.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
artifact=org.apache.pulsar:pulsar-server-distribution:4.0.8:tar.gz:bin
mvn -q -B -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -Dartifact="$artifact" -DoutputDirectory=.
tar -xzf pulsar-server-distribution-*.tar.gz --wildcards '*/lib/*'
echo '<Configuration><Loggers><Root level="OFF"/></Loggers></Configuration>' > quiet.xml
cat > Program.java <<'PROGRAM'
import java.lang.management.ManagementFactory;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.pulsar.zookeeper.LocalBookkeeperEnsemble;

public class Program {
    static final int LEDGERS = 1000;
    static final int SECONDS = 10;

    /** Milliseconds of CPU per second of the client's timers, with ledgers that got their only entry some seconds ago. */
    static double atRest(String servers, int intervalMs) throws Exception {
        var settings = new ClientConfiguration();
        settings.setMetadataServiceUri("zk+null://" + servers + "/ledgers").setExplictLacInterval(intervalMs);
        try (var client = new BookKeeper(settings)) {
            for (int number = 0; number < LEDGERS; number++) {
                client.createLedger(1, 1, 1, DigestType.CRC32C, new byte[0]).addEntry(new byte[10]);
            }
            TimeUnit.SECONDS.sleep(5);
            long before = timers();
            TimeUnit.SECONDS.sleep(SECONDS);
            return (timers() - before) / 1e6 / SECONDS;
        }
    }

    static long timers() {
        var threads = ManagementFactory.getThreadMXBean();
        long sum = 0;
        for (long id : threads.getAllThreadIds()) {
            var thread = threads.getThreadInfo(id);
            if (thread != null && thread.getThreadName().startsWith("BookKeeperClientScheduler")) {
                sum += threads.getThreadCpuTime(id);
            }
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        var ensemble = new LocalBookkeeperEnsemble(1, 0, () -> 0);
        ensemble.startStandalone();
        String servers = "127.0.0.1:" + ensemble.getZookeeperPort();
        double off = atRest(servers, 0), on = atRest(servers, 100);
        System.out.println("bookkeeper client of Pulsar 4.0.8, " + LEDGERS + " ledgers at rest, explicit LAC every 100 ms");
        System.out.println("guess: no work: the client has sent the LAC of each ledger, and nothing changes");
        System.out.printf("seen:  the client's timers take %.1f ms of CPU per second, and %.1f ms with explicit LAC off%n", on, off);
        if (on < 10 || on < 5 * off) {
            System.out.println("changed: it was 108 and 120 ms, and less than 1 ms with explicit LAC off");
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0);
    }
}
PROGRAM
java -Xmx512m -Dlog4j2.configurationFile=quiet.xml -cp 'apache-pulsar-4.0.8/lib/*' Program.java
# Here: the page on explicit LAC says what an interval costs, and that pushed topics need none (docs/how-to/explicit-lac.md).
