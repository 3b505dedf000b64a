#!/bin/bash
# The builder of generic records in Pulsar's Java client checks nothing for a JSON schema: fields may miss, be unknown, or be text for a number.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > pom.xml <<'POM'
<project>
  <modelVersion>4.0.0</modelVersion><groupId>findings</groupId><artifactId>findings</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.pulsar</groupId><artifactId>pulsar-client</artifactId><version>4.0.8</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>2.0.13</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=jars
cat > Program.java <<'PROGRAM'
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.client.api.schema.GenericSchema;
import org.apache.pulsar.common.schema.SchemaInfo;
import org.apache.pulsar.common.schema.SchemaType;

public class Program {
    static GenericSchema<GenericRecord> schema(String fields) {
        String definition = "{\"type\":\"record\",\"name\":\"R\",\"fields\":[" + fields + "]}";
        return Schema.generic(SchemaInfo.builder().name("R").type(SchemaType.JSON).schema(definition.getBytes()).build());
    }

    public static void main(String[] arguments) {
        var schema = schema("{\"name\":\"a\",\"type\":\"int\"},{\"name\":\"b\",\"type\":\"int\"}");
        String seen;
        try {
            seen = new String(schema.encode(schema.newRecordBuilder().set("a", "text").set("c", 1).build()));
        } catch (RuntimeException error) {
            seen = "error";
        }
        String expected = "{\"a\":\"text\",\"c\":1}";
        System.out.println("pulsar-client 4.0.8");
        System.out.println("guess: error: two ints, a and b, are required");
        System.out.println("seen:  " + seen);
        if (!seen.equals(expected)) {
            System.out.println("changed: it was " + expected);
            System.exit(1);
        }
    }
}
PROGRAM
java -Xmx128m -cp 'jars/*' Program.java
# Here: each value is checked against its field (spark/readonly_spark/values/json_values.py).
