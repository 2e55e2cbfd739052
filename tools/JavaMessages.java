import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Writes filled messages as Java's own classes encode them: a line each of name, version, hex and the JSON behind it.
 *
 * <p>java -cp "$KAFKA_LIB/*" tools/JavaMessages.java SPECIFICATIONS NAME[:FIRST-LAST]... &gt; java-messages.txt
 *
 * <p>SPECIFICATIONS is the file of golden_messages.py. Each message comes twice a version: every field filled with a value
 * of its own, and as bare as it can be (null where that is allowed, no elements, no tagged fields).
 */
public class JavaMessages {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

    private final JsonNode specification;
    private final short version;
    private final boolean full;
    private final Map<String, JsonNode> commonStructs = new HashMap<>();
    private int counter = 0;

    public static void main(String[] args) throws Exception {
        JsonNode specifications = new ObjectMapper().readTree(Files.readString(Path.of(args[0])));
        for (int i = 1; i < args.length; i++) {
            String[] wanted = args[i].split(":");
            JsonNode specification = specifications.get(wanted[0]);
            int[] versions = range(wanted.length > 1 ? wanted[1] : specification.get("validVersions").asText());
            for (int version = versions[0]; version <= versions[1]; version++) {
                for (boolean full : new boolean[] {true, false}) {
                    System.out.println(new JavaMessages(specification, (short) version, full).line());
                }
            }
        }
    }

    private JavaMessages(JsonNode specification, short version, boolean full) {
        this.specification = specification;
        this.version = version;
        this.full = full;
        for (JsonNode struct : specification.path("commonStructs")) {
            commonStructs.put(struct.get("name").asText(), struct.get("fields"));
        }
    }

    /** Where the records of a coordinator are: each coordinator has a package of its own. */
    private String coordinator() {
        String name = specification.get("name").asText();
        String whose = name.startsWith("Transaction") ? "transaction"
            : name.startsWith("ShareSnapshot") || name.startsWith("ShareUpdate") ? "share" : "group";
        return "org.apache.kafka.coordinator." + whose + ".generated.";
    }

    private String line() throws Exception {
        String name = specification.get("name").asText();
        String type = specification.get("type").asText();
        String java = (type.startsWith("coordinator") ? coordinator()
            : "org.apache.kafka.common.message.") + name + (type.startsWith("re") ? "Data" : "");
        ObjectNode json = struct(specification.get("fields"));
        Message message = (Message) Class.forName(java + "JsonConverter")
            .getMethod("read", JsonNode.class, short.class)
            .invoke(null, json, version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        byte[] raw = new byte[message.size(cache, version)];
        message.write(new ByteBufferAccessor(ByteBuffer.wrap(raw)), cache, version);
        return name + " " + version + " " + HexFormat.of().formatHex(raw) + " " + json;
    }

    private ObjectNode struct(JsonNode fields) {
        ObjectNode made = JSON.objectNode();
        for (JsonNode field : fields) {
            boolean tagged = field.has("tag");
            if (has(field, "versions") && (full || !tagged)) {
                String name = field.get("name").asText();
                made.set(name.substring(0, 1).toLowerCase() + name.substring(1), value(field, field.get("type").asText()));
            }
        }
        return made;
    }

    private JsonNode value(JsonNode field, String type) {
        if (!full && has(field, "nullableVersions")) {
            return JSON.nullNode();
        }
        if (type.startsWith("[]")) {
            ArrayNode array = JSON.arrayNode();
            for (int i = 0; full && i < 2; i++) {
                array.add(value(field, type.substring(2)));
            }
            return array;
        }
        counter++;
        long number = full ? counter : 0;
        return switch (type) {
            case "bool" -> JSON.booleanNode(full);
            case "int8" -> JSON.numberNode(number % 128);
            case "int16", "uint16" -> JSON.numberNode(number * 257 % 32768);
            case "int32", "uint32" -> JSON.numberNode(number * 0x01020304L % 0x7fffffffL);
            case "int64" -> JSON.numberNode(number * 0x0102030405060708L);
            case "float64" -> JSON.numberNode(number / 4.0);
            case "string" -> JSON.textNode(full ? text() : "");
            case "uuid" -> JSON.textNode(Base64.getUrlEncoder().withoutPadding().encodeToString(octets(16)));
            case "bytes", "records" -> JSON.textNode(Base64.getEncoder().encodeToString(octets(full ? counter * 3 : 0)));
            default -> struct(field.has("fields") ? field.get("fields") : commonStructs.get(type));
        };
    }

    /** Each text is another; some are longer than a varint of one byte can say, and none is plain ASCII. */
    private String text() {
        return "t\u00e9xt-" + counter + (counter % 11 == 0 ? "-long".repeat(30) : "");
    }

    private byte[] octets(int size) {
        byte[] made = new byte[size];
        for (int i = 0; full && i < size; i++) {
            made[i] = (byte) (counter + i);
        }
        return made;
    }

    private boolean has(JsonNode field, String fact) {
        if (!field.has(fact) || field.get(fact).asText().equals("none")) {
            return false;
        }
        int[] versions = range(field.get(fact).asText());
        return versions[0] <= version && version <= versions[1];
    }

    private static int[] range(String text) {
        String[] ends = text.replace("+", "-32767").split("-");
        return new int[] {Integer.parseInt(ends[0]), Integer.parseInt(ends[ends.length - 1])};
    }
}
