import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.pulsar.source.PulsarSource;
import org.apache.flink.connector.pulsar.source.PulsarSourceBuilder;
import org.apache.flink.connector.pulsar.source.enumerator.cursor.StartCursor;
import org.apache.flink.connector.pulsar.source.reader.deserializer.PulsarDeserializationSchema;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.pulsar.client.api.Message;

/**
 * A job on a local cluster.
 *
 * <p>With the argument "savepoint" it is stopped in the middle, and a new job continues from a savepoint. With "pattern" its topic
 * is found by a pattern.
 */
public final class Main {
    private static final long STOP_SECONDS = 60;

    public static void main(String[] args) {
        String how = args.length > 0 ? args[0] : "";
        Report.run(() -> receive(how.equals("savepoint"), how.equals("pattern")));
    }

    private static void receive(boolean restart, boolean pattern) throws Exception {
        Path savepoints = Files.createTempDirectory("savepoints");
        String savepoint = null;
        if (restart) {
            JobClient first = start(null, pattern);
            Report.ready();
            Report.await(Report.COUNT / 2);
            savepoint = stop(first, savepoints);
        }
        JobClient job = start(savepoint, pattern);
        Report.ready();
        Report.await(Report.COUNT);
        stop(job, savepoints);
    }

    private static JobClient start(String savepoint, boolean pattern) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("execution.checkpointing.interval", "1 s");
        if (savepoint != null) {
            configuration.setString("execution.savepoint.path", savepoint);
        }
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1, configuration);
        PulsarSourceBuilder<String> builder = PulsarSource.builder()
                .setServiceUrl(Report.SERVICE_URL)
                .setSubscriptionName(Report.SUBSCRIPTION)
                .setStartCursor(StartCursor.earliest())
                .setDeserializationSchema(new Deserializer());
        builder = pattern ? builder.setTopicPattern(Report.TOPIC + ".*") : builder.setTopics(Report.TOPIC);
        env.fromSource(builder.build(), WatermarkStrategy.noWatermarks(), "pulsar")
                .uid("pulsar")
                .map(Main::tell)
                .returns(Types.INT)
                .uid("tell")
                .print();
        return env.executeAsync();
    }

    /** Report a message, which is its id and its payload. */
    private static int tell(String message) {
        int space = message.indexOf(' ');
        Report.message(message.substring(space + 1).getBytes(), message.substring(0, space), null);
        return 0;
    }

    /** Stop a job with a savepoint, at which the cursors are acked, as soon as its tasks run; return its path. */
    private static String stop(JobClient job, Path folder) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(STOP_SECONDS);
        String path = null;
        while (path == null) {
            try {
                path = job.stopWithSavepoint(false, folder.toString(), SavepointFormatType.CANONICAL)
                        .get(STOP_SECONDS, TimeUnit.SECONDS);
            } catch (ExecutionException failure) {
                if (System.nanoTime() > deadline || !String.valueOf(failure.getCause()).contains("Not all required tasks")) {
                    throw failure;
                }
                Thread.sleep(100);
            }
        }
        job.getJobExecutionResult().get(STOP_SECONDS, TimeUnit.SECONDS);
        return path;
    }

    private static final class Deserializer implements PulsarDeserializationSchema<String> {
        @Override
        public void deserialize(Message<byte[]> message, Collector<String> out) {
            out.collect(Report.id(message.getMessageId()) + " " + new String(message.getData()));
        }

        @Override
        public TypeInformation<String> getProducedType() {
            return Types.STRING;
        }
    }
}
