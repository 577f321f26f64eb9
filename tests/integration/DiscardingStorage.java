import java.io.InputStream;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/** A remote store that keeps nothing: enough for a broker to write its metadata. */
public class DiscardingStorage implements RemoteStorageManager {
    public void configure(Map<String, ?> configs) {}

    public void close() {}

    public Optional<CustomMetadata> copyLogSegmentData(
            RemoteLogSegmentMetadata metadata, LogSegmentData data) {
        return Optional.empty();
    }

    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start)
            throws RemoteStorageException {
        throw new RemoteStorageException("nothing is kept");
    }

    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start, int end)
            throws RemoteStorageException {
        throw new RemoteStorageException("nothing is kept");
    }

    public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType type)
            throws RemoteStorageException {
        throw new RemoteStorageException("nothing is kept");
    }

    public void deleteLogSegmentData(RemoteLogSegmentMetadata metadata) {}
}
