// A gRPC client that does as it is told. Each line of its input is NAME, METHOD, COUNT, MILLISECONDS and the headers as
// k=v, with tabs between; to each it answers with one line, who answered how often: "v1=90 v2=10 UNAVAILABLE=1".
'use strict';

const readline = require('readline');
const grpc = require('@grpc/grpc-js');
const xds = require('@grpc/grpc-js-xds');

xds.register();

const channels = new Map();
const same = (bytes) => bytes;

function channel(name) {
  if (!channels.has(name)) {
    const insecure = grpc.credentials.createInsecure();
    const creds = process.env.MESH ? new xds.XdsChannelCredentials(insecure) : insecure;
    channels.set(name, new grpc.Client(`xds:///${name}`, creds));
  }
  return channels.get(name);
}

// text reads the one string field that an answer has.
function text(bytes) {
  return bytes.subarray(2).toString();
}

function call(name, method, milliseconds, headers) {
  const metadata = new grpc.Metadata();
  for (const [key, value] of headers) metadata.set(key, value);
  return new Promise((done) => {
    const deadline = Date.now() + milliseconds;
    channel(name).makeUnaryRequest(method, same, same, Buffer.alloc(0), metadata, { deadline }, (error, answer) => {
      if (error) process.stderr.write(`${name}${method}: ${error.message}\n`);
      done(error ? grpc.status[error.code] : text(answer));
    });
  });
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [name, method, count, milliseconds, ...headers] = line.split('\t');
    const tally = {};
    for (let i = 0; i < Number(count); i++) {
      const who = await call(name, method, Number(milliseconds), headers.map((h) => h.split('=')));
      tally[who] = (tally[who] || 0) + 1;
    }
    process.stdout.write(Object.entries(tally).map(([who, n]) => `${who}=${n}`).join(' ') + '\n');
  }
  process.exit(0);
}

main();
