import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** The driver of the Java client: a request and its answer are one line of JSON each (PROTOCOL.md). */
public final class Driver {
    private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

    private Driver() {}

    public static void main(String[] arguments) throws IOException {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        System.setProperty("org.slf4j.simpleLogger.showDateTime", "true");
        System.setProperty("org.slf4j.simpleLogger.dateTimeFormat", "HH:mm:ss.SSS");
        PrintStream answers = System.out;
        System.setOut(System.err); // output of libraries must not mix with answers
        Operations operations = new Operations();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonObject request = JsonParser.parseString(line).getAsJsonObject();
            Thread thread = new Thread(() -> answer(operations, request, answers));
            thread.setDaemon(true);
            thread.start();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void answer(Operations operations, JsonObject request, PrintStream answers) {
        JsonObject answer = new JsonObject();
        answer.add("request", request.remove("request"));
        try {
            String op = request.remove("op").getAsString();
            answer.add("ok", operations.run(op, new Fields(request)));
        } catch (Throwable error) { // the answer reports any error
            answer.add("error", Errors.describe(error));
        }
        byte[] line = (GSON.toJson(answer) + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (answers) {
            answers.write(line, 0, line.length);
            answers.flush();
        }
    }
}
