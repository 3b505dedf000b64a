import java.util.SplittableRandom;
import java.util.zip.CRC32;

/** Random payloads that are the same for every system, because they depend only on size and number. */
final class Payloads {
    private final SplittableRandom random;
    private final int size;
    private long checksum;

    Payloads(int size) {
        this.size = size;
        this.random = new SplittableRandom(size);
    }

    byte[] next() {
        byte[] payload = new byte[size];
        random.nextBytes(payload);
        CRC32 crc = new CRC32();
        crc.update(payload);
        checksum += crc.getValue();
        return payload;
    }

    /** Returns the sum of the CRC-32 of all payloads so far. */
    long checksum() {
        return checksum;
    }
}
