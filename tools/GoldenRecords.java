import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Locale;
import java.util.function.Consumer;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Batches and message sets as Kafka's own Java classes write and read them, one JSON object a line:
 * name, hex, batches (what Java says of each header) and records ([offset, timestamp, key, value, [[header, value]...]],
 * bytes in hex, or their SHA-256 where they are more than 1000).
 *
 * <p>java -cp "$KAFKA_LIB/*" tools/GoldenRecords.java write > tests/golden/records/java.jsonl
 *
 * <p>java -cp "$KAFKA_LIB/*" tools/GoldenRecords.java read: hex lines on standard input, the same objects
 * (or "error") on standard output.
 */
public class GoldenRecords {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long T = 1_700_000_000_000L;
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        if (args[0].equals("write")) {
            write();
        } else {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                ObjectNode node = JSON.createObjectNode();
                try {
                    node = describe("", HexFormat.of().parseHex(line.strip()));
                } catch (Exception e) {
                    node.put("error", e.toString());
                }
                OUT.println(JSON.writeValueAsString(node));
            }
        }
        OUT.flush();
    }

    private static void write() throws Exception {
        for (byte magic = 0; magic <= 2; magic++) {
            for (CompressionType codec : CompressionType.values()) {
                if (codec == CompressionType.ZSTD && magic < 2) {
                    continue;
                }
                String name = "v" + magic + "-" + codec.name.toLowerCase(Locale.ROOT);
                Compression compression = Compression.of(codec).build();
                mixed(name + "-mixed", magic, compression);
                gaps(name + "-gaps", magic, compression);
                if (codec != CompressionType.NONE) {
                    long_(name + "-long", magic, compression);
                }
                if (magic > 0) {
                    build(name + "-append-time", magic, compression, TimestampType.LOG_APPEND_TIME, 7, b -> {
                        b.append(T, bytes("a"), bytes("1"));
                        b.append(T + 1, bytes("b"), bytes("2"));
                    });
                }
            }
        }
        MemoryRecordsBuilder transaction =
            builder(Compression.lz4().build(), 40, 4711L, (short) 3, 2147483646, true, RecordBatch.NO_TIMESTAMP);
        transaction.append(T, bytes("k"), bytes("v"));
        transaction.append(T - 5, bytes("k"), bytes("w"));
        transaction.append(T - 5, null, (byte[]) null);
        emit("v2-transactional-sequence-wraps", transaction.build());
        MemoryRecordsBuilder horizon = builder(Compression.NONE, 90, -1L, (short) -1, -1, false, T + 86_400_000L);
        horizon.appendWithOffset(90, T, bytes("gone"), null);
        horizon.appendWithOffset(95, T + 9, bytes("stays"), bytes("v"));
        emit("v2-delete-horizon", horizon.build());
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.COMMIT, ControlRecordType.ABORT}) {
            emit("v2-marker-" + type.name().toLowerCase(Locale.ROOT),
                MemoryRecords.withEndTransactionMarker(123, T, 9, 4711L, (short) 3, new EndTransactionMarker(type, 17)));
        }
        emit("v2-leader-change", MemoryRecords.withLeaderChangeMessage(0, T, 2, ByteBuffer.allocate(512),
            new LeaderChangeMessage().setLeaderId(1)));
        ByteBuffer empty = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(empty, (byte) 2, 4711L, (short) 3, 5, 200, 209, 6,
            TimestampType.CREATE_TIME, T, false, false);
        empty.flip();
        emit("v2-emptied-by-compaction", MemoryRecords.readableRecords(empty));
    }

    /** Nulls, empty and not so empty keys, values and headers; timestamps that run backwards. */
    private static void mixed(String name, byte magic, Compression compression) throws Exception {
        build(name, magic, compression, TimestampType.CREATE_TIME, 100, b -> {
            b.append(T, null, bytes("no key"));
            b.append(T - 1000, bytes("no value"), (byte[]) null);
            b.append(T + 70_000_000_000L, bytes(""), bytes(""));
            b.append(0, new byte[] {0, -1, 127, -128}, bytes("Ünïcödé ✓"));
            if (magic == 2) {
                b.append(T, bytes("headers"), bytes("v"), new Header[] {
                    new RecordHeader("h", bytes("1")), new RecordHeader("null", (byte[]) null),
                    new RecordHeader("", new byte[0]), new RecordHeader("ключ ✓", bytes("x".repeat(200)))});
            }
        });
    }

    /** Offsets as compaction leaves them. */
    private static void gaps(String name, byte magic, Compression compression) throws Exception {
        build(name, magic, compression, TimestampType.CREATE_TIME, 1L << 40, b -> {
            b.appendWithOffset((1L << 40) + 1, T, bytes("a"), bytes("1"));
            b.appendWithOffset((1L << 40) + 70, T + 1, bytes("b"), bytes("2"));
            b.appendWithOffset((1L << 40) + 100_000, T + 2, bytes("c"), bytes("3"));
        });
    }

    /** Longer than a block of snappy (32 KiB) and of LZ4 (64 KiB). */
    private static void long_(String name, byte magic, Compression compression) throws Exception {
        build(name, magic, compression, TimestampType.CREATE_TIME, 0, b -> {
            for (int i = 0; i < 3; i++) {
                b.append(T + i, bytes("key " + i), bytes(("line " + i + ", ").repeat(6000)));
            }
        });
    }

    private static void build(String name, byte magic, Compression compression, TimestampType type, long base,
            Consumer<MemoryRecordsBuilder> fill) throws Exception {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1024), magic, compression, type, base,
            type == TimestampType.LOG_APPEND_TIME ? T + 500 : RecordBatch.NO_TIMESTAMP);
        fill.accept(builder);
        emit(name, builder.build());
    }

    private static MemoryRecordsBuilder builder(Compression compression, long base, long pid, short epoch, int sequence,
            boolean transactional, long horizon) {
        return new MemoryRecordsBuilder(new ByteBufferOutputStream(1024), (byte) 2, compression, TimestampType.CREATE_TIME, base,
            RecordBatch.NO_TIMESTAMP, pid, epoch, sequence, transactional, false, 8, Integer.MAX_VALUE, horizon);
    }

    private static void emit(String name, MemoryRecords records) throws Exception {
        ByteBuffer buffer = records.buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        OUT.println(JSON.writeValueAsString(describe(name, bytes)));
    }

    private static ObjectNode describe(String name, byte[] bytes) {
        ObjectNode node = JSON.createObjectNode().put("name", name).put("hex", HexFormat.of().formatHex(bytes));
        ArrayNode batches = node.putArray("batches");
        ArrayNode records = node.putArray("records");
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
            batch.ensureValid();
            ObjectNode header = batches.addObject().put("magic", batch.magic()).put("last_offset", batch.lastOffset())
                .put("size_bytes", batch.sizeInBytes()).put("compression", batch.compressionType().id)
                .put("max_timestamp", batch.maxTimestamp()).put("timestamp_type", batch.timestampType().id)
                .put("crc", batch.checksum());
            if (batch.magic() == 2) {
                header.put("base_offset", batch.baseOffset()).put("next_offset", batch.nextOffset())
                    .put("partition_leader_epoch", batch.partitionLeaderEpoch()).put("producer_id", batch.producerId())
                    .put("producer_epoch", batch.producerEpoch()).put("base_sequence", batch.baseSequence())
                    .put("last_sequence", batch.lastSequence()).put("record_count", batch.countOrNull())
                    .put("is_transactional", batch.isTransactional()).put("is_control", batch.isControlBatch())
                    .put("has_delete_horizon", batch.deleteHorizonMs().isPresent());
            }
            for (Record record : batch) {
                record.ensureValid();
                ArrayNode row = records.addArray().add(record.offset()).add(record.timestamp())
                    .add(hex(record.key())).add(hex(record.value()));
                ArrayNode headers = row.addArray();
                for (Header h : record.headers()) {
                    headers.addArray().add(h.key()).add(h.value() == null ? null : HexFormat.of().formatHex(h.value()));
                }
            }
        }
        return node;
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes.length > 1000 ? "sha256:" + sha256(bytes) : HexFormat.of().formatHex(bytes);
    }

    private static String sha256(byte[] bytes) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
