// Asks Apache Kafka's own classes about remote log metadata. One question a line, one answer a line:
//   encode <tab> message <tab> json      the bytes of a message, in hexadecimal
//   text <tab> hex                       what the value of a record of __remote_log_metadata says
//   again <tab> hex                      the same value, read and written again
//   partition <tab> uuid <tab> n <tab> count   the partition of __remote_log_metadata for partition n
//   replay <tab> hex                     let the cache of one partition take a value
//   find <tab> epoch <tab> offset        the segment that the cache finds, or "-"
//   highest <tab> epoch                  the highest offset that it knows of an epoch, or "-"
//   all                                  ids and states of all its segments
//   forget                               begin with an empty cache
package org.apache.kafka.server.log.remote.metadata.storage;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;

import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.server.log.remote.metadata.storage.generated.*;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.*;

public class RemoteLogOracle {
    private static final RemoteLogMetadataSerde SERDE = new RemoteLogMetadataSerde();
    private static RemoteLogMetadataCache cache = newCache();

    private static RemoteLogMetadataCache newCache() {
        RemoteLogMetadataCache made = new RemoteLogMetadataCache();
        made.markInitialized();
        return made;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split("\t")));
        }
        out.flush();
    }

    private static String answer(String[] asked) throws Exception {
        switch (asked[0]) {
            case "encode":
                return encode(asked[1], asked[2]);
            case "text":
                return SERDE.deserialize(HexFormat.of().parseHex(asked[1])).toString();
            case "again":
                return HexFormat.of().formatHex(SERDE.serialize(SERDE.deserialize(HexFormat.of().parseHex(asked[1]))));
            case "partition":
                TopicIdPartition partition = new TopicIdPartition(
                    Uuid.fromString(asked[1]), Integer.parseInt(asked[2]), "any");
                return "" + new RemoteLogMetadataTopicPartitioner(Integer.parseInt(asked[3])).metadataPartition(partition);
            case "replay":
                return replay(SERDE.deserialize(HexFormat.of().parseHex(asked[1])));
            case "find":
                return cache.remoteLogSegmentMetadata(Integer.parseInt(asked[1]), Long.parseLong(asked[2]))
                    .map(found -> found.remoteLogSegmentId().id().toString()).orElse("-");
            case "highest":
                return cache.highestOffsetForEpoch(Integer.parseInt(asked[1])).map(Object::toString).orElse("-");
            case "all":
                List<String> all = new ArrayList<>();
                cache.listAllRemoteLogSegments().forEachRemaining(
                    each -> all.add(each.remoteLogSegmentId().id() + ":" + each.state().id()));
                Collections.sort(all);
                return String.join(",", all);
            case "forget":
                cache = newCache();
                return "";
            default:
                throw new IllegalArgumentException(asked[0]);
        }
    }

    private static String replay(RemoteLogMetadata record) {
        try {
            if (record instanceof RemoteLogSegmentMetadata) {
                cache.addCopyInProgressSegment((RemoteLogSegmentMetadata) record);
            } else {
                cache.updateRemoteLogSegmentMetadata((RemoteLogSegmentMetadataUpdate) record);
            }
            return "ok";
        } catch (Exception refused) {
            return refused.getClass().getSimpleName();
        }
    }

    private static String encode(String message, String json) throws Exception {
        com.fasterxml.jackson.databind.JsonNode node = new ObjectMapper().readTree(json);
        short version = 0;
        org.apache.kafka.common.protocol.ApiMessage made;
        switch (message) {
            case "RemoteLogSegmentMetadataRecord":
                made = RemoteLogSegmentMetadataRecordJsonConverter.read(node, version);
                break;
            case "RemoteLogSegmentMetadataUpdateRecord":
                made = RemoteLogSegmentMetadataUpdateRecordJsonConverter.read(node, version);
                break;
            case "RemotePartitionDeleteMetadataRecord":
                made = RemotePartitionDeleteMetadataRecordJsonConverter.read(node, version);
                break;
            case "RemoteLogSegmentMetadataSnapshotRecord":
                made = RemoteLogSegmentMetadataSnapshotRecordJsonConverter.read(node, version);
                break;
            default:
                throw new IllegalArgumentException(message);
        }
        return HexFormat.of().formatHex(MessageUtil.toByteBufferAccessor(made, version).buffer().array());
    }
}
