import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.transaction.Transaction;

/**
 * Transactions one after the other until somebody kills it: each says what became of it and when, "TIME committed NUMBER MESSAGES", in ms.
 * Some are aborted, some never end. Messages are "NUMBER of MESSAGES". Arguments: service URL, topic, seed.
 */
public class Transactions {
    public static void main(String[] arguments) throws Exception {
        Random random = new Random(Long.parseLong(arguments[2]));
        PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0])
                .operationTimeout(10, TimeUnit.MINUTES).enableTransaction(true).build();
        Producer<byte[]> producer = client.newProducer().topic(arguments[1]).sendTimeout(0, TimeUnit.SECONDS)
                .enableBatching(false).create();
        for (int number = 0; true; number++) {
            Transaction transaction = client.newTransaction().withTransactionTimeout(1, TimeUnit.HOURS).build().get();
            int messages = 1 + random.nextInt(9);
            byte[] value = (number + " of " + messages).getBytes(StandardCharsets.UTF_8);
            List<CompletableFuture<MessageId>> sent = new ArrayList<>();
            for (int i = 0; i < messages; i++) sent.add(producer.newMessage(transaction).value(value).sendAsync());
            CompletableFuture.allOf(sent.toArray(new CompletableFuture[0])).get();
            String fate = switch (random.nextInt(5)) {
                case 0 -> "aborted";
                case 1 -> "open";
                default -> "committed";
            };
            if (fate.equals("committed")) transaction.commit().get();
            if (fate.equals("aborted")) transaction.abort().get();
            System.out.println(System.currentTimeMillis() + " " + fate + " " + number + " " + messages);
        }
    }
}
