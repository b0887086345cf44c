import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.client.api.schema.SchemaDefinition;
import org.apache.pulsar.client.api.transaction.Transaction;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;

/**
 * Writes one round of every kind of message that the Java client can produce. Who unloads the topics between rounds gets
 * one ledger a round. Arguments: service URL, namespace, V1 namespace, seed, round, public key.
 */
public class Produce {
    static Random random;
    static PulsarClient client;
    static String namespace;
    static int round;

    static ProducerBuilder<byte[]> producer(String name) {
        return client.newProducer().topic("persistent://" + namespace + "/" + name).blockIfQueueFull(true)
                .batchingMaxPublishDelay(20, TimeUnit.MILLISECONDS);
    }

    static byte[] text(int n) {
        byte[] bytes = new byte[n];
        String words = "the quick brown fox offloads a lazy ledger, block by block; ";
        int at = random.nextInt(words.length());
        for (int i = 0; i < n; i++) bytes[i] = (byte) words.charAt((at + i) % words.length());
        return bytes;
    }

    static byte[] noise(int n) {
        byte[] bytes = new byte[n];
        random.nextBytes(bytes);
        return bytes;
    }

    static void all(List<CompletableFuture<MessageId>> sent) throws Exception {
        CompletableFuture.allOf(sent.toArray(new CompletableFuture[0])).get(120, TimeUnit.SECONDS);
        sent.clear();
    }

    /** Every optional field now and then: tombstones, empty values, byte keys, ordering keys, event times, many properties. */
    static TypedMessageBuilder<byte[]> rich(Producer<byte[]> producer, int i, int maxSize) {
        TypedMessageBuilder<byte[]> message = producer.newMessage();
        switch (random.nextInt(12)) {
            case 0 -> message.key("tomb-" + i % 5).value(null);
            case 1 -> message.value(new byte[0]);
            case 2 -> message.keyBytes(noise(9)).value(noise(random.nextInt(maxSize) + 1));
            case 3 -> message.key("").value(text(random.nextInt(maxSize) + 1));
            case 4 -> message.key("ключ-鍵-" + i).value(text(random.nextInt(maxSize) + 1));
            default -> message.key("k" + i % 17).value(text(random.nextInt(maxSize) + 1));
        }
        if (i % 3 == 0) message.property("n", Integer.toString(i)).property("empty", "");
        if (i % 50 == 1) for (int j = 0; j < 40; j++) message.property("prop-" + j, "värde " + j * i);
        if (i % 4 == 0) message.eventTime(1_700_000_000_000L + i * 1001L);
        if (i % 7 == 0) message.orderingKey(noise(6));
        if (i % 31 == 5) message.deliverAt(1_700_000_000_000L + i);
        return message;
    }

    static void richly(ProducerBuilder<byte[]> builder, int messages, int maxSize) throws Exception {
        try (Producer<byte[]> producer = builder.create()) {
            List<CompletableFuture<MessageId>> sent = new ArrayList<>();
            for (int i = 0; i < messages; i++) sent.add(rich(producer, i, maxSize).sendAsync());
            all(sent);
        }
    }

    static void plain() throws Exception {
        richly(producer("plain").enableBatching(false).producerName("plain-" + round).initialSequenceId(1_000_000L * round), 300, 400);
    }

    static void compressed() throws Exception {
        for (CompressionType codec : CompressionType.values()) {
            richly(producer("batched-" + codec.name().toLowerCase()).compressionType(codec).batchingMaxMessages(37), 500, 300);
        }
        for (CompressionType codec : List.of(CompressionType.LZ4, CompressionType.SNAPPY)) {
            richly(producer("single-" + codec.name().toLowerCase()).compressionType(codec).enableBatching(false), 60, 5000);
        }
    }

    static void keyed(ProducerBuilder<byte[]> builder) throws Exception {
        try (Producer<byte[]> producer = builder.create()) {
            List<CompletableFuture<MessageId>> sent = new ArrayList<>();
            for (int i = 0; i < 200; i++) sent.add(producer.newMessage().key("user" + i % 23).value(text(60 + i % 40)).sendAsync());
            all(sent);
        }
    }

    /** Several blocks of 5 MiB in a ledger; in the first round payloads end in what looks like block padding. */
    static void blocks() throws Exception {
        byte[] padding = {(byte) 0xFE, (byte) 0xDC, (byte) 0xDE, (byte) 0xAD};
        try (Producer<byte[]> producer = producer("blocks").enableBatching(false).create()) {
            List<CompletableFuture<MessageId>> sent = new ArrayList<>();
            int bytes = 0;
            for (int i = 0; bytes < 16_000_000; i++) {
                byte[] value = text(1 + random.nextInt(i % 40 == 0 ? 400_000 : 30_000));
                int tail = round == 0 ? random.nextInt(value.length / 2 + 1) : 0;
                for (int j = 0; j < tail; j++) value[value.length - 1 - j] = padding[3 - j % 4];
                bytes += value.length;
                sent.add(producer.newMessage().key("b" + i).value(value).sendAsync());
                if (sent.size() == 200) all(sent);
            }
            all(sent);
        }
    }

    /** Two producers whose chunks lie between each other's, one of them compressing. */
    static void chunked() throws Exception {
        ProducerBuilder<byte[]> chunking = producer("chunked").enableBatching(false).enableChunking(true).chunkMaxMessageSize(20_000);
        try (Producer<byte[]> a = chunking.clone().producerName("chunk-a-" + round).create();
                Producer<byte[]> b = chunking.clone().producerName("chunk-b-" + round).compressionType(CompressionType.ZSTD).create()) {
            List<CompletableFuture<MessageId>> sent = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                sent.add(a.newMessage().key("a" + i).value(text(10_000 + random.nextInt(90_000))).sendAsync());
                sent.add(b.newMessage().key("b" + i).property("i", "" + i).value(noise(10_000 + random.nextInt(90_000))).sendAsync());
            }
            all(sent);
        }
    }

    static void encrypted(Path publicKey) throws Exception {
        for (boolean batching : new boolean[] {false, true}) {
            try (Producer<byte[]> producer = producer("encrypted").addEncryptionKey("interop.key").enableBatching(batching)
                    .batchingMaxMessages(7).compressionType(CompressionType.LZ4)
                    .defaultCryptoKeyReader(Map.of("interop.key", publicKey.toUri().toString())).create()) {
                List<CompletableFuture<MessageId>> sent = new ArrayList<>();
                for (int i = 0; i < 20; i++) sent.add(producer.newMessage().key("e" + i).value(text(120 + i)).sendAsync());
                all(sent);
            }
        }
    }

    public static class Order {
        public long id;
        public String customer;
        public List<String> tags;
    }

    static Order order(int i) {
        Order order = new Order();
        order.id = i;
        order.customer = i % 9 == 0 ? null : "customer-" + i % 11;
        order.tags = i % 4 == 0 ? null : List.of("a" + i, "ü");
        return order;
    }

    static <T> void typed(String name, Schema<T> schema, List<T> values, boolean batching) throws Exception {
        String topic = "persistent://" + namespace + "/" + name + (batching ? "-batched" : "");
        try (Producer<T> producer = client.newProducer(schema).topic(topic).enableBatching(batching).batchingMaxMessages(9).create()) {
            List<CompletableFuture<MessageId>> sent = new ArrayList<>();
            for (T value : values) sent.add(producer.newMessage().value(value).sendAsync());
            all(sent);
        }
    }

    static void schemas() throws Exception {
        List<Order> orders = new ArrayList<>();
        List<KeyValue<String, Order>> pairs = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            orders.add(order(i));
            pairs.add(new KeyValue<>("pair" + i, order(i)));
        }
        SchemaDefinition<Order> definition = SchemaDefinition.<Order>builder().withPojo(Order.class).build();
        for (boolean batching : new boolean[] {true, false}) {
            typed("avro", Schema.AVRO(definition), orders, batching);
            typed("kv-separated", Schema.KeyValue(Schema.STRING, Schema.AVRO(definition), KeyValueEncodingType.SEPARATED), pairs, batching);
        }
    }

    /** Committed and aborted transactions, and messages outside of any between theirs. */
    static void transactions() throws Exception {
        try (Producer<byte[]> producer = producer("txn").sendTimeout(0, TimeUnit.SECONDS).enableBatching(round == 0).batchingMaxMessages(5).create()) {
            for (int t = 0; t < 6; t++) {
                boolean abort = t % 3 == 2;
                Transaction transaction = client.newTransaction().withTransactionTimeout(1, TimeUnit.MINUTES).build().get();
                List<CompletableFuture<MessageId>> sent = new ArrayList<>();
                for (int i = 0; i < 8; i++) {
                    byte[] value = ("txn " + t + " message " + i).getBytes(StandardCharsets.UTF_8);
                    sent.add(producer.newMessage(transaction).key("t" + t).property("fate", abort ? "abort" : "commit").value(value).sendAsync());
                    if (i % 4 == 0) sent.add(producer.newMessage().key("free").value(value).sendAsync());
                }
                producer.flush();
                all(sent);
                if (abort) transaction.abort().get(); else transaction.commit().get();
            }
        }
    }

    static void names(String oldNamespace) throws Exception {
        for (String name : List.of("päth%2Fencoded", "q?x=1&y=#2", "tail.entries")) richly(producer(name), 10, 100);
        richly(producer("old").topic("persistent://" + oldNamespace + "/orders é"), 100, 100);
    }

    public static void main(String[] arguments) throws Exception {
        // Else the client's threads would keep a process alive that has failed.
        Thread.currentThread().setUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        namespace = arguments[1];
        round = Integer.parseInt(arguments[4]);
        random = new Random(Long.parseLong(arguments[3]) * 1000 + round);
        client = PulsarClient.builder().serviceUrl(arguments[0])
                .operationTimeout(10, TimeUnit.MINUTES).enableTransaction(true).build();
        plain();
        compressed();
        keyed(producer("batched-by-key").batcherBuilder(BatcherBuilder.KEY_BASED).batchingMaxMessages(50));
        keyed(producer("partitioned").batchingMaxMessages(10));
        blocks();
        chunked();
        encrypted(Path.of(arguments[5]));
        schemas();
        transactions();
        names(arguments[2]);
        client.close();
        System.exit(0);
    }
}
