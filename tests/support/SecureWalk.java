// The walk of secure_walks.py with Apache Kafka's own clients: java -cp JARS:FOLDER SecureWalk PROPERTIES TOPIC
// Prints what each group has read, a line each: the group, then the lengths of its records' values.

import java.io.FileInputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class SecureWalk {
    static final long WITHIN_MS = 60_000;
    static final int[] SENT = {100_000, 9};

    public static void main(String[] arguments) throws Exception {
        var topic = arguments[1];
        try (var admin = Admin.create(settings(arguments[0]))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            produce(arguments[0], topic);
            for (var protocol : List.of("classic", "consumer")) read(arguments[0], topic, protocol);
            var groups = admin.listGroups().all().get().stream().map(each -> each.groupId()).toList();
            if (!groups.contains(topic + "-classic") || !groups.contains(topic + "-consumer"))
                throw new IllegalStateException("groups: " + groups);
        }
    }

    static Properties settings(String path) throws Exception {
        var found = new Properties();
        try (var file = new FileInputStream(path)) {
            found.load(file);
        }
        return found;
    }

    static void produce(String path, String topic) throws Exception {
        var serializer = new ByteArraySerializer();
        try (var producer = new KafkaProducer<byte[], byte[]>(settings(path), serializer, serializer)) {
            producer.send(new ProducerRecord<>(topic, new byte[SENT[0]])).get();
        }
        var settings = settings(path);
        settings.put("transactional.id", topic);
        try (var producer = new KafkaProducer<byte[], byte[]>(settings, serializer, serializer)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, new byte[1]));
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, new byte[SENT[1]]));
            producer.commitTransaction();
        }
    }

    static void read(String path, String topic, String protocol) throws Exception {
        var settings = settings(path);
        settings.put("group.id", topic + "-" + protocol);
        settings.put("group.protocol", protocol);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        var deserializer = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, deserializer, deserializer)) {
            consumer.subscribe(List.of(topic));
            var found = new ArrayList<Integer>();
            var until = System.currentTimeMillis() + WITHIN_MS;
            while (found.size() < SENT.length && System.currentTimeMillis() < until)
                consumer.poll(Duration.ofMillis(500)).forEach(each -> found.add(each.value().length));
            consumer.commitSync();
            System.out.println(protocol + " " + found);
        }
    }
}
