#!/bin/bash
# Pulsar's Java client gives an array of a JSON schema as a record without fields; of an Avro schema it is a list.
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
    static String array(SchemaType type) {
        String definition = "{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"a\",\"type\":{\"type\":\"array\",\"items\":\"int\"}}]}";
        GenericSchema<GenericRecord> schema =
            Schema.generic(SchemaInfo.builder().name("R").type(type).schema(definition.getBytes()).build());
        byte[] message = type == SchemaType.JSON ? "{\"a\":[7,8]}".getBytes() : new byte[] {4, 14, 16, 0};
        Object value = schema.decode(message).getField("a");
        return type + ": " + (value instanceof GenericRecord record ? "record of fields " + record.getFields() : value);
    }

    public static void main(String[] arguments) {
        String seen = array(SchemaType.AVRO) + ", " + array(SchemaType.JSON);
        String expected = "AVRO: [7, 8], JSON: record of fields []";
        System.out.println("pulsar-client 4.0.8");
        System.out.println("guess: AVRO: [7, 8], JSON: [7, 8]");
        System.out.println("seen:  " + seen);
        if (!seen.equals(expected)) {
            System.out.println("changed: it was " + expected);
            System.exit(1);
        }
    }
}
PROGRAM
java -Xmx128m -cp 'jars/*' Program.java
# Here: arrays of both schemas are arrays (spark/readonly_spark/values).
