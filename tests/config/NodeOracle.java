// Asks Apache Kafka whether the settings of a node fit together: one JSON object of strings per line in,
// lines "ok" or "error <tab> message" out.
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import kafka.server.KafkaConfig;

public class NodeOracle {
    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Properties properties = new Properties();
            properties.putAll(mapper.readValue(line, Map.class));
            try {
                KafkaConfig.fromProps(properties, false);
                out.println("ok");
            } catch (Exception e) {
                out.println("error\t" + e.getMessage());
            }
        }
        out.flush();
    }
}
