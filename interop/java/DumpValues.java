import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import java.io.BufferedWriter;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.client.impl.MessageImpl;
import org.apache.pulsar.client.impl.PulsarClientImpl;
import org.apache.pulsar.client.impl.TopicMessageImpl;
import org.apache.pulsar.client.impl.schema.generic.GenericAvroRecord;
import org.apache.pulsar.client.impl.schema.generic.GenericJsonRecord;
import org.apache.pulsar.client.impl.schema.generic.GenericProtobufNativeRecord;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.SchemaType;

/**
 * What AUTO_CONSUME decodes with the schemas of the broker, in the words of the typed golden set: one JSON line a message, every value with
 * its type. It does not know PROTOBUF, for which the line has the bytes. Arguments: service URL, output folder, then topics; the n-th goes
 * to n.jsonl.
 */
public class DumpValues {
    static final ObjectMapper JSON = new ObjectMapper();

    static String b64(byte[] b) {
        return b == null ? null : Base64.getEncoder().encodeToString(b);
    }

    static byte[] bytes(ByteBuffer b) {
        byte[] out = new byte[b.remaining()];
        b.duplicate().get(out);
        return out;
    }

    static Map<String, Object> t(String type, Object v) {
        Map<String, Object> m = new LinkedHashMap<>();
        m.put("t", type);
        if (v != null) m.put("v", v);
        return m;
    }

    static Map<String, Object> avro(org.apache.avro.Schema s, Object v) {
        LogicalType l = s.getLogicalType();
        Map<String, Object> m;
        switch (s.getType()) {
            case NULL: return t("null", null);
            case UNION: {
                int at = GenericData.get().resolveUnion(s, v);
                m = avro(s.getTypes().get(at), v);
                if (s.getTypes().size() > 2 || s.getTypes().stream().noneMatch(x -> x.getType() == org.apache.avro.Schema.Type.NULL)) m.put("branch", at);
                return m;
            }
            case BOOLEAN: m = t("boolean", v.toString()); break;
            case INT: m = t("int", ((Integer) v).toString()); break;
            case LONG: m = t("long", ((Long) v).toString()); break;
            case FLOAT: m = t("float", ((Float) v).toString()); break;
            case DOUBLE: m = t("double", ((Double) v).toString()); break;
            case STRING: m = t("string", v.toString()); break;
            case ENUM: m = t("enum", v.toString()); break;
            case BYTES: m = decimal(t("bytes", b64(bytes((ByteBuffer) v))), l, bytes((ByteBuffer) v)); break;
            case FIXED: m = decimal(t("fixed", b64(((GenericFixed) v).bytes())), l, ((GenericFixed) v).bytes()); break;
            case ARRAY: {
                List<Object> a = new ArrayList<>();
                for (Object x : (Collection<?>) v) a.add(avro(s.getElementType(), x));
                m = t("array", a);
                break;
            }
            case MAP: {
                Map<String, Object> a = new TreeMap<>();
                for (Map.Entry<?, ?> e : ((Map<?, ?>) v).entrySet()) a.put(e.getKey().toString(), avro(s.getValueType(), e.getValue()));
                m = t("map", a);
                break;
            }
            default: {
                Map<String, Object> a = new LinkedHashMap<>();
                for (org.apache.avro.Schema.Field f : s.getFields()) a.put(f.name(), avro(f.schema(), ((IndexedRecord) v).get(f.pos())));
                m = t("record", a);
                m.put("name", s.getFullName());
            }
        }
        if (l != null) m.put("logical", l.getName());
        return m;
    }

    static Map<String, Object> decimal(Map<String, Object> m, LogicalType l, byte[] b) {
        if (l instanceof LogicalTypes.Decimal d) {
            m.put("unscaled", new BigInteger(b).toString());
            m.put("scale", d.getScale());
        }
        return m;
    }

    // ---------------------------------------------------------------- JSON: the tree that the client's record holds

    static Map<String, Object> json(JsonNode v) {
        switch (v.getNodeType()) {
            case NULL: return t("null", null);
            case BOOLEAN: return t("boolean", v.asText());
            case STRING: return t("string", v.textValue());
            case NUMBER: return t(v.isInt() ? "int" : v.isLong() ? "long" : v.isBigInteger() ? "bigint" : "double", v.isFloatingPointNumber() ? Double.toString(v.doubleValue()) : v.asText());
            case ARRAY: {
                List<Object> a = new ArrayList<>();
                for (JsonNode x : v) a.add(json(x));
                return t("array", a);
            }
            case OBJECT: {
                Map<String, Object> a = new LinkedHashMap<>();
                v.fields().forEachRemaining(e -> a.put(e.getKey(), json(e.getValue())));
                return t("object", a);
            }
            default: throw new IllegalStateException(v.getNodeType().toString());
        }
    }

    /** What getField() gives for the fields of the schema where that is not simply the node. */
    static Map<String, String> jsonFields(GenericJsonRecord r) {
        Map<String, String> out = new LinkedHashMap<>();
        for (org.apache.pulsar.client.api.schema.Field f : r.getFields()) {
            Object v;
            try {
                v = r.getField(f.getName());
            } catch (RuntimeException e) {
                out.put(f.getName(), e.getClass().getSimpleName());
                continue;
            }
            out.put(f.getName(), v == null ? "null" : v.getClass().getSimpleName());
        }
        return out;
    }

    // ---------------------------------------------------------------- Protobuf

    static Map<String, Object> message(Message v) {
        Map<String, Object> a = new LinkedHashMap<>();
        for (FieldDescriptor f : v.getDescriptorForType().getFields()) {
            if (f.isMapField()) {
                List<Object> pairs = new ArrayList<>();
                FieldDescriptor k = f.getMessageType().findFieldByNumber(1), x = f.getMessageType().findFieldByNumber(2);
                for (Object e : (List<?>) v.getField(f)) pairs.add(List.of(scalar(k, ((Message) e).getField(k)), scalar(x, ((Message) e).getField(x))));
                a.put(f.getName(), t("map", pairs));
            } else if (f.isRepeated()) {
                List<Object> items = new ArrayList<>();
                for (Object e : (List<?>) v.getField(f)) items.add(scalar(f, e));
                a.put(f.getName(), t("array", items));
            } else if (f.hasPresence() && !v.hasField(f)) a.put(f.getName(), t("unset", null));
            else a.put(f.getName(), scalar(f, v.getField(f)));
        }
        Map<String, Object> m = t("message", a);
        m.put("name", v.getDescriptorForType().getFullName());
        if (!v.getUnknownFields().asMap().isEmpty()) m.put("unknown", new ArrayList<>(new TreeSet<>(v.getUnknownFields().asMap().keySet())));
        return m;
    }

    static Map<String, Object> scalar(FieldDescriptor f, Object v) {
        switch (f.getType()) {
            case UINT32: case FIXED32: return t(f.getType().name().toLowerCase(), Integer.toUnsignedString((Integer) v));
            case UINT64: case FIXED64: return t(f.getType().name().toLowerCase(), Long.toUnsignedString((Long) v));
            case BYTES: return t("bytes", b64(((ByteString) v).toByteArray()));
            case ENUM: {
                Map<String, Object> m = t("enum", ((EnumValueDescriptor) v).getName());
                m.put("n", ((EnumValueDescriptor) v).getNumber());
                return m;
            }
            case MESSAGE: case GROUP: return message((Message) v);
            default: return t(f.getType().name().toLowerCase(), v.toString());
        }
    }

    // ---------------------------------------------------------------- everything

    static Map<String, Object> value(Object v, Schema<?> schema) {
        if (v == null) return t("null", null);
        if (v instanceof GenericAvroRecord r) return avro(r.getAvroRecord().getSchema(), r.getAvroRecord());
        if (v instanceof GenericJsonRecord r) {
            Map<String, Object> m = json(r.getJsonNode());
            m.put("fields", jsonFields(r));
            return m;
        }
        if (v instanceof GenericProtobufNativeRecord r) return message(r.getProtobufRecord());
        if (v instanceof GenericRecord r) return value(r.getNativeObject(), schema);
        if (v instanceof KeyValue<?, ?> kv) {
            Map<String, Object> m = new LinkedHashMap<>();
            m.put("t", "keyvalue");
            m.put("key", value(kv.getKey(), null));
            m.put("value", value(kv.getValue(), null));
            return m;
        }
        if (v instanceof IndexedRecord r) return avro(r.getSchema(), r);
        if (v instanceof Message p) return message(p);
        if (v instanceof byte[] b) return t("bytes", b64(b));
        if (v instanceof java.sql.Time x) return t("time", Long.toString(x.getTime()));
        if (v instanceof java.sql.Timestamp x) return t("timestamp", Long.toString(x.getTime()));
        if (v instanceof Date x) return t("date", Long.toString(x.getTime()));
        if (v instanceof Instant x) {
            Map<String, Object> m = t("instant", Long.toString(x.getEpochSecond()));
            m.put("nano", x.getNano());
            return m;
        }
        if (v instanceof LocalDate x) return t("local_date", Long.toString(x.toEpochDay()));
        if (v instanceof LocalTime x) return t("local_time", Long.toString(x.toNanoOfDay()));
        if (v instanceof LocalDateTime x) {
            Map<String, Object> m = t("local_date_time", Long.toString(x.toLocalDate().toEpochDay()));
            m.put("nano_of_day", Long.toString(x.toLocalTime().toNanoOfDay()));
            return m;
        }
        if (v instanceof Boolean || v instanceof Byte || v instanceof Short || v instanceof Integer || v instanceof Long || v instanceof Float || v instanceof Double || v instanceof String)
            return t(v.getClass().getSimpleName().toLowerCase().replace("integer", "int"), v.toString());
        if (schema != null && schema.getSchemaInfo() != null && schema.getSchemaInfo().getType() == org.apache.pulsar.common.schema.SchemaType.AVRO)
            return avro(new org.apache.avro.Schema.Parser().parse(schema.getSchemaInfo().getSchemaDefinition()), v);
        throw new IllegalStateException("no way to write a " + v.getClass());
    }

    static Map<String, Object> line(org.apache.pulsar.client.api.Message<?> m, boolean isDecoded) {
        MessageIdAdv id = (MessageIdAdv) m.getMessageId();
        MessageImpl<?> impl = (MessageImpl<?>) (m instanceof TopicMessageImpl<?> x ? x.getMessage() : m);
        Map<String, Object> o = new LinkedHashMap<>();
        o.put("ledger_id", id.getLedgerId());
        o.put("entry_id", id.getEntryId());
        o.put("batch_index", id.getBatchIndex() < 0 ? null : id.getBatchIndex());
        o.put("schema_version", b64(m.getSchemaVersion()));
        o.put("metadata_schema_version", impl.getMessageBuilder().hasSchemaVersion() ? b64(impl.getMessageBuilder().getSchemaVersion()) : null);
        o.put("key", m.hasKey() ? m.getKey() : null);
        o.put("key_base64", m.hasKey() && m.hasBase64EncodedKey());
        o.put("null_key", impl.getMessageBuilder().isNullPartitionKey());
        o.put("null_value", impl.getMessageBuilder().isNullValue());
        if (!isDecoded) {
            o.put("encoded", b64(m.getData()));
            return o;
        }
        try {
            Object v = m.getValue();
            Schema<?> reader = m.getReaderSchema().orElse(null);
            o.put("schema_type", v instanceof GenericRecord g ? g.getSchemaType().name() : reader != null && reader.getSchemaInfo() != null ? reader.getSchemaInfo().getType().name() : null);
            o.put("value", value(v, reader));
        } catch (Exception e) {
            o.put("error", e.toString());
        }
        return o;
    }

    static void dump(PulsarClientImpl client, String topic, Path file) throws Exception {
        var info = client.getSchema(topic).get();
        boolean isDecoded = info.isEmpty() || info.get().getType() != SchemaType.PROTOBUF;
        Schema<?> schema = isDecoded ? Schema.AUTO_CONSUME() : Schema.BYTES;
        try (Reader<?> reader = client.newReader(schema).topic(topic)
                        .startMessageId(MessageId.earliest).receiverQueueSize(500).create();
                BufferedWriter out = Files.newBufferedWriter(file)) {
            while (reader.hasMessageAvailable()) {
                org.apache.pulsar.client.api.Message<?> message = reader.readNext(30, TimeUnit.SECONDS);
                if (message == null) throw new IllegalStateException("timed out in " + topic);
                out.write(JSON.writeValueAsString(line(message, isDecoded)));
                out.write('\n');
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        // Else the client's threads would keep a process alive that has failed.
        Thread.currentThread().setUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        PulsarClientImpl client = (PulsarClientImpl) PulsarClient.builder().serviceUrl(arguments[0])
                .operationTimeout(10, TimeUnit.MINUTES).build();
        for (int i = 2; i < arguments.length; i++) dump(client, arguments[i], Path.of(arguments[1]).resolve((i - 2) + ".jsonl"));
        client.close();
        System.exit(0);
    }
}
