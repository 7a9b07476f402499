// Produces the record in RECORD with kafkajs.
const { createRequire } = require('node:module');
const path = require('node:path');
// The package is installed where NODE_MODULES says, not beside this file.
const { Kafka, logLevel } = createRequire(path.join(process.env.NODE_MODULES, 'index.js'))('kafkajs');

async function main() {
  const { KAFKA, KAFKA_USER, KAFKA_PASSWORD, TOPIC, RECORD } = process.env;
  const kafka = new Kafka({
    brokers: [KAFKA],
    sasl: { mechanism: 'scram-sha-256', username: KAFKA_USER, password: KAFKA_PASSWORD },
    logLevel: logLevel.ERROR,
  });
  const producer = kafka.producer({ allowAutoTopicCreation: false });
  await producer.connect();
  const key = String(JSON.parse(RECORD).user_id);
  await producer.send({ topic: TOPIC, messages: [{ key, value: RECORD }] });
  await producer.disconnect();
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
