// Members of one group in one Java process, as crowd.py's: java -cp JARS GroupMember.java COUNT HOST:PORT GROUP TOPIC SESSION
// SESSION is session.timeout.ms. Says the same lines as crowd.py. SIGTERM lets all members leave in order.

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class GroupMember {
    static volatile boolean stopped = false;

    static synchronized void say(String line) {
        System.out.print(line + "\n");
        System.out.flush();
    }

    static String places(List<String> each) {
        return "[" + String.join(", ", each) + "]";
    }

    static void run(String address, String group, String topic, int session) {
        Properties settings = new Properties();
        settings.putAll(Map.of(
            "bootstrap.servers", address, "group.id", group, "auto.offset.reset", "earliest",
            "enable.auto.commit", "false", "session.timeout.ms", "" + session,
            "heartbeat.interval.ms", "" + session / 6, "max.poll.interval.ms", "" + session, "partition.assignment.strategy", RangeAssignor.class.getName()));
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
            public void onPartitionsRevoked(Collection<TopicPartition> gone) {}

            public void onPartitionsAssigned(Collection<TopicPartition> given) {
                var metadata = consumer.groupMetadata();
                say("{\"member\": \"" + metadata.memberId() + "\", \"generation\": " + metadata.generationId()
                    + ", \"assigned\": " + places(given.stream().map(p -> "" + p.partition()).toList()) + "}");
            }
        });
        while (!stopped) {
            ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(200));
            if (found.isEmpty()) continue;
            List<String> consumed = new ArrayList<>();
            found.forEach(record -> consumed.add("[" + record.partition() + ", " + record.offset() + "]"));
            say("{\"consumed\": " + places(consumed) + "}");
            try {
                consumer.commitSync();
            } catch (CommitFailedException | RebalanceInProgressException | TimeoutException moved) {
                // Who has the partition now reads them again.
            }
        }
        consumer.close();
    }

    public static void main(String[] arguments) throws Exception {
        List<Thread> members = new ArrayList<>();
        for (int at = 0; at < Integer.parseInt(arguments[0]); at++) {
            members.add(new Thread(() -> {
                try {
                    run(arguments[1], arguments[2], arguments[3], Integer.parseInt(arguments[4]));
                } catch (Throwable error) {
                    say("{\"failed\": \"" + error.toString().replaceAll("[^A-Za-z0-9 .:_-]", " ") + "\"}");
                }
            }));
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopped = true;
            for (Thread member : members) {
                try {
                    member.join(20_000);
                } catch (InterruptedException over) {
                    return;
                }
            }
        }));
        for (Thread member : members) member.start();
        for (Thread member : members) member.join();
    }
}
