'use strict';
// Consumes a topic with pulsar-flex, and reports each event as a line of JSON.
const { Consumer, logLevel } = require('pulsar-flex');

const {
  ADMIN_URL, SERVICE_URL, TOPIC, SUBSCRIPTION, SUBSCRIPTION_TYPE, COUNT, IDLE_SECONDS,
} = process.env;
const TYPES = {
  Exclusive: Consumer.SUB_TYPES.EXCLUSIVE,
  Failover: Consumer.SUB_TYPES.FAILOVER,
  Shared: Consumer.SUB_TYPES.SHARED,
  Key_Shared: Consumer.SUB_TYPES.KEY_SHARED,
};

const report = (event) => process.stdout.write(JSON.stringify(event) + '\n');

// pulsar-flex takes an initial position and does not send it, so its subscriptions begin at the latest message. The
// admin API creates one that begins at the earliest. 409: it is there.
const createSubscription = async () => {
  const path = TOPIC.replace('://', '/') + '/subscription/' + encodeURIComponent(SUBSCRIPTION);
  const answer = await fetch(`${ADMIN_URL}/admin/v2/${path}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ledgerId: -1, entryId: -1, partitionIndex: -1 }),
  });
  if (!answer.ok && answer.status !== 409) console.error(`subscription not created: HTTP ${answer.status}`);
};

const main = async () => {
  await createSubscription();
  let received = 0;
  let idle;
  const consumer = new Consumer({
    topic: TOPIC,
    subscription: SUBSCRIPTION,
    subType: TYPES[SUBSCRIPTION_TYPE],
    consumerName: 'consume',
    discoveryServers: SERVICE_URL.replace('pulsar://', '').split(','),
    reconnectInterval: 500,
    logLevel: logLevel.INFO,
    logCreator: () => ({ label, log }) => console.error(log.timestamp, label, log.message),
  });
  const end = async () => {
    clearTimeout(idle);
    await consumer.unsubscribe(); // sends CLOSE_CONSUMER: the subscription stays
    report({ event: 'done' });
    process.exit(0);
  };
  const fail = (error) => report({ event: 'error', text: String((error && error.message) || error) });
  const wait = () => {
    clearTimeout(idle);
    idle = setTimeout(() => end().catch(fail), Number(IDLE_SECONDS) * 1000);
  };
  consumer.onStateChange(({ newState }) => {
    if (newState === Consumer.CONSUMER_STATES.RECONNECTING) report({ event: 'reconnect' });
  });
  process.on('unhandledRejection', fail);
  await consumer.subscribe();
  report({ event: 'ready' });
  wait();
  await consumer.run({
    autoAck: false,
    onMessage: async ({ message, command, redeliveryCount, ack }) => {
      wait();
      const { ledgerid, entryid, partition } = command.messageId;
      const payload = message.toString();
      report({ event: 'message', payload, id: `${ledgerid}:${entryid}:${partition}:-1`, redeliveries: redeliveryCount });
      received += 1;
      await ack();
      if (received >= Number(COUNT)) await end();
    },
  });
};

main().catch((error) => {
  report({ event: 'error', text: String((error && error.message) || error) });
  process.exit(1);
});
