// A gRPC server of the mesh: it gets its listener by xDS, and answers two methods with the name that it is given, until
// its input ends.
'use strict';

const grpc = require('@grpc/grpc-js');
const xds = require('@grpc/grpc-js-xds');

xds.register();

const [, , port, name] = process.argv;
const same = (bytes) => bytes;
const answer = Buffer.concat([Buffer.from([10, name.length]), Buffer.from(name)]); // a message with one string field

const methods = {};
const answers = {};
for (const method of ['Get', 'Put']) {
  methods[method] = {
    path: `/shop.Shop/${method}`, requestStream: false, responseStream: false,
    requestSerialize: same, requestDeserialize: same, responseSerialize: same, responseDeserialize: same,
  };
  answers[method] = (call, done) => done(null, answer);
}

const server = new xds.XdsServer();
server.addService(methods, answers);
server.bindAsync(`127.0.0.1:${port}`, new xds.XdsServerCredentials(grpc.ServerCredentials.createInsecure()), (error) => {
  if (error) throw error;
});
process.stdin.on('end', () => process.exit(0)).resume();
