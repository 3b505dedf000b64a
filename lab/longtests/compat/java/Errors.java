import com.google.gson.JsonObject;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** Errors by the kinds of the protocol (PROTOCOL.md). */
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

    /** The client's API does not offer the operation or option. */
    static final class Unsupported extends RuntimeException {
        private static final long serialVersionUID = 1;

        Unsupported(String message) {
            super(message);
        }
    }

    /** The request is invalid. */
    static final class BadRequest extends RuntimeException {
        private static final long serialVersionUID = 1;

        BadRequest(String message) {
            super(message);
        }
    }

    /** No message arrived before the timeout. */
    static final class NoMessage extends Exception {
        private static final long serialVersionUID = 1;
    }

    /** Returns the `error` of an answer. */
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
            return "BadRequest"; // the operation is not for this kind of handle
        }
        if (error instanceof NoMessage) {
            return "Timeout";
        }
        // The client wraps some errors in a general class, so the cause may have the kind.
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            String kind = KINDS.get(cause.getClass().getSimpleName());
            if (kind != null) {
                return kind;
            }
        }
        return "Other";
    }
}
