import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.impl.BatchMessageIdImpl;
import org.apache.pulsar.client.impl.MessageIdImpl;

/** Conversion between message ids and text; keeps the ids of answers. */
final class Ids {
    private static final String STORED = "stored/";

    private final Map<String, MessageId> told = new ConcurrentHashMap<>();

    static String text(MessageId id) {
        MessageIdAdv numbers = (MessageIdAdv) id;
        return numbers.getLedgerId() + ":" + numbers.getEntryId() + ":" + numbers.getPartitionIndex() + ":"
                + numbers.getBatchIndex();
    }

    /** Returns the text of an id, and keeps the id by its text. */
    String tell(MessageId id) {
        String text = text(id);
        told.put(text, id);
        return text;
    }

    /** Returns the id of a text: a kept one, or a new one. */
    MessageId of(String text) {
        if (text.equals("earliest")) {
            return MessageId.earliest;
        }
        if (text.equals("latest")) {
            return MessageId.latest;
        }
        if (isStored(text)) {
            return readBack(of(withoutMark(text)));
        }
        MessageId known = told.get(text);
        return known != null ? known : parse(text);
    }

    static boolean isStored(String text) {
        return text.startsWith(STORED);
    }

    static String withoutMark(String text) {
        return text.substring(STORED.length());
    }

    /** Returns an id as it is after it was stored as bytes. */
    static MessageId readBack(MessageId id) {
        try {
            return MessageId.fromByteArray(id.toByteArray());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static MessageId parse(String text) {
        String[] words = text.split(":");
        if (words.length != 4) {
            throw new Errors.BadRequest(text + ": invalid message id");
        }
        long ledger = Long.parseLong(words[0]);
        long entry = Long.parseLong(words[1]);
        int partition = Integer.parseInt(words[2]);
        int index = Integer.parseInt(words[3]);
        return index < 0
                ? new MessageIdImpl(ledger, entry, partition)
                : new BatchMessageIdImpl(ledger, entry, partition, index);
    }
}
