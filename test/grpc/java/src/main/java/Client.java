import io.grpc.CallOptions;
import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.xds.XdsChannelCredentials;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/**
 * A gRPC client that does as it is told. Each line of its input is NAME, METHOD, COUNT, MILLISECONDS and the headers as
 * k=v, with tabs between; to each it answers with one line, who answered how often: "v1=90 v2=10 UNAVAILABLE=1".
 */
public final class Client {
  static final MethodDescriptor.Marshaller<byte[]> SAME = new MethodDescriptor.Marshaller<>() {
    @Override
    public InputStream stream(byte[] value) {
      return new ByteArrayInputStream(value);
    }

    @Override
    public byte[] parse(InputStream stream) {
      try {
        return stream.readAllBytes();
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  };

  private final Map<String, ManagedChannel> channels = new HashMap<>();

  private ManagedChannel channel(String name) {
    return channels.computeIfAbsent(name, n -> {
      ChannelCredentials creds = InsecureChannelCredentials.create();
      if (System.getenv("MESH") != null) {
        creds = XdsChannelCredentials.create(creds);
      }
      return Grpc.newChannelBuilder("xds:///" + n, creds).build();
    });
  }

  private String call(String[] words) {
    MethodDescriptor<byte[], byte[]> method = MethodDescriptor.<byte[], byte[]>newBuilder(SAME, SAME)
        .setFullMethodName(words[1].substring(1)).setType(MethodDescriptor.MethodType.UNARY).build();
    Metadata headers = new Metadata();
    for (int i = 4; i < words.length; i++) {
      String[] header = words[i].split("=", 2);
      headers.put(Metadata.Key.of(header[0], Metadata.ASCII_STRING_MARSHALLER), header[1]);
    }
    try {
      byte[] answer = ClientCalls.blockingUnaryCall(
          ClientInterceptors.intercept(channel(words[0]), MetadataUtils.newAttachHeadersInterceptor(headers)), method,
          CallOptions.DEFAULT.withDeadlineAfter(Long.parseLong(words[3]), TimeUnit.MILLISECONDS), new byte[0]);
      return new String(answer, 2, answer.length - 2, StandardCharsets.UTF_8); // the one string field that it has
    } catch (StatusRuntimeException e) {
      System.err.println(words[0] + words[1] + ": " + e.getStatus());
      return e.getStatus().getCode().toString();
    }
  }

  public static void main(String[] args) throws IOException {
    Client client = new Client();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split("\t");
      Map<String, Integer> tally = new TreeMap<>();
      for (int i = 0; i < Integer.parseInt(words[2]); i++) {
        tally.merge(client.call(words), 1, Integer::sum);
      }
      StringJoiner out = new StringJoiner(" ");
      tally.forEach((who, n) -> out.add(who + "=" + n));
      System.out.println(out);
      System.out.flush();
    }
    System.exit(0);
  }
}
