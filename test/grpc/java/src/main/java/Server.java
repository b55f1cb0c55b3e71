import io.grpc.HandlerRegistry;
import io.grpc.InsecureServerCredentials;
import io.grpc.MethodDescriptor;
import io.grpc.ServerMethodDefinition;
import io.grpc.stub.ServerCalls;
import io.grpc.xds.XdsServerBuilder;
import io.grpc.xds.XdsServerCredentials;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/**
 * A gRPC server of the mesh: it gets its listener by xDS, and answers every method with the name that it is given, until
 * its input ends.
 */
public final class Server {
  private static ServerMethodDefinition<byte[], byte[]> answering(String method, byte[] answer) {
    MethodDescriptor<byte[], byte[]> descriptor = MethodDescriptor.<byte[], byte[]>newBuilder(Client.SAME, Client.SAME)
        .setFullMethodName(method).setType(MethodDescriptor.MethodType.UNARY).build();
    return ServerMethodDefinition.create(descriptor, ServerCalls.asyncUnaryCall((request, answers) -> {
      answers.onNext(answer);
      answers.onCompleted();
    }));
  }

  public static void main(String[] args) throws IOException {
    byte[] name = args[1].getBytes(StandardCharsets.UTF_8);
    byte[] answer = new byte[name.length + 2]; // a message with one string field
    answer[0] = 10;
    answer[1] = (byte) name.length;
    System.arraycopy(name, 0, answer, 2, name.length);
    XdsServerBuilder.forPort(Integer.parseInt(args[0]), XdsServerCredentials.create(InsecureServerCredentials.create()))
        .fallbackHandlerRegistry(new HandlerRegistry() {
          @Override
          public ServerMethodDefinition<?, ?> lookupMethod(String method, String authority) {
            return answering(method, answer);
          }
        })
        .build().start();
    while (System.in.read() >= 0) {
      continue;
    }
    System.exit(0);
  }
}
