#!/bin/bash
# The bytes of a backlog in Pulsar's managed ledger include those of messages that are acknowledged; their number does not.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
artifact=org.apache.pulsar:pulsar-server-distribution:4.0.8:tar.gz:bin
mvn -q -B -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -Dartifact="$artifact" -DoutputDirectory=.
tar -xzf pulsar-server-distribution-*.tar.gz --wildcards '*/lib/*'
echo '<Configuration><Loggers><Root level="OFF"/></Loggers></Configuration>' > quiet.xml
cat > Program.java <<'PROGRAM'
import java.util.ArrayList;
import java.util.List;
import org.apache.bookkeeper.client.PulsarMockBookKeeper;
import org.apache.bookkeeper.common.util.OrderedExecutor;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerFactoryImpl;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;

public class Program {
    public static void main(String[] arguments) throws Exception {
        var executor = OrderedExecutor.newBuilder().numThreads(1).name("bookkeeper").build();
        var store = MetadataStoreExtended.create("memory:local", MetadataStoreConfig.builder().build());
        var ledger = new ManagedLedgerFactoryImpl(store, new PulsarMockBookKeeper(executor)).open("public/default/persistent/orders");
        var cursor = ledger.openCursor("subscription");
        List<Position> positions = new ArrayList<>();
        for (int number = 0; number < 10; number++) {
            positions.add(ledger.addEntry(new byte[10]));
        }
        for (Position position : positions.subList(1, 10)) {
            cursor.delete(position);
        }
        String seen = cursor.getNumberOfEntriesInBacklog(true) + " entry, " + ledger.getEstimatedBacklogSize() + " bytes";
        String expected = "1 entry, 100 bytes";
        System.out.println("managed-ledger 4.0.8");
        System.out.println("guess: 1 entry, 10 bytes: nine of ten messages of 10 bytes are acknowledged");
        System.out.println("seen:  " + seen);
        if (!seen.equals(expected)) {
            System.out.println("changed: it was " + expected);
            System.exit(1);
        }
        System.exit(0);
    }
}
PROGRAM
java -Xmx128m -Dlog4j2.configurationFile=quiet.xml -cp 'apache-pulsar-4.0.8/lib/*' Program.java
# Here: no sizes of backlogs are shown (engine/readonly_engine/owner/admin.py).
