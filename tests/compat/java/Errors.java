import com.google.gson.JsonObject;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** What went wrong, in the protocol's words. */
final class Errors {
    private static final Map<String, String> KINDS = Map.ofEntries(
            Map.entry("AlreadyClosedException", "AlreadyClosed"),
            Map.entry("AuthenticationException", "Authentication"),
            Map.entry("AuthorizationException", "Authorization"),
            Map.entry("BrokerMetadataException", "Metadata"),
            Map.entry("BrokerPersistenceException", "Persistence"),
            Map.entry("ChecksumException", "Checksum"),
            Map.entry("ConnectException", "Connect"),
            Map.entry("ConsumerBusyException", "ConsumerBusy"),
            Map.entry("CryptoException", "Crypto"),
            Map.entry("GettingAuthenticationDataException", "Authentication"),
            Map.entry("IllegalArgumentException", "InvalidConfiguration"),
            Map.entry("IncompatibleSchemaException", "IncompatibleSchema"),
            Map.entry("InvalidConfigurationException", "InvalidConfiguration"),
            Map.entry("InvalidMessageException", "InvalidMessage"),
            Map.entry("InvalidServiceURL", "InvalidConfiguration"),
            Map.entry("InvalidTopicNameException", "InvalidTopicName"),
            Map.entry("InvalidTxnStatusException", "InvalidTransaction"),
            Map.entry("LookupException", "ServiceNotReady"),
            Map.entry("NotAllowedException", "NotAllowed"),
            Map.entry("NotConnectedException", "NotConnected"),
            Map.entry("NotFoundException", "TopicNotFound"),
            Map.entry("ProducerBlockedQuotaExceededError", "ProducerBlocked"),
            Map.entry("ProducerBlockedQuotaExceededException", "ProducerBlocked"),
            Map.entry("ProducerBusyException", "ProducerBusy"),
            Map.entry("ProducerFencedException", "ProducerFenced"),
            Map.entry("SubscriptionNotFoundException", "SubscriptionNotFound"),
            Map.entry("TimeoutException", "Timeout"),
            Map.entry("TooManyRequestsException", "TooManyRequests"),
            Map.entry("TopicDoesNotExistException", "TopicNotFound"),
            Map.entry("TopicTerminatedException", "TopicTerminated"),
            Map.entry("TransactionConflictException", "TransactionConflict"),
            Map.entry("TransactionNotFoundException", "TransactionNotFound"),
            Map.entry("UnsupportedAuthenticationException", "Authentication"));

    private Errors() {}

    /** The client's API has no such thing. */
    static final class Unsupported extends RuntimeException {
        private static final long serialVersionUID = 1;

        Unsupported(String message) {
            super(message);
        }
    }

    /** The request makes no sense. */
    static final class BadRequest extends RuntimeException {
        private static final long serialVersionUID = 1;

        BadRequest(String message) {
            super(message);
        }
    }

    /** No message came. */
    static final class NoMessage extends Exception {
        private static final long serialVersionUID = 1;
    }

    /** The `error` of an answer. */
    static JsonObject describe(Throwable thrown) {
        Throwable error = thrown;
        while ((error instanceof ExecutionException || error instanceof CompletionException) && error.getCause() != null) {
            error = error.getCause();
        }
        JsonObject answer = new JsonObject();
        answer.addProperty("kind", kind(error));
        answer.addProperty("raw", error.getClass().getSimpleName());
        answer.addProperty("message", String.valueOf(error.getMessage()));
        return answer;
    }

    private static String kind(Throwable error) {
        if (error instanceof Unsupported || error instanceof BadRequest) {
            return error.getClass().getSimpleName();
        }
        if (error instanceof ClassCastException) {
            return "BadRequest"; // a handle of another kind
        }
        if (error instanceof NoMessage) {
            return "Timeout";
        }
        // The client wraps what it has no class for: what says more may be the cause.
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            String kind = KINDS.get(cause.getClass().getSimpleName());
            if (kind != null) {
                return kind;
            }
        }
        return "Other";
    }
}
