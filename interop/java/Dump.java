import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.impl.MessageImpl;
import org.apache.pulsar.client.impl.TopicMessageImpl;

/**
 * What a real reader sees: one JSON line a message, in order, from the start of a topic to its end as of now.
 * Arguments: service URL, output folder, private key, then topics; the n-th goes to n.jsonl. Bytes are base64.
 */
public class Dump {
    static final ObjectMapper JSON = new ObjectMapper();

    static String base64(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    static Map<String, Object> line(Message<byte[]> message) {
        MessageIdAdv id = (MessageIdAdv) message.getMessageId();
        Message<?> inner = message instanceof TopicMessageImpl<?> wrapped ? wrapped.getMessage() : message;
        boolean nullValue = ((MessageImpl<?>) inner).getMessageBuilder().isNullValue() || message.getValue() == null;
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("ledger_id", id.getLedgerId());
        line.put("entry_id", id.getEntryId());
        line.put("batch_index", id.getBatchIndex() < 0 ? null : id.getBatchIndex());
        line.put("publish_time", message.getPublishTime());
        line.put("event_time", message.getEventTime());
        line.put("key", message.hasKey() ? message.getKey() : null);
        line.put("key_base64", message.hasKey() && message.hasBase64EncodedKey());
        line.put("ordering_key", message.hasOrderingKey() ? base64(message.getOrderingKey()) : null);
        line.put("null_value", nullValue);
        line.put("value", base64(message.getData()));
        line.put("properties", message.getProperties());
        line.put("producer_name", message.getProducerName());
        line.put("sequence_id", message.getSequenceId());
        line.put("schema_version", base64(message.getSchemaVersion()));
        line.put("broker_index", message.getIndex().orElse(null));
        line.put("broker_time", message.getBrokerPublishTime().orElse(null));
        return line;
    }

    static void dump(PulsarClient client, String topic, String privateKey, Path file) throws Exception {
        String key = Path.of(privateKey).toUri().toString();
        try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(MessageId.earliest).receiverQueueSize(500)
                        .defaultCryptoKeyReader(Map.of("interop.key", key, "golden.key", key)).create();
                BufferedWriter out = Files.newBufferedWriter(file)) {
            while (reader.hasMessageAvailable()) {
                Message<byte[]> message = reader.readNext(30, TimeUnit.SECONDS);
                if (message == null) throw new IllegalStateException("timed out in " + topic);
                out.write(JSON.writeValueAsString(line(message)));
                out.write('\n');
            }
        }
    }

    /**
     * A broker that has just started may fail to recover what it knows of transactions, says so to whoever asks for a topic, and
     * tries again. Nothing else is a reason for a second attempt, which begins anew.
     */
    static void dumpAfterRecovery(PulsarClient client, String topic, String privateKey, Path file) throws Exception {
        for (int attempt = 1; ; attempt++) {
            try {
                dump(client, topic, privateKey, file);
                return;
            } catch (PulsarClientException error) {
                if (attempt == 5 || !String.valueOf(error.getMessage()).contains("Failed to recover Transaction Buffer")) throw error;
                Thread.sleep(1000);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        // Else the client's threads would keep a process alive that has failed.
        Thread.currentThread().setUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0])
                .operationTimeout(10, TimeUnit.MINUTES).build();
        for (int i = 3; i < arguments.length; i++) {
            dumpAfterRecovery(client, arguments[i], arguments[2], Path.of(arguments[1]).resolve((i - 3) + ".jsonl"));
        }
        client.close();
        System.exit(0);
    }
}
