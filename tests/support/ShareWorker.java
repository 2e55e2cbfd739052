// A member of a share group that says what became of each record: java -cp JARS ShareWorker HOST:PORT GROUP TOPIC COUNT [LIMIT]
// The value of a record is a number N. By N % 4 it is accepted (0), rejected (1), released once and then accepted (2), or
// renewed for longer than its lock and then accepted (3). With the LIMIT of deliveries (2) is released each time, and (3)
// is accepted at once. Prints "N DELIVERY" for each delivery, and ends when COUNT records are settled.

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

public class ShareWorker {
    static final int RENEWALS = 4;
    static final int BETWEEN_MS = 600;

    public static void main(String[] words) throws InterruptedException {
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", words[0], "group.id", words[1], "share.acknowledgement.mode", "explicit"));
        int left = Integer.parseInt(words[3]);
        int limit = words.length > 4 ? Integer.parseInt(words[4]) : 0;
        try (var consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(words[2]));
            while (left > 0) {
                List<ConsumerRecord<String, String>> kept = new ArrayList<>();
                for (var record : consumer.poll(Duration.ofMillis(500))) {
                    int number = Integer.parseInt(record.value());
                    int delivery = record.deliveryCount().get();
                    System.out.println(number + " " + delivery);
                    AcknowledgeType type = switch (number % 4) {
                        case 1 -> AcknowledgeType.REJECT;
                        case 2 -> delivery == 1 || limit > 0 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
                        case 3 -> limit > 0 ? AcknowledgeType.ACCEPT : AcknowledgeType.RENEW;
                        default -> AcknowledgeType.ACCEPT;
                    };
                    consumer.acknowledge(record, type);
                    if (type == AcknowledgeType.RENEW) kept.add(record);
                    else if (type != AcknowledgeType.RELEASE || delivery == limit) left--;
                }
                check(consumer);
                for (int round = 1; round <= RENEWALS && !kept.isEmpty(); round++) {
                    Thread.sleep(BETWEEN_MS);
                    consumer.poll(Duration.ofMillis(1));
                    for (var record : kept) {
                        consumer.acknowledge(record, round < RENEWALS ? AcknowledgeType.RENEW : AcknowledgeType.ACCEPT);
                    }
                    check(consumer);
                }
                left -= kept.size();
            }
        }
    }

    static void check(KafkaShareConsumer<String, String> consumer) {
        consumer.commitSync().forEach((place, error) -> {
            if (error.isPresent()) throw error.get();
        });
    }
}
