// Counts the words of a topic by Kafka Streams, exactly once, until it is killed:
//   java -cp 'KAFKA_LIB/*' WordCount.java HOST:PORT INPUT OUTPUT STATE_FOLDER
// The words go through a repartition topic, the counts to a changelog. Each new count is a record "WORD COUNT".

import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Materialized;

public class WordCount {
    public static void main(String[] args) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(args[1])
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues((word, count) -> word + " " + count)
            .to(args[2]);
        new KafkaStreams(builder.build(), settings(args[0], args[3])).start();
    }

    static Properties settings(String address, String folder) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "word-count");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, address);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put("commit.interval.ms", 100);
        settings.put("session.timeout.ms", 2000);
        settings.put("heartbeat.interval.ms", 500);
        return settings;
    }
}
