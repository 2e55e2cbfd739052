import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * What Kafka's own assignors make of groups drawn by seed, one JSON object a line: the members with what they had
 * before and where they run, the topics with the racks of each partition, and the result of each assignor. The first
 * lines are user data as the sticky assignors write it.
 *
 * <p>java -cp "$KAFKA_LIB/*" tools/GoldenAssignments.java > tests/client/golden/assignments_with_history.jsonl
 */
public class GoldenAssignments {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final int CASES = 200;
    private static final String[] RACKS = {"a", "b", "c"};

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // the assignors log to it
        for (int generation : new int[] {-1, 0, 7, Integer.MAX_VALUE}) {
            for (List<TopicPartition> previous : List.of(
                    List.<TopicPartition>of(),
                    List.of(new TopicPartition("t", 0)),
                    List.of(new TopicPartition("t", 2), new TopicPartition("t", 1), new TopicPartition("Zürich", 9)))) {
                ObjectNode line = JSON.createObjectNode();
                line.set("previous", partitions(previous));
                line.put("generation", generation);
                line.put("sticky", hex(userData(new StickyAssignor(), previous, generation)));
                line.put("cooperative-sticky", hex(userData(new CooperativeStickyAssignor(), previous, generation)));
                OUT.println(JSON.writeValueAsString(line));
            }
        }
        for (int seed = 1; seed <= CASES; seed++) {
            OUT.println(JSON.writeValueAsString(new Case(new Random(seed * 0x9E3779B97F4A7C15L)).run()));
        }
        OUT.flush();
    }

    private static ByteBuffer userData(ConsumerPartitionAssignor assignor, List<TopicPartition> had, int generation) {
        assignor.onAssignment(new ConsumerPartitionAssignor.Assignment(had),
            new ConsumerGroupMetadata("group", generation, "member", Optional.empty()));
        return assignor.subscriptionUserData(new TreeSet<>());
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static ArrayNode partitions(Iterable<TopicPartition> from) {
        ArrayNode node = JSON.createArrayNode();
        from.forEach(each -> node.addArray().add(each.topic()).add(each.partition()));
        return node;
    }

    /** One member: what it reads, what it had, since when, and where it runs. */
    private static final class Member {
        String id;
        Optional<String> instance = Optional.empty();
        Optional<String> rack = Optional.empty();
        List<String> topics = new ArrayList<>();
        List<TopicPartition> owned = new ArrayList<>();
        int generation = -1;

        Subscription subscription(ByteBuffer data) {
            Subscription made = new Subscription(topics, data, owned, generation, rack);
            made.setGroupInstanceId(instance);
            return made;
        }

        ObjectNode node() {
            ObjectNode node = JSON.createObjectNode();
            node.put("id", id);
            instance.ifPresent(each -> node.put("instance", each));
            rack.ifPresent(each -> node.put("rack", each));
            node.put("generation", generation);
            topics.forEach(node.putArray("topics")::add);
            node.set("owned", partitions(owned));
            return node;
        }
    }

    /** A group with its history, drawn so that most of what can happen to one happens in some. */
    private static final class Case {
        private final Random random;
        private final Map<String, List<PartitionInfo>> topics = new TreeMap<>();
        private final List<Member> members = new ArrayList<>();
        private final boolean racks;

        Case(Random random) {
            this.random = random;
            racks = random.nextInt(2) == 0;
            drawTopics();
            drawMembers();
            if (random.nextInt(4) > 0) {
                drawHistory();
            }
        }

        private void drawTopics() {
            int count = 1 + random.nextInt(5);
            int same = random.nextInt(3) == 0 ? 1 + random.nextInt(8) : 0;
            for (int t = 0; t < count; t++) {
                String topic = "t" + t;
                List<PartitionInfo> infos = new ArrayList<>();
                int size = same > 0 ? same : 1 + random.nextInt(9);
                for (int p = 0; p < size; p++) {
                    Node[] replicas = racks ? replicas() : new Node[0];
                    infos.add(new PartitionInfo(topic, p, replicas.length == 0 ? Node.noNode() : replicas[0],
                        replicas, replicas));
                }
                topics.put(topic, infos);
            }
        }

        private Node[] replicas() {
            int first = random.nextInt(6);
            Node[] nodes = new Node[1 + random.nextInt(3)];
            for (int i = 0; i < nodes.length; i++) {
                int id = (first + i) % 6;
                nodes[i] = new Node(id, "host", 9092, RACKS[id % 3]);
            }
            return nodes;
        }

        private void drawMembers() {
            boolean equal = random.nextBoolean();
            int count = 1 + random.nextInt(7);
            for (int m = 0; m < count; m++) {
                Member member = new Member();
                member.id = "m" + random.nextInt(1000) + "-" + m;
                if (random.nextInt(6) == 0) {
                    member.instance = Optional.of("i" + random.nextInt(1000) + "-" + m);
                }
                if (racks && random.nextInt(5) > 0) {
                    member.rack = Optional.of(RACKS[random.nextInt(3)]);
                }
                for (String topic : topics.keySet()) {
                    if (equal || random.nextInt(3) > 0) {
                        member.topics.add(topic);
                    }
                }
                if (member.topics.isEmpty()) {
                    member.topics.add("t0");
                }
                members.add(member);
            }
        }

        /**
         * Most partitions had an owner; some members were away, and claim what others have had since. All claims are of
         * subscribed topics: Kafka's assignors let others stay with members that do not read them any more.
         */
        private void drawHistory() {
            boolean orderly = random.nextInt(3) == 0;
            for (List<PartitionInfo> infos : topics.values()) {
                String topic = infos.get(0).topic();
                List<Member> readers = members.stream().filter(member -> member.topics.contains(topic)).toList();
                for (PartitionInfo info : infos) {
                    int owner = orderly ? (info.partition() * readers.size()) / infos.size()
                        : random.nextInt(readers.size() + 1);
                    if (owner < readers.size()) {
                        readers.get(owner).owned.add(new TopicPartition(topic, info.partition()));
                    }
                }
            }
            for (Member member : members) {
                member.generation = 5;
            }
            if (random.nextInt(3) == 0) {
                Member late = members.get(random.nextInt(members.size()));
                late.generation = random.nextInt(4) == 0 ? 5 : 3;
                late.topics.forEach(topic ->
                    late.owned.add(new TopicPartition(topic, random.nextInt(topics.get(topic).size()))));
                late.owned = new ArrayList<>(new LinkedHashSet<>(late.owned));
            }
            if (members.size() > 1 && random.nextBoolean()) {
                members.remove(random.nextInt(members.size()));
            }
        }

        ObjectNode run() {
            ObjectNode node = JSON.createObjectNode();
            ObjectNode sizes = node.putObject("partitions");
            topics.forEach((topic, infos) -> sizes.put(topic, infos.size()));
            if (racks) {
                ObjectNode where = node.putObject("racks");
                topics.forEach((topic, infos) -> racksOf(infos, where.putArray(topic)));
            }
            ArrayNode group = node.putArray("members");
            members.forEach(member -> group.add(member.node()));
            for (AbstractPartitionAssignor assignor : List.of(new RangeAssignor(), new RoundRobinAssignor(),
                    new StickyAssignor(), new CooperativeStickyAssignor())) {
                node.set(assignor.name(), assign(assignor));
            }
            return node;
        }

        private void racksOf(List<PartitionInfo> infos, ArrayNode into) {
            for (PartitionInfo info : infos) {
                TreeSet<String> names = new TreeSet<>();
                for (Node replica : info.replicas()) {
                    names.add(replica.rack());
                }
                names.forEach(into.addArray()::add);
            }
        }

        private ObjectNode assign(AbstractPartitionAssignor assignor) {
            Map<String, Subscription> subscriptions = new HashMap<>();
            Map<String, List<PartitionInfo>> subscribed = new HashMap<>();
            for (Member member : members) {
                ConsumerPartitionAssignor its = assignor instanceof StickyAssignor ? new StickyAssignor()
                    : new CooperativeStickyAssignor();
                boolean newcomer = member.generation < 0 && assignor instanceof StickyAssignor;
                subscriptions.put(member.id,
                    member.subscription(newcomer ? null : userData(its, member.owned, member.generation)));
                member.topics.forEach(topic -> subscribed.put(topic, topics.get(topic)));
            }
            ObjectNode node = JSON.createObjectNode();
            new TreeMap<>(assignor.assignPartitions(subscribed, subscriptions))
                .forEach((member, assigned) -> node.set(member, partitions(assigned)));
            return node;
        }
    }
}
