#!/bin/bash
# Avro's Java library reads a record as one of another name, which its own check of compatibility refuses.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > pom.xml <<'POM'
<project>
  <modelVersion>4.0.0</modelVersion><groupId>findings</groupId><artifactId>findings</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.avro</groupId><artifactId>avro</artifactId><version>1.12.0</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>2.0.13</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=jars
cat > Program.java <<'PROGRAM'
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.io.DecoderFactory;

public class Program {
    static Schema record(String name) {
        return new Schema.Parser().parse(
            "{\"type\":\"record\",\"name\":\"" + name + "\",\"fields\":[{\"name\":\"n\",\"type\":\"int\"}]}");
    }

    public static void main(String[] arguments) throws Exception {
        Schema writer = record("Order");
        Schema reader = record("Purchase");
        byte[] seven = {14};
        String check = SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getType().name();
        Object value = new GenericDatumReader<Object>(writer, reader)
            .read(null, DecoderFactory.get().binaryDecoder(seven, null));
        String seen = check + " " + value;
        String expected = "INCOMPATIBLE {\"n\": 7}";
        System.out.println("avro 1.12.0");
        System.out.println("guess: an Order is not read as a Purchase: the specification asks for one name");
        System.out.println("seen:  " + seen);
        if (!seen.equals(expected)) {
            System.out.println("changed: it was " + expected);
            System.exit(1);
        }
    }
}
PROGRAM
java -cp 'jars/*' Program.java
# Here: records of any names are read, as in Java (spark/readonly_spark/values/avro_resolution.py).
