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
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.schema.GenericRecord;

/**
 * Values as a real AUTO_CONSUME reader decodes them with the schemas of the broker: one JSON line a message, with the value as its text.
 * Arguments: service URL, output folder, then topics; the n-th goes to n.jsonl.
 */
public class DumpTyped {
    static final ObjectMapper JSON = new ObjectMapper();

    static Map<String, Object> line(Message<GenericRecord> message) {
        GenericRecord value = message.getValue();
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("schema_version", Base64.getEncoder().encodeToString(message.getSchemaVersion()));
        line.put("key", message.hasKey() ? message.getKey() : null);
        line.put("type", value == null ? null : value.getSchemaType().name());
        line.put("value", value == null ? null : value.getNativeObject().toString());
        return line;
    }

    public static void main(String[] arguments) throws Exception {
        // Else the client's threads would keep a process alive that has failed.
        Thread.currentThread().setUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0])
                .operationTimeout(10, TimeUnit.MINUTES).build();
        for (int i = 2; i < arguments.length; i++) {
            Path file = Path.of(arguments[1]).resolve((i - 2) + ".jsonl");
            try (Reader<GenericRecord> reader = client.newReader(Schema.AUTO_CONSUME()).topic(arguments[i])
                            .startMessageId(MessageId.earliest).create();
                    BufferedWriter out = Files.newBufferedWriter(file)) {
                while (reader.hasMessageAvailable()) {
                    Message<GenericRecord> message = reader.readNext(30, TimeUnit.SECONDS);
                    if (message == null) throw new IllegalStateException("timed out in " + arguments[i]);
                    out.write(JSON.writeValueAsString(line(message)));
                    out.write('\n');
                }
            }
        }
        client.close();
        System.exit(0);
    }
}
