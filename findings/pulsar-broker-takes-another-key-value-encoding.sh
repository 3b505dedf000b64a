#!/bin/bash
# Pulsar's broker takes SEPARATED for a compatible successor of INLINE, though the bytes of a payload mean another thing then.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
artifact=org.apache.pulsar:pulsar-server-distribution:4.0.8:tar.gz:bin
mvn -q -B -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -Dartifact="$artifact" -DoutputDirectory=.
tar -xzf pulsar-server-distribution-*.tar.gz --wildcards '*/lib/*'
echo '<Configuration><Loggers><Root level="OFF"/></Loggers></Configuration>' > quiet.xml
cat > Program.java <<'PROGRAM'
import java.util.Map;
import org.apache.pulsar.broker.service.schema.KeyValueSchemaCompatibilityCheck;
import org.apache.pulsar.broker.service.schema.SchemaCompatibilityCheck;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy;
import org.apache.pulsar.common.protocol.schema.SchemaData;
import org.apache.pulsar.common.schema.KeyValueEncodingType;
import org.apache.pulsar.common.schema.SchemaType;

public class Program {
    static SchemaData schema(KeyValueEncodingType encoding) {
        return SchemaData.fromSchemaInfo(Schema.KeyValue(Schema.STRING, Schema.STRING, encoding).getSchemaInfo());
    }

    public static void main(String[] arguments) {
        var check = new KeyValueSchemaCompatibilityCheck(Map.of(SchemaType.STRING, SchemaCompatibilityCheck.DEFAULT));
        var before = schema(KeyValueEncodingType.INLINE);
        var after = schema(KeyValueEncodingType.SEPARATED);
        String seen = "compatible: " + check.isCompatible(before, after, SchemaCompatibilityStrategy.FULL);
        String expected = "compatible: true";
        System.out.println("pulsar-broker 4.0.8");
        System.out.println("guess: compatible: false");
        System.out.println("seen:  " + seen);
        if (!seen.equals(expected)) {
            System.out.println("changed: it was " + expected);
            System.exit(1);
        }
    }
}
PROGRAM
java -Xmx128m -Dlog4j2.configurationFile=quiet.xml -cp 'apache-pulsar-4.0.8/lib/*' Program.java
# Here: a pair is read by the encoding that its version has in the registry (spark/readonly_spark/values/decoder.py).
