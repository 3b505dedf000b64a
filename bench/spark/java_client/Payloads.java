import java.util.SplittableRandom;
import java.util.zip.CRC32;

/** The same random payloads for every system: they depend on size and number only. */
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

    /** The sum of the CRC-32 of all payloads so far. */
    long checksum() {
        return checksum;
    }
}
