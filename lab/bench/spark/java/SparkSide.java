import static org.apache.spark.sql.avro.functions.from_avro;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;

/**
 * A Spark session that reads by one data source of the JVM. Reads one command per line: COMMAND FORMAT COLUMNS FOLDER NAME=VALUE
 * ..., separated by tabs. COMMAND is noop, parquet, stream, check, or check-record for decoded values; COLUMNS is a list of
 * expressions. The option avroSchema is that of the column value, which is decoded then. Answers with one line of JSON.
 */
final class SparkSide {
    private static final String RECORD = "crc32(cast(concat_ws('|', cast(value.id as string), value.customer,"
        + " cast(value.cents as string), value.note) as binary))";

    public static void main(String[] words) {
        try {
            answer(words);
        } catch (Exception | Error error) {
            error.printStackTrace();
            System.exit(1); // Spark's threads would keep the JVM alive without answers
        }
    }

    private static void answer(String[] words) throws Exception {
        SparkSession spark = SparkSession.builder().master(words[0]).appName("bench").config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2").getOrCreate();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("{\"ready\": true}");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] told = line.split("\t");
            Map<String, String> options = new LinkedHashMap<>();
            for (String option : Arrays.copyOfRange(told, 4, told.length)) {
                int at = option.indexOf('=');
                options.put(option.substring(0, at), option.substring(at + 1));
            }
            long began = System.nanoTime();
            if (told[0].equals("stream")) {
                stream(spark, told, options);
                System.out.println("{\"rows\": 0}");
                continue;
            }
            String schema = options.remove("avroSchema");
            Dataset<Row> all = spark.read().format(told[1]).options(options).load();
            if (schema != null) {
                all = all.withColumn("value", from_avro(functions.col("value"), schema));
            }
            Dataset<Row> rows = all.selectExpr(told[2].split(";"));
            String answer = "\"rows\": 0";
            if (told[0].startsWith("check")) {
                String sum = told[0].equals("check") ? "crc32(value)" : RECORD;
                Row found = rows.agg(functions.count(functions.lit(1)), functions.sum(functions.expr(sum))).head();
                answer = "\"rows\": " + found.getLong(0) + ", \"checksum\": " + (found.isNullAt(1) ? 0 : found.getLong(1));
            } else if (told[0].equals("noop")) {
                rows.write().format("noop").mode("overwrite").save();
            } else {
                rows.write().mode("overwrite").parquet(told[3]);
            }
            System.out.println("{" + answer + ", \"seconds\": " + (System.nanoTime() - began) / 1e9 + "}");
        }
        spark.stop();
    }

    /** Appends a stream to a Parquet table for the seconds of the option seconds, with the trigger of the option trigger. */
    private static void stream(SparkSession spark, String[] told, Map<String, String> options) throws Exception {
        long seconds = Long.parseLong(options.remove("seconds"));
        Trigger trigger = Trigger.ProcessingTime(options.remove("trigger"));
        StreamingQuery query = spark.readStream().format(told[1]).options(options).load().selectExpr(told[2].split(";"))
            .writeStream().format("parquet").option("checkpointLocation", told[3] + "/checkpoint").trigger(trigger)
            .start(told[3] + "/table");
        query.awaitTermination(seconds * 1000);
        query.stop();
    }
}
