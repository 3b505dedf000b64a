#!/bin/bash
# Pulsar's Java client gives a long of a JSON schema as Integer or Long, and a double as Integer, as the number in the message is.
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

    static String type(GenericSchema<GenericRecord> schema, String message, String field) {
        return schema.decode(message.getBytes()).getField(field).getClass().getSimpleName();
    }

    public static void main(String[] arguments) {
        var schema = schema("{\"name\":\"l\",\"type\":\"long\"},{\"name\":\"d\",\"type\":\"double\"}");
        String small = "{\"l\":5,\"d\":1}";
        String other = "{\"l\":5000000000,\"d\":1.5}";
        String seen = type(schema, small, "l") + " " + type(schema, other, "l") + "; " + type(schema, small, "d") + " " + type(schema, other, "d");
        String expected = "Integer Long; Integer Double";
        System.out.println("pulsar-client 4.0.8");
        System.out.println("guess: Long Long; Double Double: the schema has the types");
        System.out.println("seen:  " + seen);
        if (!seen.equals(expected)) {
            System.out.println("changed: it was " + expected);
            System.exit(1);
        }
    }
}
PROGRAM
java -Xmx128m -cp 'jars/*' Program.java
# Here: a column has the type of its field, whatever the number (spark/readonly_spark/values/json_values.py).
