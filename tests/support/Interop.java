// Apache Kafka's own client, as one side of tests whose other side is ours: java -cp JARS:FOLDER Interop COMMAND ADDRESS TOPIC ...
// Records are printed as JSON lines, with bytes in hex.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Interop {
    static final long WITHIN_MS = 60_000;

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "produce" -> produce(arguments[1], arguments[2], Integer.parseInt(arguments[3]), arguments[4]);
            case "consume" -> consume(arguments[1], arguments[2], Integer.parseInt(arguments[3]), arguments[4]);
            case "transactions" -> transactions(arguments[1], arguments[2]);
            case "hand-over" -> handOver(arguments[1], arguments[2], Integer.parseInt(arguments[3]));
            case "member" -> member(arguments[1], arguments[2], arguments[3]);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static KafkaProducer<byte[], byte[]> producer(String address, Map<String, Object> more) {
        Map<String, Object> settings = new java.util.HashMap<>(more);
        settings.put("bootstrap.servers", address);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(String address, Map<String, Object> more) {
        Map<String, Object> settings = new java.util.HashMap<>(more);
        settings.put("bootstrap.servers", address);
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    // COUNT records with keys, into TOPIC-CODEC for each of the codecs (a comma between two).
    static void produce(String address, String topic, int count, String codecs) {
        for (String codec : codecs.split(",")) {
            try (var producer = producer(address, Map.of("compression.type", codec))) {
                for (int at = 0; at < count; at++) {
                    byte[] value = at % 7 == 0 ? null : bytes(("value-" + at).repeat(20));
                    var record = new ProducerRecord<>(topic + "-" + codec, null, bytes("key-" + at), value);
                    record.headers().add("from", bytes("java")).add("none", null);
                    producer.send(record);
                }
            }
        }
    }

    // COUNT records of all partitions of each topic (a comma between two).
    static void consume(String address, String topics, int count, String isolation) {
        try (var consumer = consumer(address, Map.of("isolation.level", isolation))) {
            for (String topic : topics.split(",")) {
                List<TopicPartition> places = new ArrayList<>();
                consumer.partitionsFor(topic).forEach(each -> places.add(new TopicPartition(topic, each.partition())));
                consumer.assign(places);
                consumer.seekToBeginning(places);
                int found = 0;
                long deadline = System.currentTimeMillis() + WITHIN_MS;
                while (found < count && System.currentTimeMillis() < deadline) {
                    for (var record : consumer.poll(Duration.ofMillis(500))) {
                        say(record);
                        found++;
                    }
                }
            }
        }
    }

    static String hex(byte[] data) {
        return data == null ? "null" : "\"" + HexFormat.of().formatHex(data) + "\"";
    }

    static void say(ConsumerRecord<byte[], byte[]> record) {
        List<String> headers = new ArrayList<>();
        for (Header each : record.headers()) headers.add("[\"" + each.key() + "\", " + hex(each.value()) + "]");
        System.out.println("{\"topic\": \"" + record.topic() + "\", \"partition\": " + record.partition() + ", \"offset\": "
            + record.offset() + ", \"key\": " + hex(record.key()) + ", \"value\": " + hex(record.value())
            + ", \"headers\": [" + String.join(", ", headers) + "]}");
        System.out.flush();
    }

    // One that commits, one that aborts, one that commits.
    static void transactions(String address, String topic) {
        try (var producer = producer(address, Map.of("transactional.id", topic + "-java"))) {
            producer.initTransactions();
            for (int number = 1; number <= 3; number++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, bytes("java-" + number)));
                producer.flush();
                if (number == 2) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
    }

    // Goes on where the group TOPIC stands: COUNT records to TOPIC-out, one transaction each, with the group's offsets.
    static void handOver(String address, String topic, int count) {
        var settings = Map.<String, Object>of("group.id", topic, "enable.auto.commit", "false", "max.poll.records", "1",
            "isolation.level", "read_committed");
        try (var consumer = consumer(address, settings);
                var producer = producer(address, Map.of("transactional.id", topic + "-worker"))) {
            producer.initTransactions();
            consumer.subscribe(List.of(topic));
            int done = 0;
            long deadline = System.currentTimeMillis() + WITHIN_MS;
            while (done < count && System.currentTimeMillis() < deadline) {
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    var next = new OffsetAndMetadata(record.offset() + 1, "java");
                    producer.beginTransaction();
                    producer.send(new ProducerRecord<>(topic + "-out", 0, record.key(), record.value()));
                    producer.sendOffsetsToTransaction(
                        Map.of(new TopicPartition(record.topic(), record.partition()), next), consumer.groupMetadata());
                    producer.commitTransaction();
                    say(record);
                    done++;
                }
            }
        }
    }

    // A member of a group named as the topic, until its input ends. Says its partitions when they change.
    static void member(String address, String topic, String assignor) throws Exception {
        var settings = Map.<String, Object>of("group.id", topic, "partition.assignment.strategy", assignor,
            "heartbeat.interval.ms", "100", "auto.commit.interval.ms", "100");
        try (var consumer = consumer(address, settings)) {
            consumer.subscribe(List.of(topic));
            Set<Integer> before = null;
            while (System.in.available() == 0) {
                consumer.poll(Duration.ofMillis(100)).forEach(Interop::say);
                Set<Integer> now = new TreeSet<>();
                consumer.assignment().forEach(each -> now.add(each.partition()));
                if (!now.equals(before)) {
                    System.out.println("{\"assigned\": " + now + "}");
                    System.out.flush();
                    before = now;
                }
            }
        }
    }
}
