import org.apache.bookkeeper.mledger.Entry;
import org.apache.pulsar.broker.service.plugin.EntryFilter;
import org.apache.pulsar.broker.service.plugin.FilterContext;

/** An entry filter, a plug-in of the owner: rejects every second entry. */
public final class OnlyEven implements EntryFilter {
    @Override
    public FilterResult filterEntry(Entry entry, FilterContext context) {
        return entry.getEntryId() % 2 == 0 ? FilterResult.ACCEPT : FilterResult.REJECT;
    }

    @Override
    public void close() {
    }
}
