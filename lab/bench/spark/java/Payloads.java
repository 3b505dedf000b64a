import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.SplittableRandom;
import java.util.zip.CRC32;

/**
 * Random payloads that are the same for every system, because they depend only on kind, size and number. The kind is bytes, or
 * avro: a record in Avro's binary encoding, of id (long), customer (string), cents (long) and note (string), of about the size.
 */
final class Payloads {
    private static final String LETTERS = "abcdefghijklmnopqrstuvwxyz012345";
    private static final int CUSTOMER = 16;
    private static final int OTHERS = 12; // bytes of the two numbers and of the lengths, about

    private final SplittableRandom random;
    private final boolean avro;
    private final int size;
    private long id;
    private long checksum;

    Payloads(String kind, int size) {
        this.avro = kind.equals("avro");
        this.size = size;
        this.random = new SplittableRandom(size);
    }

    byte[] next() {
        byte[] payload = avro ? null : new byte[size];
        byte[] summed = payload;
        if (avro) {
            String customer = text(CUSTOMER);
            String note = text(Math.max(size - CUSTOMER - OTHERS, 0));
            long cents = random.nextLong(1_000_000);
            summed = (id + "|" + customer + "|" + cents + "|" + note).getBytes(StandardCharsets.US_ASCII);
            payload = record(customer, cents, note);
            id++;
        } else {
            random.nextBytes(payload);
        }
        CRC32 crc = new CRC32();
        crc.update(summed);
        checksum += crc.getValue();
        return payload;
    }

    /** Returns the sum so far of the CRC-32 of all payloads; of a record, that of its fields as text, separated by bars. */
    long checksum() {
        return checksum;
    }

    private byte[] record(String customer, long cents, String note) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(size + OTHERS);
        number(bytes, id);
        string(bytes, customer);
        number(bytes, cents);
        string(bytes, note);
        return bytes.toByteArray();
    }

    private static void number(ByteArrayOutputStream bytes, long number) {
        long rest = (number << 1) ^ (number >> 63);
        while ((rest & ~0x7F) != 0) {
            bytes.write((int) (rest & 0x7F | 0x80));
            rest >>>= 7;
        }
        bytes.write((int) rest);
    }

    private static void string(ByteArrayOutputStream bytes, String text) {
        number(bytes, text.length());
        bytes.writeBytes(text.getBytes(StandardCharsets.US_ASCII));
    }

    private String text(int length) {
        StringBuilder text = new StringBuilder(length);
        for (int index = 0; index < length; index++) {
            text.append(LETTERS.charAt(random.nextInt(LETTERS.length())));
        }
        return text.toString();
    }
}
