import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;

/**
 * A Spark session that reads by one data source of the JVM. Reads one command per line: COMMAND FORMAT COLUMNS FOLDER NAME=VALUE
 * ..., separated by tabs. COMMAND is noop, parquet or check; COLUMNS is a list of expressions. Answers with one line of JSON.
 */
final class SparkSide {
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
            Dataset<Row> rows = spark.read().format(told[1]).options(options).load().selectExpr(told[2].split(";"));
            String answer = "\"rows\": 0";
            if (told[0].equals("check")) {
                Row found = rows.agg(functions.count(functions.lit(1)), functions.sum(functions.expr("crc32(value)"))).head();
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
}
