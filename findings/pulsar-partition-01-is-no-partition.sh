#!/bin/bash
# Pulsar's TopicName takes a topic that ends with -partition-01 for a topic of its own, not for partition 1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > pom.xml <<'POM'
<project>
  <modelVersion>4.0.0</modelVersion><groupId>findings</groupId><artifactId>findings</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.pulsar</groupId><artifactId>pulsar-common</artifactId><version>4.0.8</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>2.0.13</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=jars
cat > Program.java <<'PROGRAM'
import org.apache.pulsar.common.naming.TopicName;

public class Program {
    public static void main(String[] arguments) {
        TopicName padded = TopicName.get("orders-partition-01");
        String seen = padded.getPartitionIndex() + " " + padded.getPartitionedTopicName();
        String expected = "-1 persistent://public/default/orders-partition-01";
        System.out.println("pulsar-common 4.0.8");
        System.out.println("guess: orders-partition-01 is partition 1 of orders");
        System.out.println("seen:  " + seen);
        if (!seen.equals(expected)) {
            System.out.println("changed: it was " + expected);
            System.exit(1);
        }
    }
}
PROGRAM
java -cp 'jars/*' Program.java
# Here: names are parsed alike (engine/readonly_engine/metadata/topic_name.py).
