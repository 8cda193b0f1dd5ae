import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
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
 * Writes assignors.txt: user data of Kafka's own assignors, and their assignments for random groups. With the jars
 * of kafka-clients 4.1.0 and its dependencies in libs/:
 *
 *     java -cp 'libs/*' AssignorGolden.java > assignors.txt
 *
 * A line is tab-separated. `data`: assignor, partitions, generation, user data in hex. `divided`: assignor, topics
 * (name=racks of partition 0/racks of partition 1...; racks are joined by +), members
 * (id,instance,rack,topics,generation,previous partitions), result (id,partitions); partitions are topic/n+n+n.
 */
public class AssignorGolden {
    static final Random random = new Random(881);
    static final String[] RACKS = {"a", "b", "c"};

    public static void main(String[] args) {
        data();
        for (int i = 0; i < 120; i++) divided(new RangeAssignor(), false);
        for (int i = 0; i < 40; i++) divided(new RoundRobinAssignor(), false);
        for (int i = 0; i < 120; i++) divided(new StickyAssignor(), true);
        for (int i = 0; i < 60; i++) divided(new CooperativeStickyAssignor(), true);
    }

    static void data() {
        List<TopicPartition> none = List.of();
        List<TopicPartition> one = List.of(new TopicPartition("orders", 0), new TopicPartition("orders", 2));
        List<TopicPartition> two = List.of(new TopicPartition("orders", 0), new TopicPartition("clicks", 1));
        for (List<TopicPartition> partitions : List.of(none, one, two)) {
            for (ConsumerPartitionAssignor assignor : List.of(new StickyAssignor(), new CooperativeStickyAssignor())) {
                assignor.onAssignment(new Assignment(partitions), new ConsumerGroupMetadata("g", 7, "m", Optional.empty()));
                System.out.println(String.join("\t", "data", assignor.name(), show(partitions), "7", hex(assignor)));
            }
        }
        System.out.println(String.join("\t", "data", "sticky", "", "-1", hex(new StickyAssignor())));
        System.out.println(String.join("\t", "data", "cooperative-sticky", "", "-1", hex(new CooperativeStickyAssignor())));
    }

    static String hex(ConsumerPartitionAssignor assignor) {
        ByteBuffer bytes = assignor.subscriptionUserData(Set.of("orders"));
        return bytes == null ? "null" : HexFormat.of().formatHex(bytes.array());
    }

    static void divided(AbstractPartitionAssignor assignor, boolean sticky) {
        boolean racks = random.nextInt(3) > 0;
        boolean equal = random.nextBoolean();
        Map<String, List<PartitionInfo>> topics = new TreeMap<>();
        int common = random.nextInt(6) + 1;
        for (int t = 0; t <= random.nextInt(4); t++)
            topics.put("t" + t, partitions("t" + t, random.nextBoolean() ? common : random.nextInt(10) + 1, racks));
        Map<String, Subscription> members = new TreeMap<>();
        Map<String, List<TopicPartition>> previous = new TreeMap<>();
        int count = random.nextInt(7) + 1;
        for (int m = 0; m < count; m++) previous.put("m" + m, new ArrayList<>());
        // The last members may have left; their partitions have no owner.
        int gone = sticky ? random.nextInt(3) : 0;
        for (String topic : topics.keySet())
            for (PartitionInfo partition : topics.get(topic)) {
                int owner = random.nextInt(count + gone);
                if (sticky && owner < count) previous.get("m" + owner).add(new TopicPartition(topic, partition.partition()));
            }
        Set<String> wanted = new TreeSet<>();
        for (String id : previous.keySet()) {
            List<String> some = topics.keySet().stream().filter(t -> equal || random.nextInt(3) > 0).toList();
            // At least one topic: if some members subscribe to nothing and the others to the same topics, the sticky
            // assignors assign partitions to all members.
            List<String> subscribed = some.isEmpty() ? List.of("t0") : some;
            wanted.addAll(subscribed);
            List<TopicPartition> owned = previous.get(id);
            owned.removeIf(partition -> !subscribed.contains(partition.topic()));
            String rack = racks && random.nextInt(8) > 0 ? RACKS[random.nextInt(3)] : "";
            Optional<String> instance = random.nextInt(4) > 0 ? Optional.empty() : Optional.of("i" + (9 - id.charAt(1) + '0'));
            members.put(id, subscription(assignor, subscribed, owned, rack));
            members.get(id).setGroupInstanceId(instance);
        }
        topics.keySet().retainAll(wanted);
        String line = String.join("\t", "divided", assignor.name(), showTopics(topics), showMembers(members, previous));
        Map<String, List<TopicPartition>> result = new TreeMap<>(assignor.assignPartitions(topics, members));
        System.out.println(line + "\t" + result.entrySet().stream()
            .map(entry -> entry.getKey() + "," + show(entry.getValue())).collect(Collectors.joining(";")));
    }

    static Subscription subscription(AbstractPartitionAssignor assignor, List<String> topics, List<TopicPartition> owned, String rack) {
        Optional<String> rackId = rack.isEmpty() ? Optional.empty() : Optional.of(rack);
        if (assignor instanceof CooperativeStickyAssignor) return new Subscription(topics, null, owned, 7, rackId);
        if (!(assignor instanceof StickyAssignor)) return new Subscription(topics, null, List.of(), -1, rackId);
        StickyAssignor before = new StickyAssignor();
        before.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", 7, "m", Optional.empty()));
        return new Subscription(topics, before.subscriptionUserData(Set.of()), List.of(), 7, rackId);
    }

    static List<PartitionInfo> partitions(String topic, int count, boolean racks) {
        List<PartitionInfo> partitions = new ArrayList<>();
        for (int p = 0; p < count; p++) {
            Node[] replicas = new Node[random.nextInt(5) > 0 ? 2 : 1];
            int first = random.nextInt(3);
            for (int r = 0; r < replicas.length; r++) replicas[r] = new Node(r, "", 0, racks ? RACKS[(first + r) % 3] : null);
            partitions.add(new PartitionInfo(topic, p, replicas[0], replicas, replicas));
        }
        return partitions;
    }

    static String show(List<TopicPartition> partitions) {
        Map<String, TreeSet<Integer>> rows = new TreeMap<>();
        for (TopicPartition partition : partitions)
            rows.computeIfAbsent(partition.topic(), t -> new TreeSet<>()).add(partition.partition());
        return rows.entrySet().stream().map(row -> row.getKey() + "/" + row.getValue().stream()
            .map(String::valueOf).collect(Collectors.joining("+"))).collect(Collectors.joining(" "));
    }

    static String showTopics(Map<String, List<PartitionInfo>> topics) {
        return topics.entrySet().stream().map(topic -> topic.getKey() + "=" + topic.getValue().stream()
            .map(AssignorGolden::showRacks).collect(Collectors.joining("/"))).collect(Collectors.joining(" "));
    }

    static String showRacks(PartitionInfo partition) {
        return java.util.Arrays.stream(partition.replicas()).filter(node -> node.rack() != null)
            .map(Node::rack).sorted().collect(Collectors.joining("+"));
    }

    static String showMembers(Map<String, Subscription> members, Map<String, List<TopicPartition>> previous) {
        return members.entrySet().stream().map(entry -> {
            Subscription member = entry.getValue();
            return String.join(",", entry.getKey(), member.groupInstanceId().orElse(""), member.rackId().orElse(""),
                String.join("+", member.topics()), show(previous.get(entry.getKey())));
        }).collect(Collectors.joining(";"));
    }
}
