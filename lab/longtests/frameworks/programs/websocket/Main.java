import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.util.Base64;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.websocket.WebSocketService;
import org.apache.pulsar.websocket.service.ProxyServer;
import org.apache.pulsar.websocket.service.WebSocketProxyConfiguration;
import org.apache.pulsar.websocket.service.WebSocketServiceStarter;

/** The WebSocket service in front of the service URL, and a client of its consumers or readers. */
public final class Main {
    public static void main(String[] args) {
        Report.run(Main::receive);
    }

    private static void receive() throws Exception {
        WebSocketProxyConfiguration configuration = new WebSocketProxyConfiguration();
        configuration.setBrokerServiceUrl(Report.SERVICE_URL);
        configuration.setWebServicePort(Optional.of(0));
        ProxyServer server = new ProxyServer(configuration);
        WebSocketService service = new WebSocketService(configuration);
        WebSocketServiceStarter.start(server, service);
        Client client = new Client();
        URI address = URI.create("ws://127.0.0.1:" + server.getListenPortHTTP().get() + path());
        WebSocket socket = HttpClient.newHttpClient().newWebSocketBuilder().buildAsync(address, client).get();
        Report.ready();
        Report.await(Report.COUNT);
        // The service closes the consumer, which sends the last acks, after all that came before.
        client.closing = true;
        socket.sendClose(WebSocket.NORMAL_CLOSURE, "").get();
        client.closed.get(10, TimeUnit.SECONDS);
        service.close();
        server.stop();
    }

    private static String path() {
        String topic = Report.TOPIC.replace("://", "/");
        if (Report.isReader()) {
            return "/ws/v2/reader/" + topic + "?messageId=earliest";
        }
        return "/ws/v2/consumer/" + topic + "/" + Report.SUBSCRIPTION + "?subscriptionInitialPosition=Earliest&subscriptionType="
                + Report.TYPE;
    }

    private static final class Client implements WebSocket.Listener {
        final CompletableFuture<Void> closed = new CompletableFuture<>();
        volatile boolean closing;
        private final ObjectMapper mapper = new ObjectMapper();
        private final StringBuilder text = new StringBuilder();

        @Override
        public CompletionStage<?> onText(WebSocket socket, CharSequence part, boolean last) {
            text.append(part);
            if (last) {
                onMessage(socket, text.toString());
                text.setLength(0);
            }
            socket.request(1);
            return null;
        }

        private void onMessage(WebSocket socket, String line) {
            try {
                JsonNode message = mapper.readTree(line);
                String id = message.get("messageId").asText();
                Base64.Decoder decoder = Base64.getDecoder();
                // The ack first: the last message ends the run.
                socket.sendText(mapper.createObjectNode().put("messageId", id).toString(), true).join();
                Report.message(decoder.decode(message.get("payload").asText()),
                        Report.id(MessageId.fromByteArray(decoder.decode(id))), message.get("redeliveryCount").asInt());
            } catch (Exception failure) {
                if (!closing) {
                    Report.error(failure);
                }
            }
        }

        @Override
        public CompletionStage<?> onClose(WebSocket socket, int status, String reason) {
            closed.complete(null);
            return null;
        }

        @Override
        public void onError(WebSocket socket, Throwable failure) {
            Report.error(failure);
            closed.complete(null);
        }
    }
}
