import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;

/**
 * Writes the files beside it: record batches by Kafka's own classes, for tests of our decoder, and Kafka's error
 * codes. With the jars of kafka-clients 4.1.0 and its dependencies in libs/:
 *
 *     java -cp 'libs/*' Golden.java > batches.txt
 *     java -cp 'libs/*' Golden.java errors > error_codes.txt
 */
public class Golden {
    static final long BASE = 1000;
    static final long TIME = 1700000000000L;
    static final long APPENDED = 1800000000000L;

    public static void main(String[] args) {
        if (args.length > 0) {
            for (Errors error : Errors.values()) System.out.println(error.code() + " " + error.name());
            return;
        }
        for (byte magic = 0; magic <= 2; magic++) {
            for (CompressionType type : CompressionType.values()) {
                if (type == CompressionType.ZSTD && magic < 2) continue;
                print("v" + magic + " " + type.name, three(magic, type, TimestampType.CREATE_TIME));
                if (magic > 0)
                    print("v" + magic + " " + type.name + " appended", three(magic, type, TimestampType.LOG_APPEND_TIME));
            }
        }
        print("v2 headers", headers());
        print("v2 transactional", transactional());
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.ABORT, ControlRecordType.COMMIT})
            print("v2 " + type.name().toLowerCase(), MemoryRecords.withEndTransactionMarker(
                BASE, TIME, 5, 77L, (short) 3, new EndTransactionMarker(type, 9)).buffer());
        print("v2 empty", empty());
        print("v2 compacted", compacted());
    }

    static ByteBuffer three(byte magic, CompressionType type, TimestampType kind) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(4096), magic,
            Compression.of(type).build(), kind, BASE, APPENDED, RecordBatch.NO_PRODUCER_ID,
            RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE, false, magic == 2 ? 5 : -1);
        long time = magic == 0 ? RecordBatch.NO_TIMESTAMP : TIME;
        builder.append(time, "key".getBytes(StandardCharsets.UTF_8), "x".repeat(100).getBytes(StandardCharsets.UTF_8));
        builder.append(magic == 0 ? time : TIME - 5, null, new byte[] {(byte) 0xff, 0, (byte) 0xfe});
        builder.append(magic == 0 ? time : TIME + 7, new byte[0], (byte[]) null);
        return builder.build().buffer();
    }

    static ByteBuffer headers() {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(4096), (byte) 2,
            Compression.NONE, TimestampType.CREATE_TIME, BASE);
        builder.append(TIME, "k".getBytes(StandardCharsets.UTF_8), "v".getBytes(StandardCharsets.UTF_8), new Header[] {
            new RecordHeader("trace", new byte[] {(byte) 0x80, 1}),
            new RecordHeader("trace", null),
            new RecordHeader("", new byte[0]),
            new RecordHeader("größe", "x".getBytes(StandardCharsets.UTF_8))});
        return builder.build().buffer();
    }

    static ByteBuffer transactional() {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(4096), (byte) 2,
            Compression.NONE, TimestampType.CREATE_TIME, BASE, RecordBatch.NO_TIMESTAMP, 77L, (short) 3, 12, true, 5);
        builder.append(TIME, null, "v".getBytes(StandardCharsets.UTF_8));
        return builder.build().buffer();
    }

    static ByteBuffer empty() {
        ByteBuffer buffer = ByteBuffer.allocate(1024);
        DefaultRecordBatch.writeEmptyHeader(buffer, (byte) 2, 77L, (short) 3, 12, BASE, BASE + 9, 5,
            TimestampType.CREATE_TIME, TIME, true, false);
        buffer.flip();
        return buffer;
    }

    /** A batch after log compaction: offsets 1000, 1004 and 1007 of a batch that went to 1009. */
    static ByteBuffer compacted() {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(4096), (byte) 2,
            Compression.NONE, TimestampType.CREATE_TIME, BASE);
        for (long offset : new long[] {BASE, BASE + 4, BASE + 7})
            builder.appendWithOffset(offset, TIME, null, Long.toString(offset).getBytes(StandardCharsets.UTF_8));
        builder.overrideLastOffset(BASE + 9);
        return builder.build().buffer();
    }

    static void print(String name, ByteBuffer records) {
        byte[] bytes = new byte[records.remaining()];
        records.duplicate().get(bytes);
        System.out.println(name.replace(' ', '-') + " " + HexFormat.of().formatHex(bytes));
    }
}
