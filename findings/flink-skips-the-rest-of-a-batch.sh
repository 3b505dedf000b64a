#!/bin/bash
# Flink's Pulsar source that continues after a message of a batch, as from a savepoint, does not read the rest of the batch.
set -eu
folder=$(mktemp -d)
server=
finish() {
    status=$?
    if [ -n "$server" ]; then
        kill "$server" 2> /dev/null || true
        wait "$server" 2> /dev/null || true
    fi
    rm -rf "$folder"
    exit "$status"
}
trap finish EXIT
cd "$folder"
artifact=org.apache.pulsar:pulsar-server-distribution:4.0.8:tar.gz:bin
mvn -q -B -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -Dartifact="$artifact" -DoutputDirectory=.
tar -xzf pulsar-server-distribution-*.tar.gz
echo '<Configuration><Loggers><Root level="OFF"/></Loggers></Configuration>' > quiet.xml
cat > Ports.java <<'PROGRAM'
import java.net.InetAddress;
import java.net.ServerSocket;

public class Ports {
    public static void main(String[] arguments) throws Exception {
        try (var one = open(); var two = open(); var three = open()) {
            System.out.println(one.getLocalPort() + " " + two.getLocalPort() + " " + three.getLocalPort());
        }
    }

    static ServerSocket open() throws Exception {
        return new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    }
}
PROGRAM
read -r broker web bookie <<< "$(java Ports.java)"
home=$folder/apache-pulsar-4.0.8
sed -e "s/^brokerServicePort=.*/brokerServicePort=$broker/" -e "s/^webServicePort=.*/webServicePort=$web/" \
    -e 's/^bindAddress=.*/bindAddress=127.0.0.1/' "$home/conf/standalone.conf" > standalone.conf
cd "$home"
PULSAR_STANDALONE_CONF=$folder/standalone.conf PULSAR_MEM='-Xmx512m -XX:MaxDirectMemorySize=512m' \
    bin/pulsar standalone -nfw -nss -a 127.0.0.1 --bookkeeper-port "$bookie" > "$folder/server.log" 2>&1 &
server=$!
cd "$folder"
cat > pom.xml <<'POM'
<project>
  <modelVersion>4.0.0</modelVersion><groupId>findings</groupId><artifactId>findings</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-connector-pulsar</artifactId><version>4.1.0-1.18</version></dependency>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-connector-base</artifactId><version>1.20.5</version></dependency>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-streaming-java</artifactId><version>1.20.5</version></dependency>
    <dependency><groupId>org.apache.flink</groupId><artifactId>flink-clients</artifactId><version>1.20.5</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DincludeScope=runtime -DoutputDirectory=jars
cat > Program.java <<'PROGRAM'
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.pulsar.source.PulsarSource;
import org.apache.flink.connector.pulsar.source.enumerator.cursor.StartCursor;
import org.apache.flink.connector.pulsar.source.enumerator.cursor.StopCursor;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Schema;

public class Program {
    static final String TOPIC = "persistent://public/default/batches";

    static Producer<String> producerOf(PulsarClient client) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MINUTES.toNanos(3);
        while (true) {
            try {
                return client.newProducer(Schema.STRING).topic(TOPIC)
                        .batchingMaxMessages(10).batchingMaxPublishDelay(1, TimeUnit.MINUTES).create();
            } catch (PulsarClientException error) {
                if (System.nanoTime() > deadline) {
                    throw error;
                }
                Thread.sleep(200);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        String url = "pulsar://127.0.0.1:" + arguments[0];
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        try (var client = PulsarClient.builder().serviceUrl(url).build(); var producer = producerOf(client)) {
            for (int number = 0; number < 11; number++) {
                sent.add(producer.sendAsync(String.valueOf(number)));
            }
            producer.flush();
        }
        var source = PulsarSource.builder().setServiceUrl(url).setTopics(TOPIC).setSubscriptionName("flink")
                .setStartCursor(StartCursor.fromMessageId(sent.get(0).get(), false))
                .setBoundedStopCursor(StopCursor.latest())
                .setDeserializationSchema(new SimpleStringSchema()).build();
        var env = StreamExecutionEnvironment.createLocalEnvironment(1);
        List<String> seen = env.fromSource(source, WatermarkStrategy.noWatermarks(), "pulsar").executeAndCollect(20);
        System.out.println("flink-connector-pulsar 4.1.0-1.18, Flink 1.20.5, pulsar-broker 4.0.8");
        System.out.println("guess: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], which follow message 0 of a batch of ten");
        System.out.println("seen:  " + seen);
        if (!seen.equals(List.of("10"))) {
            System.out.println("changed: it was [10]");
            System.exit(1);
        }
        System.exit(0);
    }
}
PROGRAM
java -Xmx512m --add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED -cp 'jars/*' Program.java "$broker"
# Here: the run of Flink from a savepoint has no batches (lab/longtests/frameworks/programs/flink-savepoint).
