// One worker of a consume-transform-produce loop, as eos_worker.py, by Apache Kafka's own client:
//   java -cp 'KAFKA_LIB/*' EosWorker.java HOST:PORT INPUT OUTPUT PARTITION END SEED

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

public class EosWorker {
    static final int MAX_RECORDS = 20;
    static final Duration WITHIN = Duration.ofSeconds(20);

    public static void main(String[] args) {
        TopicPartition source = new TopicPartition(args[1], Integer.parseInt(args[3]));
        String target = args[2];
        long end = Long.parseLong(args[4]);
        Random chance = new Random(args[5].hashCode());
        try (KafkaProducer<byte[], byte[]> producer = producer(args[0], source.partition());
             KafkaConsumer<byte[], byte[]> consumer = consumer(args[0])) {
            producer.initTransactions();
            consumer.assign(List.of(source));
            OffsetAndMetadata committed = consumer.committed(Set.of(source), WITHIN).get(source);
            long position = committed == null ? 0 : committed.offset();
            while (position < end) {
                consumer.seek(source, position);
                List<ConsumerRecord<byte[], byte[]>> records = consumer.poll(WITHIN).records(source);
                if (records.isEmpty()) continue;
                int size = Math.min(records.size(), 1 + chance.nextInt(MAX_RECORDS));
                producer.beginTransaction();
                for (ConsumerRecord<byte[], byte[]> record : records.subList(0, size)) {
                    String value = "copy of " + new String(record.value(), StandardCharsets.UTF_8);
                    producer.send(new ProducerRecord<>(
                        target, source.partition(), null, value.getBytes(StandardCharsets.UTF_8)));
                }
                long following = records.get(size - 1).offset() + 1;
                producer.sendOffsetsToTransaction(
                    Map.of(source, new OffsetAndMetadata(following)), consumer.groupMetadata());
                if (chance.nextInt(10) == 0) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                    position = following;
                    System.out.println("at " + position);
                }
            }
        } catch (RuntimeException error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    static KafkaProducer<byte[], byte[]> producer(String address, int partition) {
        Properties settings = common(address);
        settings.put("transactional.id", "eos-" + partition);
        settings.put("transaction.timeout.ms", "30000");
        settings.put("max.block.ms", "20000");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        return new KafkaProducer<>(settings);
    }

    static KafkaConsumer<byte[], byte[]> consumer(String address) {
        Properties settings = common(address);
        settings.put("group.id", "eos");
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        return new KafkaConsumer<>(settings);
    }

    static Properties common(String address) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("reconnect.backoff.max.ms", "200");
        return settings;
    }
}
