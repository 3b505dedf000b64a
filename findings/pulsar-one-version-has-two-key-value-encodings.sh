#!/bin/bash
# Pulsar's registry gives key-value schemas of both encodings one version; then Java's AUTO_CONSUME reads wrong rows, without an error.
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
cat > Program.java <<'PROGRAM'
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;

public class Program {
    static final String TOPIC = "persistent://public/default/pairs";

    static void waitForServer(PulsarAdmin admin) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MINUTES.toNanos(3);
        while (true) {
            try {
                if (admin.namespaces().getNamespaces("public").contains("public/default")) {
                    admin.topics().createNonPartitionedTopic(TOPIC);
                    return;
                }
            } catch (Exception error) {
                if (System.nanoTime() > deadline) {
                    throw error;
                }
            }
            Thread.sleep(200);
        }
    }

    static void send(PulsarClient client, KeyValueEncodingType encoding, String key, String value) throws Exception {
        var schema = Schema.KeyValue(Schema.STRING, Schema.STRING, encoding);
        try (var producer = client.newProducer(schema).topic(TOPIC).create()) {
            producer.send(new KeyValue<>(key, value));
        }
    }

    static String shown(Object text) {
        return text == null ? "null" : ((String) text).replace('\0', '0').replace('\1', '1');
    }

    public static void main(String[] arguments) throws Exception {
        List<String> rows = new ArrayList<>();
        int versions;
        try (var admin = PulsarAdmin.builder().serviceHttpUrl("http://127.0.0.1:" + arguments[1]).build();
             var client = PulsarClient.builder().serviceUrl("pulsar://127.0.0.1:" + arguments[0]).build()) {
            waitForServer(admin);
            send(client, KeyValueEncodingType.SEPARATED, "k", "v");
            send(client, KeyValueEncodingType.INLINE, "k", "v");
            versions = admin.schemas().getAllSchemas(TOPIC).size();
            try (var consumer = client.newConsumer(Schema.AUTO_CONSUME()).topic(TOPIC).subscriptionName("s")
                     .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
                for (int number = 0; number < 2; number++) {
                    var pair = (KeyValue<?, ?>) consumer.receive(30, TimeUnit.SECONDS).getValue().getNativeObject();
                    rows.add(shown(pair.getKey()) + "=" + shown(pair.getValue()));
                }
            }
        }
        String seen = versions + (versions == 1 ? " version" : " versions") + ", rows " + rows;
        String expected = "1 version, rows [k=v, null=0001k0001v]";
        System.out.println("pulsar-broker and pulsar-client 4.0.8");
        System.out.println("guess: 2 versions, rows [k=v, k=v]; else the producer of the second encoding is refused");
        System.out.println("seen:  " + seen);
        if (!seen.equals(expected)) {
            System.out.println("changed: it was " + expected);
            System.exit(1);
        }
        System.exit(0);
    }
}
PROGRAM
java -Xmx128m -Dlog4j2.configurationFile=quiet.xml -cp 'apache-pulsar-4.0.8/lib/*' Program.java "$broker" "$web"
# Here: the encoding of each pair is found by its key and its payload (spark/readonly_spark/values/decoder.py).
