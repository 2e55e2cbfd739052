import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.PrintWriter;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Writes what a real Kafka says about itself: api-versions.tsv (asked of a running broker), configs.tsv and
 * client-configs.txt, the names of what consumers, producers and admin clients take (both from its jars).
 *
 * <p>java -cp "$KAFKA_LIB/*" tools/KafkaFacts.java HOST:PORT tests/golden/kafka-4.4.0
 *
 * <p>Cells: \N is null, \R is "has no default, must be given", an empty cell is the empty string or list.
 */
public class KafkaFacts {
    public static void main(String[] args) throws Exception {
        String[] address = args[0].split(":");
        Path out = Path.of(args[1]);
        Files.createDirectories(out);
        try (PrintWriter tsv = new PrintWriter(out.resolve("api-versions.tsv").toFile())) {
            tsv.println("key\tname\tmin\tmax\tflexible_from");
            apiVersions(address[0], Integer.parseInt(address[1])).forEach((key, range) -> tsv.println(
                String.join("\t", "" + key, ApiKeys.forId(key).name, "" + range[0], "" + range[1], flexibleFrom(ApiKeys.forId(key)))));
        }
        try (PrintWriter tsv = new PrintWriter(out.resolve("configs.tsv").toFile())) {
            tsv.println("scope\tname\ttype\tdefault\tvalid\timportance\tupdate_mode\tsynonyms\tinternal");
            Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
            rows(tsv, "broker", kafka.server.KafkaConfig.configDef(), modes);
            rows(tsv, "topic", LogConfig.configDefCopy(), modes);
            rows(tsv, "group", GroupConfig.CONFIG_DEF, modes);
        }
        try (PrintWriter names = new PrintWriter(out.resolve("client-configs.txt").toFile())) {
            TreeSet<String> all = new TreeSet<>(ConsumerConfig.configNames());
            all.addAll(ProducerConfig.configNames());
            all.addAll(AdminClientConfig.configNames());
            all.forEach(names::println);
        }
    }

    static Map<Short, short[]> apiVersions(String host, int port) throws Exception {
        try (Socket socket = new Socket(host, port)) {
            DataOutputStream request = new DataOutputStream(socket.getOutputStream());
            request.writeInt(10);
            request.writeShort(18);
            request.writeShort(0);
            request.writeInt(1);
            request.writeShort(-1);
            DataInputStream response = new DataInputStream(socket.getInputStream());
            response.skipBytes(4 + 4);
            if (response.readShort() != 0) throw new IllegalStateException("ApiVersions refused");
            Map<Short, short[]> ranges = new TreeMap<>();
            for (int left = response.readInt(); left > 0; left--)
                ranges.put(response.readShort(), new short[] {response.readShort(), response.readShort()});
            return ranges;
        }
    }

    static String flexibleFrom(ApiKeys api) {
        for (short version = 0; version <= api.latestVersion(true); version++)
            if (version >= api.messageType.lowestSupportedVersion() && api.messageType.requestHeaderVersion(version) >= 2)
                return "" + version;
        return "\\N";
    }

    static void rows(PrintWriter tsv, String scope, ConfigDef def, Map<String, String> modes) {
        for (String name : new TreeSet<>(def.names())) {
            ConfigDef.ConfigKey key = def.configKeys().get(name);
            String mode = scope.equals("broker") ? modes.getOrDefault(name, "read-only") : "per-" + scope;
            tsv.println(String.join("\t", scope, name, key.type.name(), defaultOf(key), validOf(key),
                key.importance.name(), mode, synonyms(scope, name), "" + key.internalConfig));
        }
    }

    static String defaultOf(ConfigDef.ConfigKey key) {
        if (!key.hasDefault()) return "\\R";
        if (key.defaultValue == null) return "\\N";
        return ConfigDef.convertToString(key.defaultValue, key.type);
    }

    static String validOf(ConfigDef.ConfigKey key) {
        String text = key.validator == null ? "" : key.validator.toString();
        if (text.contains("@")) text = text.substring(0, text.indexOf('@')).replaceAll(".*\\.", "");
        return text.replaceAll("\\s+", " ");
    }

    /** The broker names that give a topic or group config its default, nearest first; for a broker config its older spellings. */
    static String synonyms(String scope, String name) {
        List<String> names = new ArrayList<>();
        if (scope.equals("broker")) {
            names.addAll(DynamicBrokerConfig.brokerConfigSynonyms(name, true));
            names.remove(name);
        } else if (scope.equals("topic")) {
            var all = org.apache.kafka.server.config.ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.get(name);
            if (all != null) all.forEach(synonym -> names.add(synonym.name()));
        } else {
            GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.getOrDefault(name, java.util.Optional.empty()).ifPresent(names::add);
        }
        return String.join(",", names);
    }
}
